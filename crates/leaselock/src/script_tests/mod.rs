//! The scripts, run directly: every branch of every header, and random sequences against a model, on the embedded store
//! and on a real server.
//!
//! What concerns one noun has its name; the other files are of the scripts and rules that several share. Nouns that hold
//! nothing, and runs that are recorded, have theirs in their own folders.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod damage;
mod dead_waiters;
mod hold;
mod holds;
mod interleavings;
mod kinds;
mod lab;
mod log;
mod model;
mod multilock;
mod mutex;
mod operators;
mod owner;
mod plain_cases;
mod position;
mod quorum;
mod random;
mod ranges;
mod rwlock;
mod semaphore;
mod side_key_ttls;
