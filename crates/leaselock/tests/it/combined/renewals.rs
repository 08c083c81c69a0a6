//! Leases that are due together are renewed together.

use std::time::Duration;

use leaselock::{Client, Lease, LostReason};
use testkit::Server;

use super::{calls, crowd, names};
use crate::support::{eventually, soon};

const TTL: Duration = Duration::from_secs(3);
const COUNT: usize = 400;

#[tokio::test]
async fn a_crowd_of_leases_is_renewed_in_few_calls_and_a_lost_one_loses_only_itself() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mut leases = Vec::new();
    for name in names("job", COUNT) {
        // One after the other, so that no two are due at the same moment.
        leases.push(client.mutex(name).ttl(TTL).acquire().await.unwrap());
    }
    let before = calls(&server, "evalsha");
    let renewed = |rounds: u64| {
        let server = &server;
        eventually("they are renewed", async move || {
            calls(server, "pexpire") >= rounds * COUNT as u64 - 1
        })
    };
    renewed(1).await;
    server.cli(&["DEL", "job7"]);
    server.cli(&["SET", "job8", "somebody", "PX", "60000"]);
    assert_eq!(soon(leases[7].lost()).await.reason, LostReason::KeyMissing);
    assert_eq!(soon(leases[8].lost()).await.reason, LostReason::TakenOver);
    renewed(3).await;
    let others = leases
        .iter()
        .enumerate()
        .filter(|(n, _)| ![7, 8].contains(n));
    assert!(others.clone().all(|(_, lease)| lease.is_held()));
    let (sent, renewals) = (
        calls(&server, "evalsha") - before,
        calls(&server, "pexpire"),
    );
    assert!(sent * 10 < renewals, "{sent} calls for {renewals} renewals");
}

#[tokio::test]
async fn a_lease_with_a_note_renews_it_when_it_is_renewed_with_others() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let leases = crowd(names("job", 20), |name| {
        let mutex = client.mutex(name).ttl(TTL).note("nightly run");
        async move { mutex.acquire().await.unwrap() }
    })
    .await;
    // Longer than the note would last if the client did not renew it.
    let end = testkit::clock::now() + TTL + TTL / 3;
    eventually("time has passed", async || testkit::clock::now() > end).await;
    for number in 0..20 {
        let note = server.cli(&["GET", &format!("{{job{number}}}:ll:why")]);
        assert!(
            note.text().is_some_and(|note| note.contains("nightly run")),
            "{note:?}"
        );
    }
    drop(leases);
}

/// Reads of many names and of one, and permits: each has an end of its own.
#[tokio::test]
async fn a_crowd_of_readers_and_permits_is_renewed_in_few_calls_and_a_lost_one_loses_only_itself() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mut held: Vec<Lease<()>> = Vec::new();
    for name in names("config", COUNT).chain(std::iter::repeat_n("one".to_owned(), COUNT)) {
        held.push(client.rwlock(name).ttl(TTL).read().await.unwrap().into());
    }
    for name in names("pool", COUNT / 2) {
        let pool = client.semaphore(name, 5).ttl(TTL);
        held.push(pool.acquire_many(2).await.unwrap().into());
    }
    let (before, granted) = (calls(&server, "evalsha"), calls(&server, "zadd"));
    let renewals = || calls(&server, "zadd") - granted;
    let all = held.len() as u64;
    eventually("they are renewed", async || renewals() >= all).await;
    server.cli(&["DEL", "config7"]);
    server.cli(&["SET", "config8", "somebody", "PX", "60000"]);
    assert_eq!(soon(held[7].lost()).await.reason, LostReason::KeyMissing);
    assert_eq!(soon(held[8].lost()).await.reason, LostReason::TakenOver);
    eventually("they are renewed again", async || renewals() >= 3 * all).await;
    let mut others = held.iter().enumerate().filter(|(n, _)| ![7, 8].contains(n));
    assert!(others.all(|(_, lease)| lease.is_held()));
    let (sent, renewed) = (calls(&server, "evalsha") - before, renewals());
    assert!(sent * 10 < renewed, "{sent} calls for {renewed} renewals");
}
