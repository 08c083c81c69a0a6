//! Owners that take random locks in random order: those that are told of a deadlock were in one, and none waits for ever.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use leaselock::{AcquireError, Client, Lease, Owner, Wait};
use testkit::{Child, clock};

use super::history::{Asked, End, History, Told};
use super::witness::{judge, moved};
use super::{LONG, Mode, PERMITS, Request};
use crate::child::from_now;
use crate::figures::Figures;
use crate::place::Place;
use crate::rounds;

const PROCESSES: usize = 4;
const WORKERS: u64 = 4;
const NAMES: u64 = 12;
/// A wait that has not ended by then never will. The long leases do not end by themselves meanwhile.
const PATIENCE: Duration = Duration::from_secs(40);
/// What a killed process held is free again after this.
const SHORT: Duration = Duration::from_secs(3);

/// What happens besides deadlocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// All wait until they are granted or told: only a victim gives up.
    Patient,
    /// Waits have limits, are dropped, and processes are killed.
    Rough,
}

impl FromStr for How {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<How, Self::Err> {
        Ok(match text {
            "Patient" => How::Patient,
            _ => How::Rough,
        })
    }
}

/// One process. `place`: the URL, and the ports of its servers.
pub(crate) async fn works(place: &str, path: &Path, seed: u64, how: How, until: Duration) {
    let mut words = place.split(' ');
    let url = words.next().unwrap();
    let ports: Arc<[u16]> = words.map(|port| port.parse().unwrap()).collect();
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let client = Client::open(url).unwrap();
            let worker = Worker {
                history: History::append(path, client.id()),
                client,
                ports: Arc::clone(&ports),
                rng: Rng::with_seed(seed * 100 + number),
                how,
            };
            tokio::spawn(worker.works(until))
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
}

struct Worker {
    client: Client,
    history: History,
    ports: Arc<[u16]>,
    rng: Rng,
    how: How,
}

impl Worker {
    async fn works(mut self, until: Duration) {
        while clock::now() < until {
            let owner = self.client.owner("worker");
            let mut names: Vec<u64> = (0..NAMES).collect();
            self.rng.shuffle(&mut names);
            let mut held = Vec::new();
            for number in &names[..self.rng.usize(2..=4)] {
                match self.asks(&owner, &format!("name-{number}")).await {
                    Ok(lease) => held.extend(lease),
                    Err(Victim) => break,
                }
            }
            tokio::time::sleep(Duration::from_millis(self.rng.u64(..3))).await; // the work
            let lost = held.iter().any(|lease: &Lease<()>| !lease.is_held());
            self.history.releases(lost);
            for lease in held {
                drop(lease.release().await); // a lease may be lost on a busy machine
            }
        }
        self.client.close().await;
    }

    /// `None`: it gave up.
    async fn asks(&mut self, owner: &Owner, name: &str) -> Result<Option<Lease<()>>, Victim> {
        let mode = match self.rng.u64(..6) {
            0 | 1 => Mode::Alone,
            2 => Mode::Read,
            _ => Mode::Permits(1 + self.rng.u32(..PERMITS)),
        };
        let limit = Duration::from_millis(1) + Duration::from_millis(self.rng.u64(..50));
        let (limit, is_dropped) = match (self.how, self.rng.u64(..8)) {
            (How::Rough, 0 | 1) => (Some(limit), false),
            (How::Rough, 2) => (Some(limit), true),
            _ => (None, false),
        };
        let has_waited = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&has_waited);
        let request = Request {
            client: &self.client,
            owner,
            name,
            mode,
            ttl: if self.how == How::Rough { SHORT } else { LONG },
            wait: limit
                .filter(|_| !is_dropped)
                .map_or(Wait::Forever, Wait::Timeout),
            on_wait: Arc::new(move || tells.store(true, Ordering::Relaxed)),
        };
        self.history.asks(name, limit);
        let longest = limit.filter(|_| is_dropped).unwrap_or(PATIENCE);
        match tokio::time::timeout(longest, request.acquire()).await {
            Ok(Ok(lease)) => {
                self.history.granted(has_waited.load(Ordering::Relaxed));
                Ok(Some(lease))
            }
            Ok(Err(AcquireError::Deadlock { circle, .. })) => {
                self.history.deadlock(&circle, &moved(&self.ports, &circle));
                Err(Victim)
            }
            Ok(Err(AcquireError::TimedOut { .. })) if limit.is_some() => {
                self.history.gave_up();
                Ok(None)
            }
            // On a machine that is busy for longer than a request may take.
            Ok(Err(AcquireError::Unknown { .. } | AcquireError::Store { .. })) => {
                self.history.gave_up();
                Ok(None)
            }
            Ok(Err(error)) => panic!("{error}"),
            Err(_) => {
                assert!(is_dropped, "{name}: it has waited for {PATIENCE:?}");
                self.history.gave_up();
                Ok(None)
            }
        }
    }
}

