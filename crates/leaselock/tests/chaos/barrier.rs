//! Fifty parties at a barrier, and a thousand waiters at a latch.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use leaselock::{BarrierError, Client};
use testkit::{Child, Server, clock, wait_until};
use tokio::task::JoinSet;

use crate::figures::Figures;
use crate::rounds;

const PROCESSES: usize = 5;
const EACH: u32 = 10;
const PARTIES: u32 = 50;
/// For so long a party counts that was killed.
const COUNTED: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(600);
/// Of a score in `lua/barrier.lua`: the rest is the index.
const PER_GENERATION: u64 = 1_048_576;

/// One process with its parties. They never end.
pub(crate) async fn works(url: &str, path: &Path, seed: u64) {
    let mut parties = JoinSet::new();
    for number in 0..u64::from(EACH) {
        let (client, path) = (Client::connect(url).unwrap(), path.to_owned());
        parties.spawn(waits_again_and_again(
            client,
            path,
            Rng::with_seed(seed * 100 + number),
        ));
    }
    parties.join_all().await;
}

/// Half of the waits have a limit about as long as a generation takes, and some of those are dropped at their limit.
async fn waits_again_and_again(client: Client, path: std::path::PathBuf, mut rng: Rng) {
    let mut passes = OpenOptions::new().append(true).open(path).unwrap();
    let barrier = client.barrier("phase", PARTIES).ttl(COUNTED);
    loop {
        let limit = Duration::from_millis(1) + Duration::from_millis(rng.u64(..100));
        let outcome = match rng.u64(..4) {
            0 => barrier.wait_within(limit).await,
            1 => match tokio::time::timeout(limit, barrier.wait()).await {
                Ok(outcome) => outcome,
                Err(_) => continue, // dropped
            },
            _ => barrier.wait().await,
        };
        match outcome {
            Ok(pass) => {
                let line = format!("{} {}\n", pass.generation, pass.index);
                // One write to a file opened for appending: lines of several processes do not mix.
                passes.write_all(line.as_bytes()).unwrap();
            }
            Err(BarrierError::TimedOut { .. }) => {}
            // On a machine that is busy for longer than a request may take, or than a party counts.
            Err(BarrierError::Missed { .. } | BarrierError::Store { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The indexes of those that have passed the latest generations, as the server has them.
fn passed(server: &Server) -> BTreeMap<u64, Vec<u64>> {
    let reply = server.cli(&["ZRANGE", "{phase}:ll:passed", "0", "-1", "WITHSCORES"]);
    let mut generations = BTreeMap::<u64, Vec<u64>>::new();
    for entry in reply.list().unwrap().chunks(2) {
        let score: u64 = entry[1].text().unwrap().parse().unwrap();
        let indexes = generations.entry(score / PER_GENERATION).or_default();
        indexes.push(score % PER_GENERATION);
    }
    generations
}

#[test]
fn exactly_fifty_pass_each_generation_while_parties_give_up_and_are_killed() {
    let generations = rounds(25, 1_000) as u64;
    let (server, folder) = (Server::start(), testkit::tempdir().unwrap());
    let path = folder.path().join("passes");
    std::fs::write(&path, "").unwrap();
    let (url, at) = (server.url(), path.display().to_string());
    let mut seed = 0_u64;
    let mut start = || {
        seed += 1;
        Child::start("waits at a barrier", &[&url, &at, &seed.to_string()])
    };
    let mut processes: Vec<Child> = (0..PROCESSES).map(|_| start()).collect();
    let (mut seen, mut rng, mut killed) = (BTreeSet::new(), Rng::with_seed(7), 0);
    let began = clock::now();
    wait_until(PATIENCE, "all generations have passed", || {
        let all: Vec<u64> = (0..u64::from(PARTIES)).collect();
        let now = passed(&server);
        for (generation, indexes) in &now {
            assert_eq!(*indexes, all, "generation {generation}");
            seen.insert(*generation);
        }
        let latest = now.keys().last().copied().unwrap_or_default();
        if latest >= 10 * (killed + 1) {
            let victim = rng.usize(..PROCESSES);
            processes[victim].kill();
            processes[victim] = start();
            killed += 1;
        }
        latest + 1 >= generations
    });
    let took = clock::now() - began;
    drop(processes);
    let text = std::fs::read_to_string(&path).unwrap();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut told = BTreeSet::new();
    for line in whole.lines() {
        let (generation, index) = line.split_once(' ').unwrap();
        let pass: (u64, u32) = (generation.parse().unwrap(), index.parse().unwrap());
        assert!(pass.1 < PARTIES, "{pass:?}");
        assert!(told.insert(pass), "two were told {pass:?}");
    }
    println!(
        "{generations} generations of {PARTIES} parties in {took:.1?}, {killed} processes killed; {} generations read from \
         the server, each with {PARTIES} parties; {} passes told, the others were dropped or killed",
        seen.len(),
        told.len()
    );
    assert!(killed > 0 && seen.len() > 1 && !told.is_empty());
}

/// How long it takes from the last arrival until each of a thousand waiters goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_at_a_latch_go_on_after_one_message() {
    const CLIENTS: usize = 10;
    const EACH: usize = 100;
    let server = Server::start();
    let clients = [(); CLIENTS].map(|()| Client::connect(&server.url()).unwrap());
    let arriving = Client::connect(&server.url()).unwrap();
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
