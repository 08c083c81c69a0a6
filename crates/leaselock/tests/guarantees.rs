//! The cells of docs/guarantees.md, the ugly ones too: what the page says may happen does happen, and no more.

#![allow(
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is right"
)]

#[path = "guarantees/disk.rs"]
mod disk;

use std::time::Duration;

use leaselock::{AcquireError, Client, ErrorKind, LostReason, Mutex};
use testkit::Server;

const TTL: Duration = Duration::from_secs(3);

/// The lock of two clients that share nothing but the server, as on two machines.
fn two(server: &Server) -> (Mutex, Mutex) {
    let mutex = || {
        let client = Client::open(&server.url()).unwrap();
        client.mutex("report").ttl(TTL)
    };
    (mutex(), mutex())
}

/// Something makes the server forget the lock. A second holder gets in while the first believes in its lease; the
/// first is told before its deadline, and its fence is the smaller one.
async fn forgets(server: Server, forget: impl FnOnce(&Server)) {
    let (first, second) = two(&server);
    let first = first.acquire().await.unwrap();
    let deadline = first.deadline();
    forget(&server);
    let second = second.acquire().await.unwrap();
    assert!(first.deadline() >= deadline && second.fence() > first.fence());
    let lost = first.lost().await;
    let known = [LostReason::TakenOver, LostReason::KeyMissing];
    assert!(known.contains(&lost.reason), "{lost}");
    assert!(second.is_held());
    second.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_nothing_on_disk_forgets_leases_when_it_restarts() {
    forgets(Server::start(), Server::restart).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_server_forgets_leases_and_not_the_order_of_fences() {
    let flush = |server: &Server| drop(server.cli(&["FLUSHALL"]));
    forgets(Server::start(), flush).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_lock_has_a_second_holder() {
    let delete = |server: &Server| drop(server.cli(&["DEL", "report"]));
    forgets(Server::start(), delete).await;
}

/// The server is killed and comes back with what it had acknowledged: the holder goes on, and no other client gets in.
async fn remembers(server: Server, restart: impl FnOnce(&Server)) {
    let (first, second) = two(&server);
    let first = first.acquire().await.unwrap();
    restart(&server);
    assert!(second.try_acquire().await.unwrap().is_none());
    first.extend(TTL).await.unwrap();
    assert!(first.is_held());
    first.release().await.unwrap();
    assert!(second.try_acquire().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_only_file_that_is_always_written_keeps_leases() {
    remembers(Server::builder().append_only().start(), Server::restart).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_grants_nothing_new_and_extends_releases_and_hands_over() {
    let server = Server::start();
    let (first, second) = two(&server);
    let first = first.acquire().await.unwrap();
    let waiter = tokio::spawn(async move { second.acquire().await });
    testkit::wait_until(Duration::from_secs(10), "the waiter is in line", || {
        server.cli(&["EXISTS", "{report}:ll:queue"]) == testkit::Value::Integer(1)
    });
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);

    let client = Client::open(&server.url()).unwrap();
    match client.mutex("another").try_acquire().await {
        Err(AcquireError::Store { source, .. }) => {
            assert_eq!(source.kind(), ErrorKind::OutOfMemory);
        }
        other => panic!("{other:?}"),
    }
    first.extend(TTL).await.unwrap();
    first.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holder_on_a_frozen_server_is_told_at_its_deadline_and_the_next_gets_the_lock_later() {
    let server = Server::start();
    let (first, second) = two(&server);
    let first = first
        .ttl(Duration::from_millis(600))
        .acquire()
        .await
        .unwrap();
    let frozen = server.pause();
    let lost = first.lost().await;
    assert_eq!(lost.reason, LostReason::StoreUnreachable);
    drop(frozen);
    let second = second.acquire().await.unwrap();
    assert!(second.fence() > first.fence());
    second.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_from_one_store_to_the_next() {
    let (server, folder) = (Server::start(), testkit::tempdir().unwrap());
    let folder = format!("file://{}", folder.path().display());
    let mut last = None;
    for url in ["mem:", &folder, &server.url(), &folder, "mem:"] {
        let lease = Client::open(url)
            .unwrap()
            .mutex("a")
            .acquire()
            .await
            .unwrap();
        assert!(lease.fence() > last, "{url}");
        last = lease.fence();
        lease.release().await.unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await; // a new key's number is ahead by so much, as the page says
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_does_not_renew_loses_its_lease_on_every_store() {
    let (server, folder) = (Server::start(), testkit::tempdir().unwrap());
    let folder = format!("file://{}", folder.path().display());
    for url in ["mem:frozen", &folder, &server.url()] {
        let mutex = || Client::open(url).unwrap().mutex("a");
        let frozen = mutex().ttl(Duration::from_millis(100)).renewal(false);
        let first = frozen.acquire().await.unwrap();
        let second = mutex().acquire().await.unwrap();
        assert!(!first.is_held() && second.fence() > first.fence(), "{url}");
        assert_eq!(first.lost().await.reason, LostReason::Expired);
        assert!(first.release().await.is_err());
        second.release().await.unwrap();
    }
}
