//! A task that has asked for a lock without a queue and is never polled again. The other tasks of its client wait behind
//! it, and not for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaselock::clock::Clock;
use leaselock::interop::Protocol;
use leaselock::{Client, Mutex};
use testkit::Server;

use super::together::{arrives, has_its_turn};
use crate::quorum::Nodes;
use crate::support::{LONG, eventually, millis, soon};

/// It holds them up for so long at most.
const HELD_UP_MOST: Duration = Duration::from_secs(15);

/// `clock`: that of the client whose tasks wait.
async fn the_next_task_is_served(clock: &Clock, held: Mutex, wanted: Mutex) {
    let lease = held.acquire().await.unwrap();
    let waits = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&waits);
    let mut idle = arrives(
        &wanted
            .clone()
            .on_wait(move |_| told.store(true, Ordering::SeqCst)),
    );
    eventually("it waits", async || {
        assert!(!has_its_turn(&mut idle));
        waits.load(Ordering::SeqCst)
    })
    .await;
    let next = tokio::spawn(async move { wanted.acquire().await });
    lease.release().await.unwrap();
    clock.advance(HELD_UP_MOST);
    let mut more = Duration::ZERO;
    eventually("it is served", async || {
        let step = millis(10); // a pause after a failed try ends, and the lease does not before the test sees it
        more += step;
        clock.advance(step);
        next.is_finished()
    })
    .await;
    assert!(more < HELD_UP_MOST * 2, "{more:?}");
    let lease = soon(next).await.unwrap().unwrap();
    lease.release().await.unwrap();
    drop(idle);
}

#[tokio::test]
async fn behind_another_librarys_lock_an_idle_task_holds_up_the_others_for_a_bounded_time() {
    let (server, clock) = (Server::start(), Clock::manual());
    let builder = || Client::builder().url(&server.url());
    let clients = [builder(), builder().clock(clock.clone())];
    let [held, wanted] = clients.map(|builder| {
        let mutex = builder.open().unwrap().mutex("job").ttl(LONG);
        mutex.protocol(Protocol::SetnxPexpire)
    });
    the_next_task_is_served(&clock, held, wanted).await;
}

#[tokio::test]
async fn on_a_quorum_an_idle_task_holds_up_the_others_for_a_bounded_time() {
    let (nodes, clock) = (Nodes::start(3), Clock::manual());
    let clients = [nodes.builder(), nodes.builder().clock(clock.clone())];
    let [held, wanted] = clients.map(|builder| builder.open().unwrap().mutex("job").ttl(LONG));
    the_next_task_is_served(&clock, held, wanted).await;
}
