//! The guardian: a small process that ends the job before another holder can acquire its lock.
//!
//! A lease expires by itself, and a holder that is stopped, swapped out or killed does not notice.
//! So another process ends the job, forked before the first request to the store. It receives every
//! new deadline through a socket and acts when no later one came. It promises nothing when it is
//! stopped itself, or when a process has left both the job's group and its family, as daemons do.
//!
//! | what happens | what the guardian does |
//! |--|--|
//! | the deadline is near | signal, later kill, see [`schedule`] |
//! | the wrapper reports that the lease is lost | the same, at once |
//! | the wrapper reports that the job has ended | exits; if it had signalled, it ends the rest of the job first |
//! | the wrapper dies, the job holds the lock by its descriptor | leaves the job alone, as `flock(1)` does |
//! | the wrapper dies, a process that it did not start works under the lease | the same as for a loss, at once |
//! | the wrapper dies otherwise | keeps to the last deadline |

mod channel;
mod guarded;
mod handle;
mod message;
mod schedule;
mod watch;

pub(crate) use self::channel::{Channel, Notice, Refusal};
pub(crate) use self::handle::{Guardian, Verdict};
pub(crate) use self::message::JobKind;
pub(crate) use self::schedule::Plan;
