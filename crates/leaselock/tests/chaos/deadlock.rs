//! Owners in several processes that wait for each other: each circle is found, and nothing else is.

pub(crate) mod circles;
mod history;
pub(crate) mod random;
mod witness;

use std::sync::Arc;
use std::time::Duration;

use leaselock::{AcquireError, Client, Lease, Owner, Wait};

/// No lease of a living process ends by itself meanwhile, and no timer of a waiter is that long.
const LONG: Duration = Duration::from_secs(60);
/// All permits of a name.
const PERMITS: u32 = 3;

/// How a lock is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Alone,
    Read,
    Permits(u32),
}

/// One request of an owner.
struct Request<'a> {
    client: &'a Client,
    owner: &'a Owner,
    name: &'a str,
    mode: Mode,
    ttl: Duration,
    wait: Wait,
    /// Called when it waits.
    on_wait: Arc<dyn Fn() + Send + Sync>,
}

impl Request<'_> {
    async fn acquire(self) -> Result<Lease<()>, AcquireError> {
        let Request {
            client,
            owner,
            name,
            mode,
            ttl,
            wait,
            on_wait,
        } = self;
        let on_wait = move |_: &leaselock::options::Waiting| on_wait();
        match mode {
            Mode::Alone => {
                let mutex = client.mutex(name).ttl(ttl).owner(owner);
                let lease = mutex.wait(wait).on_wait(on_wait).acquire().await;
                lease.map(Lease::from)
            }
            Mode::Read => {
                let lock = client.rwlock(name).ttl(ttl).owner(owner);
                let lock = lock.wait(wait).on_wait(on_wait);
                lock.read().await.map(Lease::from)
            }
            Mode::Permits(count) => {
                let pool = client.semaphore(name, PERMITS).ttl(ttl).owner(owner);
                let pool = pool.wait(wait).on_wait(on_wait);
                pool.acquire_many(count).await.map(Lease::from)
            }
        }
    }
}
