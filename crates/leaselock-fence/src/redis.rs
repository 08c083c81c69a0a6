//! The fence checker of values in Redis or Valkey: text of scripts that run where the value is.
//!
//! The server runs a script in one atomic step, so no other holder comes between the comparison and the work. The text
//! is for every client library; the keys, their expiry and the connection are the user's own.
//!
//! What the checker has seen is in the hash of the value, so both are lost or kept together. Another hash in the same
//! slot does as well, as long as it lives as long as the value.
//!
//! # Examples
//! ```no_run
//! use leaselock_fence::Sequencer;
//! use leaselock_fence::redis::READ_OR_WRITE;
//! use redis::{Client, Script};
//!
//! let shown: Sequencer = "34.b.account/42".parse()?; // as the holder's `Lease::sequencer` wrote it
//! let mut data = Client::open("redis://localhost")?.get_connection()?;
//!
//! let script = Script::new(READ_OR_WRITE);
//! let mut call = script.key("data:account/42"); // not the lock's name: the lock is a string under that key
//! let call = call.arg(shown.fence().get()).arg(shown.owner()).arg("the new value");
//! let reply: Vec<Option<String>> = call.invoke(&mut data)?;
//! match reply[0].as_deref() {
//!     Some("admitted") => println!("written: {:?}", reply[1]),
//!     _ => println!("late: the resource has seen {:?}; stop", reply[1]),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The Lua function `fence_admit(checker, fence, owner)`, to stand in front of a script of your own.
///
/// `checker` is the key of a hash, whose fields `fence` and `owner` it reads and writes. It returns nothing when the
/// holder is admitted, and the reply `{"stale", fence, owner}` with what it has seen when the holder is late. A script
/// calls it first, and returns that reply before it reads or writes anything else.
pub const ADMIT: &str = include_str!("../lua/fence_checker.lua");

/// A script that reads or writes one value: the field `value` of the hash `KEYS[1]`.
///
/// `ARGV` is the fencing token, the owner and, for a write, the new value. It replies `{"admitted", value}`, without a
/// value when there is none, or `{"stale", fence, owner}` when the holder is late; then nothing was read or written.
/// The same call again does no harm.
pub const READ_OR_WRITE: &str = concat!(
    include_str!("../lua/fence_checker.lua"),
    "
local stale = fence_admit(KEYS[1], ARGV[1], ARGV[2])
if stale then return stale end
if ARGV[3] then redis.call('HSET', KEYS[1], 'value', ARGV[3]) end
return { 'admitted', redis.call('HGET', KEYS[1], 'value') }
"
);
