//! Waiters that sleep until they are rung: a mutex that speaks their library's protocol rings them.

use leaselock::Protocol;

use crate::promises::{Both, LONG, NAME};
use crate::python_redis_lock;

/// It sleeps for its own ttl unless somebody rings, which is longer than anybody here is patient.
#[tokio::test]
async fn a_sleeper_of_python_redis_lock_wakes_at_our_release() {
    let Some(mut both) = Both::start(&python_redis_lock::PEER).await else {
        return;
    };
    let ours = both.us.mutex(NAME).protocol(Protocol::PythonRedisLock);
    let lease = ours.ttl(LONG).acquire().await.unwrap();
    both.them.begin_to_sleep(NAME, LONG).await;
    both.eventually("it sleeps", || {
        let clients = both.server.cli(&["INFO", "clients"]);
        clients.text().unwrap().contains("blocked_clients:1")
    })
    .await;
    lease.release().await.unwrap();
    both.them.answer().await.got();
    let left = both.server.cli(&["EXISTS", "lock-signal:job"]).integer();
    assert_eq!(left, Some(0), "it took the ring");
}
