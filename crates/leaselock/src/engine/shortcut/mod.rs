//! The most frequent scripts of those who hold a lock alone in Rust, for the most frequent states.
//!
//! These are: free with an empty queue, held, and a first waiter that is alive. A property test runs shortcut and
//! script, and compares answers, states and messages.

mod acquire;
mod extend;
mod fence;
mod numbers;
mod release;
mod state;
mod waiter;

pub(crate) use self::acquire::acquire;
pub(crate) use self::extend::extend;
pub(crate) use self::release::{grant_first, release};
pub(crate) use self::state::Keys;