/// It was told of a deadlock.
struct Victim;

/// Starts the processes, and kills one of them now and then when it is to be rough. Returns who was killed, and when.
fn run(place: &Place, path: &Path, how: How, time: Duration) -> BTreeMap<u32, Duration> {
    let ports = place
        .servers()
        .iter()
        .map(|server| format!(" {}", server.port()));
    let (target, at) = (
        place.urls() + &ports.collect::<String>(),
        path.display().to_string(),
    );
    let (end, until, how_text) = (clock::now() + time, from_now(time), format!("{how:?}"));
    let mut seed = 0_u64;
    let mut start = || {
        seed += 1;
        let words = [&target, &at, &seed.to_string(), &how_text, &until];
        Child::start("waits at random", &words.map(String::as_str))
    };
    let mut processes: Vec<Child> = (0..PROCESSES).map(|_| start()).collect();
    let (mut killed, mut rng) = (BTreeMap::new(), Rng::with_seed(time.as_secs()));
    while how == How::Rough && clock::now() + SHORT < end {
        // Between two kills they get on with it.
        std::thread::sleep(Duration::from_secs(1) + Duration::from_millis(rng.u64(..2_000)));
        let victim = rng.usize(..PROCESSES);
        processes[victim].kill();
        killed.insert(processes[victim].id(), clock::now());
        processes[victim] = start();
    }
    processes.into_iter().for_each(Child::ends_well);
    killed
}

fn only_deadlocks_are_told_and_none_is_missed(place: &Place, how: How, time: Duration) {
    let folder = testkit::tempdir().unwrap();
    let path = folder.path().join("history");
    let killed = run(place, &path, how, time);
    let told = Told::read(&path);
    let holding = |asked: &&Asked| !asked.held.is_empty();
    let asked: Vec<&Asked> = told.all().map(|(_, asked)| asked).filter(holding).collect();
    let waited =
        |asked: &&&Asked| !matches!(asked.end, Some((_, End::Granted { has_waited: false })));
    let waits: Vec<&&Asked> = asked.iter().filter(waited).collect();
    let gave_up = waits
        .iter()
        .filter(|asked| matches!(asked.end, Some((_, End::GaveUp))));
    let times: Figures = waits
        .iter()
        .filter_map(|asked| Some(asked.end.as_ref()?.0 - asked.began))
        .collect();
    let verdict = judge(&told, &killed);
    println!(
        "{place:8} {how:?}: {} requests and {} waits of owners that held something, {} of them given up, {} processes \
         killed, {} leases lost; {} deadlocks, {} still whole when the victim had been told, {} wrong; waits lasted \
         {times}, p99 {:.1?}",
        asked.len(),
        waits.len(),
        gave_up.count(),
        killed.len(),
        told.losses.len(),
        verdict.deadlocks,
        verdict.seen_whole,
        verdict.wrong.len(),
        times.percentile(99),
    );
    assert_eq!(verdict.wrong, [""; 0], "{place}");
    assert!(verdict.deadlocks > 0, "{place}");
}

#[test]
fn owners_that_wait_at_random_are_told_of_deadlocks_and_of_nothing_else() {
    let seconds = |few, long| Duration::from_secs(rounds(few, long) as u64);
    for how in [How::Patient, How::Rough] {
        only_deadlocks_are_told_and_none_is_missed(&Place::server(), how, seconds(3, 120));
        only_deadlocks_are_told_and_none_is_missed(&Place::folder(), how, seconds(2, 60));
        if rounds(0, 1) > 0 {
            only_deadlocks_are_told_and_none_is_missed(&Place::cluster(), how, seconds(3, 60));
        }
    }
}
