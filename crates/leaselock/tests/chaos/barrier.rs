//! Parties at a barrier that give up, are killed, or are more than pass together; and a thousand waiters at a latch.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use leaselock::Client;
use leaselock::barrier::{Barrier, BarrierError};
use testkit::{Child, Server, clock, wait_until};
use tokio::task::JoinSet;

use crate::figures::Figures;
use crate::place::Place;
use crate::rounds;

const PATIENCE: Duration = Duration::from_secs(3600);
/// What a party writes about each wait has this length, so that the length of a file says how many there are.
const LINE: usize = 24;

/// Who waits at a barrier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    parties: u32,
    processes: usize,
    callers_of_each: u32,
    /// For so long a party counts that was killed.
    counted: Duration,
    gives_up: bool,
}

/// As many callers as parties, half of whose waits have a limit about as long as a generation takes.
const GIVES_UP: Crowd = Crowd {
    parties: 50,
    processes: 5,
    callers_of_each: 10,
    counted: Duration::from_secs(2),
    gives_up: true,
};

/// Half as many callers again as parties, so that generations pass while a party learns that it passed.
const MORE: Crowd = Crowd {
    parties: 2,
    processes: 3,
    callers_of_each: 1,
    counted: Duration::from_secs(30),
    gives_up: false,
};

/// Three times as many callers as parties.
const MANY_MORE: Crowd = Crowd {
    callers_of_each: 2,
    ..MORE
};

impl Crowd {
    /// The one that a child was told of.
    pub(crate) fn named(name: &str) -> Crowd {
        let all = [GIVES_UP, MORE, MANY_MORE];
        all.into_iter().find(|crowd| crowd.name() == name).unwrap()
    }

    fn name(self) -> String {
        let callers = self.callers();
        format!("{} parties and {callers} callers", self.parties)
    }

    fn callers(self) -> usize {
        self.processes * self.callers_of_each as usize
    }

    fn barrier(self, client: &Client) -> Barrier {
        client
            .barrier("phase", self.parties)
            .party_lease(self.counted)
    }

    /// One process with its callers. They never end.
    pub(crate) async fn works(self, url: &str, path: &Path, seed: u64) {
        let mut callers = JoinSet::new();
        for number in 0..u64::from(self.callers_of_each) {
            let (client, path) = (Client::open(url).unwrap(), path.to_owned());
            let rng = Rng::with_seed(seed * 100 + number);
            callers.spawn(self.waits_again_and_again(client, path, rng));
        }
        callers.join_all().await;
    }

