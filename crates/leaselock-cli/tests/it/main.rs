//! The command as its users meet it: the real program, real processes, real servers.

#![allow(clippy::unwrap_used)] // A test that panics has failed, which is right.

mod ancestors;
mod bad_input;
mod bench;
mod co_users;
mod coming_from;
mod common;
mod completions;
mod count;
mod cron;
mod damage;
mod deadlock;
mod elect;
mod ending;
mod first_contact;
mod handles;
mod help;
mod hold;
mod json;
mod lacking;
mod latch;
mod like;
mod limit;
mod long_wait;
mod lost;
mod multilock;
mod once;
mod operators;
mod prefix;
mod progress;
mod protocols;
mod quorum;
mod readme;
mod replicas;
mod rights;
mod run;
mod rwlock;
mod secrets;
mod secured;
mod semaphore;
mod sessions;
mod signals;
mod strict;
mod terminal;
mod unwell_servers;
