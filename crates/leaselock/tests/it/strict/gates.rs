//! When the gate is closed, and what goes on behind it.

use leaselock::inspect::BreakOptions;
use leaselock::strict::{Quarantine, StrictStatus};
use leaselock::{AcquireError, Client, ErrorKind};
use testkit::{Server, Value};

use super::{
    GATE, LONGEST, ends_us, granted_after, lock, moved, opened, quarantined, strict, taken,
};
use crate::support::{eventually, soon, until_queued};

#[tokio::test]
async fn a_server_that_was_never_set_up_grants_nothing_at_first_unless_an_operator_opens_it() {
    let server = Server::start();
    let client = strict(&server);
    let status = client.strict_status().await.unwrap();
    assert_eq!(status, StrictStatus::Missing);
    assert_eq!(quarantined(&client).await, Quarantine::Missing);
    let status = client.strict_status().await.unwrap();
    assert!(matches!(status, StrictStatus::Quarantined { longest, .. } if longest == LONGEST));
    client.init_strict().await.unwrap();
    let status = client.strict_status().await.unwrap();
    assert_eq!(status, StrictStatus::Open { longest: LONGEST });
    taken(&client).await.release().await.unwrap();
}

#[tokio::test]
async fn after_a_restart_without_persistence_nobody_is_granted_until_the_quarantine_is_over() {
    let server = Server::start();
    let client = opened(&server).await;
    drop(taken(&client).await);
    server.restart();
    let client = strict(&server);
    assert_eq!(quarantined(&client).await, Quarantine::Missing);
    let end_us = ends_us(&server);
    let lease = soon(lock(&client).acquire()).await.unwrap();
    granted_after(&lease, end_us);
}

#[tokio::test]
async fn after_a_restart_with_all_data_the_process_is_another_and_nobody_is_granted_either() {
    let server = Server::builder().append_only().start();
    let client = opened(&server).await;
    taken(&client).await.release().await.unwrap();
    server.restart();
    let client = strict(&server);
    let status = client.strict_status().await.unwrap();
    assert_eq!(status, StrictStatus::Moved { longest: LONGEST });
    assert_eq!(quarantined(&client).await, Quarantine::Moved);
}

#[tokio::test]
async fn after_flushall_or_the_loss_of_the_gate_alone_nobody_is_granted() {
    let server = Server::start();
    let client = opened(&server).await;
    for loss in [&["FLUSHALL"] as &[&str], &["DEL", GATE]] {
        drop(taken(&client).await);
        server.cli(loss);
        assert_eq!(quarantined(&client).await, Quarantine::Missing);
        client.init_strict().await.unwrap();
    }
}

#[tokio::test]
async fn a_quarantine_that_a_restart_cuts_short_begins_anew() {
    let server = Server::builder().append_only().start();
    let client = strict(&server);
    assert_eq!(quarantined(&client).await, Quarantine::Missing);
    let first = ends_us(&server);
    server.restart();
    assert_eq!(quarantined(&strict(&server)).await, Quarantine::Moved);
    assert!(ends_us(&server) > first);
}

#[tokio::test]
async fn who_holds_when_the_gate_closes_extends_and_releases_and_nobody_gets_the_lock_by_that() {
    let server = Server::start();
    let (holder, next) = (opened(&server).await, strict(&server));
    let lease = taken(&holder).await;
    let waiting = lock(&next);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    until_queued(&holder, "job", 1).await;
    moved(&server);
    lease.extend(LONGEST).await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(server.cli(&["EXISTS", "job"]).integer(), Some(0));
    assert_eq!(quarantined(&holder).await, Quarantine::Moved);
    let end_us = ends_us(&server);
    granted_after(&soon(waiting).await.unwrap().unwrap(), end_us);
}

/// What ends a lease while another client waits for it and the gate is closed, and that the other has nothing of it.
async fn goes_to_nobody(server: &Server, holder: &Client, end: impl AsyncFnOnce()) {
    let next = strict(server);
    let waiting = lock(&next);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    until_queued(holder, "job", 1).await;
    moved(server);
    let held = server.cli(&["GET", "job"]);
    end().await;
    eventually("the lock is free", async || {
        let now = server.cli(&["GET", "job"]);
        assert!(now == held || now == Value::Nil, "it has passed on");
        now == Value::Nil
    })
    .await;
    assert_eq!(quarantined(holder).await, Quarantine::Moved);
    let end_us = ends_us(server);
    granted_after(&soon(waiting).await.unwrap().unwrap(), end_us);
}

