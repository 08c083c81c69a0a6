//! A counter in a plain file, which nothing but the lock protects.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use leaselock::Client;
use testkit::{Child, Server, clock};

use crate::support::LONG;

const PROCESSES: usize = 8;
/// Thousands of hand-overs between processes. `LEASELOCK_TEST_ROUNDS` asks for more.
const ROUNDS: usize = 250;

/// Reads, lets the others run, writes; and notes its fence. Without a lock, updates are lost.
pub(crate) async fn count(url: &str, folder: &Path, rounds: usize) {
    let client = Client::open(url).unwrap();
    let mutex = client.mutex("counter").ttl(LONG);
    let counter = folder.join("counter");
    for _ in 0..rounds {
        let lease = mutex.acquire().await.unwrap();
        let number: usize = fs::read_to_string(&counter).unwrap().parse().unwrap();
        std::thread::yield_now();
        fs::write(&counter, (number + 1).to_string()).unwrap();
        let mut tickets = OpenOptions::new()
            .append(true)
            .open(folder.join("tickets"))
            .unwrap();
        writeln!(tickets, "{}", lease.fence().unwrap()).unwrap();
        lease.release().await.unwrap();
    }
    client.close().await;
}

fn no_increment_is_lost(url: &str) {
    let folder = testkit::tempdir().unwrap();
    fs::write(folder.path().join("counter"), "0").unwrap();
    fs::write(folder.path().join("tickets"), "").unwrap();
    let wanted = std::env::var("LEASELOCK_TEST_ROUNDS").ok();
    let rounds = wanted.map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let start = clock::now();
    let (at, each) = (folder.path().display().to_string(), rounds.to_string());
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| Child::start("count", &[url, &at, &each]))
        .collect();
    children.into_iter().for_each(Child::ends_well);
    let took = clock::now() - start;
    let number: usize = fs::read_to_string(folder.path().join("counter"))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(number, PROCESSES * rounds);
    let tickets = fs::read_to_string(folder.path().join("tickets")).unwrap();
    let fences: Vec<u64> = tickets.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(fences.len(), number);
    assert!(
        fences.windows(2).all(|pair| pair[0] < pair[1]),
        "tickets in the order of fences"
    );
    println!("{number} increments by {PROCESSES} processes in {took:?}");
}

#[test]
fn no_increment_is_lost_on_redis() {
    no_increment_is_lost(&Server::start().url());
}

#[test]
fn no_increment_is_lost_in_a_folder() {
    let folder = testkit::tempdir().unwrap();
    no_increment_is_lost(&format!("file://{}", folder.path().display()));
}
