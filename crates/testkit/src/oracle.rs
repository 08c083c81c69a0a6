//! A witness that reads the commands of a server and knows no client: what it says of leases, it says from the keys
//! alone, as docs/keyspace.md describes them.
//!
//! `MONITOR` shows each request and, marked `lua`, each command of the script that the request runs, with the server's
//! time. From the commands that write, the oracle keeps a model of each lock: who holds it and until when, who waits,
//! the fencing tokens, the permits. After each request it compares what the request did with what is promised
//! ([`Rule`]).
//!
//! It accuses only what it can prove. The stream does not show when a connection ends or what a script read, so:
//! a lease counts as held until shortly before its end; a waiter counts as present only while a subscribed connection
//! is known to have lived on, by `CLIENT LIST`; a waiter fits only beside what was given back in the stream. What could
//! not be judged is counted.
//!
//! A gap in the stream is a violation too: at each marker the oracle compares how many commands of each name it has
//! read with how many the server says it has run.

mod adopt;
mod call;
mod connections;
mod fence;
mod held;
mod judge;
mod keys;
mod line;
mod lock;
mod mints;
mod report;
mod rules;
mod stream;
mod waiters;

pub(crate) use self::fence::number;
pub(crate) use self::held::{How, before_break, is_fenced, member, readers_number};
pub(crate) use self::keys::{Part, parse};
pub use self::report::{Report, Rule, Violation};
pub use self::stream::{Oracle, Watch};

#[cfg(test)]
mod tests;
