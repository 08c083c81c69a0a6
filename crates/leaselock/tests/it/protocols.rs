//! The other ways of taking a lock: what all of them keep, where each has its hole, and what they cannot do.

mod alike;
mod holes;
mod refusals;
mod rights;
mod silence;
mod wake_ups;

use leaselock::interop::Protocol;
use leaselock::{Client, Mutex};

use crate::support::LONG;

fn job(client: &Client, protocol: Protocol) -> Mutex {
    client.mutex("job").protocol(protocol).ttl(LONG)
}
