//! The library from outside: what it promises, against real stores and under faults.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![expect(
    clippy::async_yields_async,
    reason = "futures that are polled by hand are made first"
)]

mod access;
mod block_on;
mod cancel;
mod child;
mod clock_jumps;
mod cluster;
mod combined;
mod coming_from;
mod conformance;
mod counter;
mod cron;
mod deadlock;
mod election;
mod engine;
mod errors;
mod events;
mod faults;
mod fence_checker;
mod foreign;
mod functions;
mod history;
mod http;
mod kinds;
mod latch;
mod limiter;
mod moves;
mod multilock;
mod once;
mod once_faults;
mod owner;
mod presets;
mod protocols;
mod quorum;
mod replicas;
mod requests;
mod rwlock;
mod semaphore;
mod send_sync;
mod sentinel;
mod spans;
mod starved;
mod stats;
mod stores;
mod strict;
mod support;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_front;
mod verified;
mod waiting;
