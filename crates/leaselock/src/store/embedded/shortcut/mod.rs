//! The scripts of nearly every call in Rust, for the states that nearly every call meets: free and nobody in
//! line, held, and a first waiter who is there.
//!
//! The Lua file is what decides; this says the same with a tenth of the work. Whatever is unusual is left to the Lua:
//! `None`, and nothing is touched. A property test runs both and holds answers, states and messages equal.

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
