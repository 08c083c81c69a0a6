//! The library from outside: what it promises, against real stores and under faults.

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
