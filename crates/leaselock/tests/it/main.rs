//! The library from outside: what it promises, against real stores and under faults.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![expect(clippy::large_futures, reason = "a test is one future, and runs once")]

#[cfg(feature = "blocking")]
mod blocking;
mod cancel;
mod child;
mod conformance;
mod engine;
mod errors;
mod faults;
mod history;
mod send_sync;
mod starved;
mod support;
mod waiting;