#[tokio::test]
async fn a_lease_that_is_broken_behind_a_closed_gate_goes_to_nobody() {
    let server = Server::start();
    let holder = opened(&server).await;
    let lease = taken(&holder).await;
    goes_to_nobody(&server, &holder, async || {
        let broken = holder
            .break_lease("job", BreakOptions::default().now())
            .await;
        assert_eq!(broken.unwrap().fence, lease.fence());
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_is_dropped_behind_a_closed_gate_goes_to_nobody() {
    let server = Server::start();
    let holder = opened(&server).await;
    let lease = taken(&holder).await;
    goes_to_nobody(&server, &holder, async || drop(lease)).await;
}

#[tokio::test]
async fn a_leader_that_resigns_behind_a_closed_gate_makes_nobody_lead() {
    let server = Server::start();
    let holder = opened(&server).await;
    let election = holder.election("job").ttl(LONGEST);
    let leading = election.try_campaign().await.unwrap().unwrap();
    goes_to_nobody(&server, &holder, async || leading.release().await.unwrap()).await;
}

/// A replica that lacks the grant has the queue all the same.
#[tokio::test]
async fn a_waiter_that_leaves_behind_a_closed_gate_lets_nobody_in() {
    let server = Server::start();
    let (holder, one, other) = (opened(&server).await, strict(&server), strict(&server));
    let lease = taken(&holder).await;
    let waits = |client: &Client| {
        let lock = lock(client);
        tokio::spawn(async move { lock.acquire().await })
    };
    let leaving = waits(&one);
    until_queued(&holder, "job", 1).await;
    let waiting = waits(&other);
    until_queued(&holder, "job", 2).await;
    moved(&server);
    server.cli(&["DEL", "job"]);
    leaving.abort();
    eventually("it has left", async || {
        server.cli(&["ZCARD", "{job}:ll:queue"]).integer() < Some(2)
    })
    .await;
    let held = server.cli(&["EXISTS", "job"]).integer();
    assert_eq!(held, Some(0), "the other was granted");
    assert_eq!(quarantined(&holder).await, Quarantine::Moved);
    let end_us = ends_us(&server);
    granted_after(&soon(waiting).await.unwrap().unwrap(), end_us);
    drop(lease);
}

/// It gives numbers back that were reserved for others, and so leaves in another way.
#[tokio::test]
async fn the_last_of_several_turns_that_is_dropped_behind_a_closed_gate_goes_to_nobody() {
    let server = Server::start();
    let holder = opened(&server).await;
    let first = taken(&opened(&server).await).await;
    let (sender, mut leases) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..2 {
        let (mutex, sender) = (lock(&holder), sender.clone());
        tokio::spawn(async move { sender.send(mutex.acquire().await.unwrap()) });
    }
    until_queued(&holder, "job", 1).await;
    first.release().await.unwrap();
    let turn = soon(leases.recv()).await.unwrap();
    turn.release().await.unwrap();
    let last = soon(leases.recv()).await.unwrap();
    goes_to_nobody(&server, &holder, async || drop(last)).await;
}

#[tokio::test]
async fn without_memory_leases_are_extended_and_released_and_nobody_is_granted() {
    let server = Server::start();
    let client = opened(&server).await;
    let lease = taken(&client).await;
    moved(&server);
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    lease.extend(LONGEST).await.unwrap();
    // Closed all the same, although a write was refused before anything else was written.
    assert_eq!(quarantined(&client).await, Quarantine::Moved);
    lease.release().await.unwrap();
    assert_eq!(server.cli(&["EXISTS", "job"]).integer(), Some(0));
    assert_ne!(
        client.strict_status().await.unwrap(),
        StrictStatus::Open { longest: LONGEST }
    );
    // Nor does it open without memory.
    let refused = soon(async {
        loop {
            match lock(&client).try_acquire().await {
                Err(leaselock::AcquireError::Quarantined { remaining, .. }) => {
                    tokio::time::sleep(remaining).await; // the quarantine
                }
                other => break other,
            }
        }
    });
    let refused = refused.await.unwrap_err();
    assert!(
        matches!(&refused, leaselock::AcquireError::Store { source, .. }
            if source.kind() == ErrorKind::OutOfMemory),
        "{refused:?}"
    );
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    drop(soon(lock(&client).acquire()).await.unwrap());
}

#[tokio::test]
async fn a_clock_that_goes_back_during_a_quarantine_does_not_prolong_it_by_more_than_another() {
    let server = Server::builder().shifted_clock().start();
    let client = strict(&server);
    assert_eq!(quarantined(&client).await, Quarantine::Missing);
    server.set_clock_offset_ms(-3_600_000);
    assert_eq!(quarantined(&client).await, Quarantine::Missing);
    drop(soon(lock(&client).acquire()).await.unwrap());
}

/// An upgrade and a downgrade let clients in, so they wait for the gate; their leases stay as they are.
#[tokio::test]
async fn behind_the_gate_nobody_is_upgraded_or_downgraded_and_each_keeps_its_lease() {
    let server = Server::start();
    let client = opened(&server).await;
    let locks = ["up", "down"].map(|name| client.rwlock(name).ttl(LONGEST));
    let up = locks[0].upgradable_read().await.unwrap();
    let up = up.upgrade().await.unwrap();
    let up = locks[0].downgrade_to_upgradable(up).await.unwrap();
    let writing = locks[1].write().await.unwrap();
    moved(&server);
    let up = up.try_upgrade().await.unwrap_err();
    let writing = locks[1].downgrade(writing).await.unwrap_err();
    for error in [&up.error, &writing.error] {
        assert!(
            matches!(**error, AcquireError::Quarantined { .. }),
            "{error:?}"
        );
    }
    up.lease.extend(LONGEST).await.unwrap();
    writing.lease.extend(LONGEST).await.unwrap();
    up.lease.release().await.unwrap();
    writing.lease.release().await.unwrap();
    for name in ["up", "down"] {
        assert_eq!(server.cli(&["EXISTS", name]).integer(), Some(0));
    }
}
