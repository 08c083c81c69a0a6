//! The guardian: a small process that ends the job before anybody else can get its lock.
//!
//! A lease runs out by itself, and a holder that is stopped, swapped out or killed cannot know it.
//! So the one who ends the job is another process, forked before the store is even asked. It gets
//! every new deadline through a socket and acts when no later one came. It promises nothing when
//! it is stopped itself, or when the job has left both its process group and its family, as
//! daemons do.
//!
//! | what happens | what the guardian does |
//! |--|--|
//! | the deadline comes near | signal, later kill, see [`schedule`] |
//! | the wrapper says that the lease is lost | the same, at once |
//! | the wrapper says that the job has ended | leaves; when it had signalled, it ends the rest of the job first |
//! | the wrapper dies, the job holds the lock by its descriptor | leaves the job alone, as `flock(1)` does |
//! | the wrapper dies otherwise | keeps to the last deadline |

mod channel;
mod handle;
mod message;
mod schedule;
mod watch;

pub(crate) use self::channel::{Channel, Notice, Refusal};
pub(crate) use self::handle::{Guardian, Verdict};
pub(crate) use self::message::JobKind;
pub(crate) use self::schedule::Plan;
