//! Who waits when a quarantine begins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use leaselock::options::Waiting;
use leaselock::strict::Quarantine;
use leaselock::{AcquireError, Wait};
use testkit::Server;

use super::{ends_us, granted_after, lock, opened, quarantined, strict};
use crate::support::{calls, eventually, millis, soon, until_queued};

#[tokio::test]
async fn a_wait_that_ends_before_the_quarantine_says_so_and_nothing_is_left() {
    let server = Server::start();
    let client = strict(&server);
    for wait in [Wait::Timeout(millis(50)), Wait::Never, Wait::retries(2)] {
        let error = soon(lock(&client).wait(wait).acquire()).await.unwrap_err();
        let AcquireError::Quarantined { remaining, .. } = &error else {
            panic!("{wait:?}: {error:?}")
        };
        assert!(!remaining.is_zero());
        let said = error.to_string();
        assert!(
            said.contains("`job`: strict mode grants no lock for another"),
            "{said}"
        );
    }
    let keys = crate::support::leftovers(&server);
    assert_eq!(keys, ["ll:gate"]);
}

#[tokio::test]
async fn many_tasks_wait_a_quarantine_out_together_and_each_has_its_turn_or_hears_why_not() {
    let server = Server::start();
    let client = strict(&server);
    let told = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let told = Arc::clone(&told);
            let mutex = lock(&client).on_wait(move |_| {
                told.fetch_add(1, Ordering::SeqCst);
            });
            tokio::spawn(async move {
                mutex
                    .acquire()
                    .await?
                    .release()
                    .await
                    .map_err(|_| AcquireError::Closed)
            })
        })
        .collect();
    eventually("they are told", async || told.load(Ordering::SeqCst) >= 6).await;
    let hasty: Vec<_> = (0..3)
        .map(|_| {
            let mutex = lock(&client);
            tokio::spawn(async move { mutex.acquire_within(millis(300)).await.map(drop) })
        })
        .collect();
    for task in hasty {
        let error = soon(task).await.unwrap().unwrap_err();
        assert!(
            matches!(error, AcquireError::Quarantined { .. }),
            "{error:?}"
        );
    }
    let end_us = ends_us(&server);
    for task in tasks {
        soon(task).await.unwrap().unwrap();
    }
    let lease = soon(lock(&client).acquire()).await.unwrap();
    granted_after(&lease, end_us);
}

/// Whether one task waits or several share a place.
#[tokio::test]
async fn a_waiter_for_the_end_learns_that_no_client_is_granted_and_why() {
    for tasks in [1, 3] {
        let server = Server::start();
        let client = super::strict_for(&server, crate::support::LONG);
        let told: Vec<Arc<Mutex<Vec<Waiting>>>> = (0..tasks).map(|_| Arc::default()).collect();
        let waiting: Vec<_> = told
            .iter()
            .map(|told| {
                let heard = Arc::clone(told);
                let mutex = client.mutex("job").on_wait(move |waiting| {
                    heard.lock().unwrap().push(waiting.clone());
                });
                tokio::spawn(async move { mutex.acquire().await })
            })
            .collect();
        eventually("each is told", async || {
            told.iter().all(|told| !told.lock().unwrap().is_empty())
        })
        .await;
        for told in &told {
            let first = told.lock().unwrap()[0].clone();
            assert_eq!(
                (first.position, first.quarantine),
                (0, Some(Quarantine::Missing))
            );
            assert!(
                first.remaining > Some(crate::support::LONG / 2),
                "{first:?}"
            );
        }
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[tokio::test]
async fn a_wait_notices_that_an_operator_has_opened_the_gate() {
    let server = Server::start();
    // Of a quarantine whose end no test here would see.
    let long = crate::support::LONG * 60;
    let client = super::strict_for(&server, long);
    let mutex = client.mutex("job");
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    eventually("the gate is closed", async || {
        server.cli(&["EXISTS", super::GATE]).integer() == Some(1)
    })
    .await;
    client.init_strict().await.unwrap();
    drop(soon(waiting).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_grant_by_message_is_confirmed_at_the_gate() {
    let server = Server::start();
    let (holder, next) = (opened(&server).await, strict(&server));
    let lease = lock(&holder).acquire().await.unwrap();
    let mutex = lock(&next);
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    until_queued(&holder, "job", 1).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    lease.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    // Two of the release that hands over, two of the confirmation.
    assert_eq!(calls(&server, "info"), 4);
    drop(next);
}

#[tokio::test]
async fn leases_of_those_who_do_without_strict_mode_ask_no_gate() {
    let server = Server::start();
    let client = leaselock::Client::open(&server.url()).unwrap();
    let lease = client.mutex("job").acquire().await.unwrap();
    lease.release().await.unwrap();
    server.cli(&["CONFIG", "RESETSTAT"]);
    let lease = client.mutex("job").acquire().await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(calls(&server, "info"), 0);
    // And in strict mode it is asked by the acquisition alone, when no client waits.
    let strict = opened(&server).await;
    quarantined_never(&strict).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    quarantined_never(&strict).await;
    assert_eq!(calls(&server, "info"), 2);
}

async fn quarantined_never(client: &leaselock::Client) {
    lock(client)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_client_that_asks_twice_during_a_quarantine_learns_the_same_end() {
    let server = Server::start();
    let client = strict(&server);
    quarantined(&client).await;
    let first = ends_us(&server);
    quarantined(&client).await;
    assert_eq!(ends_us(&server), first);
}
