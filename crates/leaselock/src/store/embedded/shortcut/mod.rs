//! The most frequent scripts in Rust, for the most frequent states.
//!
//! These are: free with an empty queue, held, and a first waiter that is alive. The Lua file decides; this gives the
//! same result with a tenth of the work. An unusual state is left to the Lua: `None`, and nothing is changed. A
//! property test runs both and compares answers, states and messages.

mod acquire;
mod answer;
mod mint;
mod numbers;
mod release;
mod reply;
mod request;
mod state;
#[cfg(test)]
mod tests;
mod waiter;

pub(super) use self::answer::answer;
