//! Waiters that sleep until they are woken: a mutex that speaks their library's protocol wakes them.

use leaselock::interop::Protocol;
use testkit::clock;

use crate::driver::{Answer, soon};
use crate::promises::{Both, LONG, NAME, POLLS_WITHIN};
use crate::python_redis_lock;

async fn a_waiter_sleeps(both: &Both) {
    both.eventually("somebody sleeps", || {
        let clients = both.server.cli(&["INFO", "clients"]);
        clients.text().unwrap().contains("blocked_clients:1")
    })
    .await;
}

/// It sleeps for its own ttl unless a message wakes it, which is longer than any test here is patient.
#[tokio::test]
async fn a_sleeper_of_python_redis_lock_wakes_at_our_release() {
    let Some(mut both) = Both::start(&python_redis_lock::PEER).await else {
        return;
    };
    let ours = both.us.mutex(NAME).protocol(Protocol::PythonRedisLock);
    let lease = ours.ttl(LONG).acquire().await.unwrap();
    both.them.begin_to_sleep(NAME, LONG).await;
    a_waiter_sleeps(&both).await;
    lease.release().await.unwrap();
    both.them.answer().await.got();
    let left = both.server.cli(&["EXISTS", "lock-signal:job"]).integer();
    assert_eq!(left, Some(0), "it took the ring");
}

/// Ours would poll again after five seconds.
#[tokio::test]
async fn our_sleeper_wakes_at_a_release_of_python_redis_lock() {
    let Some(mut both) = Both::start(&python_redis_lock::PEER).await else {
        return;
    };
    let theirs = both.them.acquire(NAME, LONG).await;
    let ours = both.us.mutex(NAME).protocol(Protocol::PythonRedisLock);
    let waiting = tokio::spawn(async move { ours.ttl(LONG).acquire().await });
    a_waiter_sleeps(&both).await;
    assert_eq!(both.them.release(theirs).await, Answer::Done);
    let released = clock::now();
    let lease = soon(waiting).await.unwrap().unwrap();
    let waited = clock::now() - released;
    assert!(waited < POLLS_WITHIN, "{waited:?}");
    lease.release().await.unwrap();
}
