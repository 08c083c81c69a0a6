//! Strict order: processes that always join the queue again take turns, and never any other way.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use leaselock::Client;
use testkit::{Child, Server};

use crate::support::LONG;

const PROCESSES: usize = 4;
const ROUNDS: usize = 250;

/// Holds until all the others are in the queue, so that each comes back to its end: from then on only one order is first
/// come, first served.
pub(crate) async fn take_turns(url: &str, folder: &Path, rounds: usize, who: &str) {
    let client = Client::open(url).unwrap();
    let mutex = client.mutex("turns").ttl(LONG);
    let turns = folder.join("turns");
    for _ in 0..rounds {
        let lease = mutex.acquire().await.unwrap();
        while !folder.join("last round").exists()
            && client.inspect("turns").await.unwrap().queue.len() < PROCESSES - 1
        {
            tokio::task::yield_now().await;
        }
        let mut file = OpenOptions::new().append(true).open(&turns).unwrap();
        writeln!(file, "{who}").unwrap();
        lease.release().await.unwrap();
    }
    fs::write(folder.join("last round"), "").unwrap();
    client.close().await;
}

fn turns_are_taken_in_order(url: &str) {
    let folder = testkit::tempdir().unwrap();
    fs::write(folder.path().join("turns"), "").unwrap();
    let (at, rounds) = (folder.path().display().to_string(), ROUNDS.to_string());
    let children: Vec<_> = (0..PROCESSES)
        .map(|who| Child::start("turns", &[url, &at, &rounds, &who.to_string()]))
        .collect();
    children.into_iter().for_each(Child::ends_well);
    let turns = fs::read_to_string(folder.path().join("turns")).unwrap();
    let turns: Vec<&str> = turns.lines().collect();
    assert_eq!(turns.len(), PROCESSES * ROUNDS);
    // In the last round a process that is done is in the queue no more.
    let strict = &turns[..PROCESSES * (ROUNDS - 1)];
    for (turn, pair) in strict.iter().zip(&strict[PROCESSES..]).enumerate() {
        assert_eq!(pair.0, pair.1, "turn {turn}");
    }
}

#[test]
fn four_processes_take_turns_in_strict_order_on_redis() {
    turns_are_taken_in_order(&Server::start().url());
}

#[test]
fn four_processes_take_turns_in_strict_order_in_a_folder() {
    let folder = testkit::tempdir().unwrap();
    turns_are_taken_in_order(&format!("file://{}", folder.path().display()));
}