    /// Writes each pass. Some waits that have a limit are dropped at it.
    async fn waits_again_and_again(self, client: Client, path: PathBuf, mut rng: Rng) {
        let mut outcomes = OpenOptions::new().append(true).open(path).unwrap();
        let barrier = self.barrier(&client);
        loop {
            let limit = Duration::from_millis(1) + Duration::from_millis(rng.u64(..100));
            let way = if self.gives_up { rng.u64(..4) } else { 2 };
            let outcome = match way {
                0 => barrier.wait_within(limit).await,
                1 => match tokio::time::timeout(limit, barrier.wait()).await {
                    Ok(outcome) => outcome,
                    Err(_) => {
                        write(&mut outcomes, "untold"); // dropped
                        continue;
                    }
                },
                _ => barrier.wait().await,
            };
            match outcome {
                Ok(pass) => write(
                    &mut outcomes,
                    &format!("{} {}", pass.generation, pass.index),
                ),
                Err(BarrierError::TimedOut { .. }) => {}
                // On a machine that is busy for longer than a party counts.
                Err(BarrierError::Missed { .. }) if self.gives_up => write(&mut outcomes, "untold"),
                // On a machine that is busy for longer than a request may take.
                Err(BarrierError::Store { .. }) => write(&mut outcomes, "untold"),
                Err(BarrierError::Missed { .. }) => write(&mut outcomes, "missed"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// One write to a file opened for appending: lines of several callers do not mix.
fn write(outcomes: &mut impl Write, outcome: &str) {
    let line = format!("{outcome:>width$}\n", width = LINE - 1);
    outcomes.write_all(line.as_bytes()).unwrap();
}

/// What the callers of all processes were told.
#[derive(Default)]
struct Told {
    passes: BTreeSet<(u64, u32)>,
    /// How many waits ended, or were killed, without knowing whether they passed.
    untold: usize,
}

impl Told {
    fn read(&mut self, path: &Path, crowd: Crowd) {
        let text = std::fs::read_to_string(path).unwrap();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines().map(str::trim) {
            let Some((generation, index)) = line.split_once(' ') else {
                assert_eq!(line, "untold", "the store forgot whether a party passed");
                self.untold += 1;
                continue;
            };
            let pass: (u64, u32) = (generation.parse().unwrap(), index.parse().unwrap());
            assert!(pass.1 < crowd.parties, "{pass:?}");
            assert!(self.passes.insert(pass), "two were told {pass:?}");
        }
        self.untold += crowd.callers_of_each as usize; // it was killed, and each of its callers waited
    }
}

/// Lets so many waits pass, and kills a process each time that `kill_after` more have. Then each place in each
/// generation was told to one party, but for those whose wait was dropped or killed.
async fn passes(place: &Place, crowd: Crowd, count: usize, kill_after: usize) {
    let (url, folder) = (place.urls(), testkit::tempdir().unwrap());
    let mut paths: Vec<PathBuf> = Vec::new();
    let start = |paths: &mut Vec<PathBuf>| {
        let path = folder.path().join(paths.len().to_string());
        std::fs::write(&path, "").unwrap();
        let (at, seed) = (path.display().to_string(), paths.len().to_string());
        paths.push(path);
        Child::start("waits at a barrier", &[&url, &at, &seed, &crowd.name()])
    };
    let mut processes: Vec<Child> = (0..crowd.processes).map(|_| start(&mut paths)).collect();
    let (mut rng, mut killed) = (Rng::with_seed(7), 0);
    let length = |path: &PathBuf| std::fs::metadata(path).unwrap().len();
    let began = clock::now();
    wait_until(PATIENCE, "all have passed", || {
        let bytes = paths.iter().map(length).sum::<u64>();
        let so_far = usize::try_from(bytes).unwrap() / LINE;
        if so_far >= kill_after * (killed + 1) {
            let victim = rng.usize(..crowd.processes);
            processes[victim].kill();
            processes[victim] = start(&mut paths);
            killed += 1;
        }
        so_far >= count
    });
    let took = clock::now() - began;
    drop(processes);
    // Fewer wait than pass together, so the first of these that passes is in the next generation.
    let client = Client::open(&url).unwrap();
    let mut last: JoinSet<_> = (0..crowd.parties)
        .map(|_| {
            let barrier = crowd.barrier(&client);
            async move { barrier.wait().await }
        })
        .collect();
    let generations = last.join_next().await.unwrap().unwrap().unwrap().generation;
    let mut told = Told::default();
    for path in &paths {
        told.read(path, crowd);
    }
    let all = usize::try_from(generations).unwrap() * crowd.parties as usize;
    let beyond = told.passes.range((generations, 0)..).next();
    assert_eq!(beyond, None, "a generation that has not passed");
    let lacking = all - told.passes.len();
    println!(
        "{place}, {}: {generations} generations in {took:.1?} are {all} passes; {} were told, and {lacking} were those of \
         the {} waits that were dropped or killed; {killed} processes were killed",
        crowd.name(),
        told.passes.len(),
        told.untold
    );
    assert!(lacking <= told.untold && killed > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_fifty_pass_each_generation_while_parties_give_up_and_are_killed() {
    let generations = rounds(25, 1_000);
    // About half of the waits pass and are told so.
    passes(&Place::server(), GIVES_UP, generations * 50, 500).await;
}

/// A party that passed is told so, however many generations pass while it learns that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_pass_is_told_to_one_party_with_more_callers_than_parties() {
    let thousands = rounds(2, 250);
    for crowd in [MORE, MANY_MORE] {
        for place in [Place::server(), Place::folder()] {
            passes(&place, crowd, thousands * 1_000, 1_000).await;
        }
    }
}

/// How long it takes from the last arrival until each of a thousand waiters goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_at_a_latch_go_on_after_one_message() {
    const CLIENTS: usize = 10;
    const EACH: usize = 100;
    let server = Server::start();
    let clients = [(); CLIENTS].map(|()| Client::open(&server.url()).unwrap());
    let arriving = Client::open(&server.url()).unwrap();
    let (mut all, mut lasts, mut round_trips) =
        (Figures::default(), Figures::default(), Figures::default());
    for round in 0..rounds(1, 20) {
        let name = format!("deploy-{round}");
        let mut waiters = JoinSet::new();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        for client in &clients {
            for _ in 0..EACH {
                let (latch, tell) = (client.latch(&*name, 1), tell.clone());
                waiters.spawn(async move {
                    // It has read once, and is subscribed, when it has been told that the latch is closed.
                    drop(latch.wait_within(Duration::ZERO).await);
                    tell.send(()).unwrap();
                    latch.wait().await.unwrap();
                    clock::now()
                });
            }
        }
        for _ in 0..CLIENTS * EACH {
            told.recv().await.unwrap();
        }
        round_trips
            .time(arriving.latch(&*name, 1).state())
            .await
            .unwrap();
        let began = clock::now();
        arriving.latch(&*name, 1).arrive("last").await.unwrap();
        let woken: Figures = waiters
            .join_all()
            .await
            .into_iter()
            .map(|at| at.saturating_sub(began))
            .collect();
        lasts.add(woken.worst());
        all.add_all(&woken);
    }
    println!(
        "{} waiters at a latch: each went on {all} after the arrival began, p99 {:.1?}, the last one {lasts}; a round trip \
         {round_trips}",
        CLIENTS * EACH,
        all.percentile(99)
    );
}
