//! The scripts of mutex, read-write lock and semaphore, run directly: every branch of every header, and random sequences
//! against a model, on the embedded store and on a real server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod all;
mod branches;
mod changes;
mod damage;
mod dead_waiters;
mod hold;
mod holds;
mod interleavings;
mod kinds;
mod lab;
mod many;
mod model;
mod operators;
mod owners;
mod permits;
mod position;
mod random;
mod ranges;
mod reads;
mod reads_served;
mod side_key_ttls;
mod votes;
