//! Fences follow the server's clock, however fast leases pass from task to task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leaselock::Client;
use testkit::{Server, clock, tempdir};

use crate::support::{FENCE_AHEAD_US, PATIENCE, latest_fence, set_fence, time_us};

const CLIENTS: usize = 2;
const TASKS: usize = 3;
/// Turns of each task. `LEASELOCK_TEST_ROUNDS` asks for more.
const ROUNDS: u64 = 500;

fn rounds() -> u64 {
    let wanted = std::env::var("LEASELOCK_TEST_ROUNDS").ok();
    wanted.map_or(ROUNDS, |rounds| rounds.parse().unwrap())
}

/// Each holder compares its fence with the clock that the server has too, and `sample` checks the server itself again
/// and again. `ahead_us`: by how much the fences are ahead for another reason. Returns the last fence.
async fn at_full_speed(url: &str, rounds: u64, ahead_us: u64, mut sample: impl FnMut()) -> u64 {
    let last = Arc::new(AtomicU64::new(0));
    let turns = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS).map(|_| Client::open(url).unwrap()).collect();
    let tasks: Vec<_> = (0..CLIENTS * TASKS)
        .map(|number| {
            let (last, turns) = (Arc::clone(&last), Arc::clone(&turns));
            let mutex = clients[number % CLIENTS].mutex("job");
            tokio::spawn(async move {
                for _ in 0..rounds {
                    let lease = mutex.acquire().await.unwrap();
                    let fence = lease.fence().unwrap().get();
                    let now = clock::wall_us();
                    assert!(
                        fence <= now + ahead_us + FENCE_AHEAD_US,
                        "{fence} is ahead of {now}"
                    );
                    let before = last.swap(fence, Ordering::SeqCst);
                    assert!(fence > before, "{fence} after {before}");
                    turns.fetch_add(1, Ordering::SeqCst);
                    lease.release().await.unwrap();
                }
            })
        })
        .collect();
    let (mut seen, mut since) = (0, clock::now());
    while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
        sample();
        let count = turns.load(Ordering::SeqCst);
        if count > seen {
            (seen, since) = (count, clock::now());
        }
        assert!(clock::now() < since + PATIENCE, "nobody has a turn");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await; // between two samples
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(
        turns.load(Ordering::SeqCst),
        rounds * (CLIENTS * TASKS) as u64
    );
    last.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_do_not_run_ahead_of_the_servers_clock_at_full_speed_on_redis() {
    let server = Server::start();
    let (start, mut samples) = (clock::now(), 0);
    let look = || {
        if let Some(last) = latest_fence(&server, "job") {
            let now = time_us(&server);
            assert!(last <= now + FENCE_AHEAD_US, "{last} is ahead of {now}");
        }
    };
    at_full_speed(&server.url(), rounds(), 0, || {
        samples += 1;
        look();
    })
    .await;
    look();
    println!("{samples} samples in {:?}", clock::now() - start);
}

/// Here a hand-over is quicker than sixty-four microseconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_do_not_run_ahead_of_the_clock_at_full_speed_in_a_folder() {
    let folder = tempdir().unwrap();
    let start = clock::now();
    let url = format!("file://{}", folder.path().display());
    let last = at_full_speed(&url, rounds(), 0, || ()).await;
    println!("up to {last} in {:?}", clock::now() - start);
}

/// The clock never catches up, as after a step back, so numbers that were reserved and not used would add up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_reserves_no_numbers_while_they_are_ahead_of_the_clock() {
    let server = Server::start();
    let hour_us = 3_600_000_000;
    let known = clock::wall_us() + hour_us;
    set_fence(&server, "job", known);
    let turns = ROUNDS * (CLIENTS * TASKS) as u64;
    let last = at_full_speed(&server.url(), ROUNDS, hour_us, || ()).await;
    let numbers = last - known;
    println!("{numbers} numbers for {turns} turns");
    assert!(
        (turns..turns * 2).contains(&numbers),
        "{numbers} for {turns} turns"
    );
}
