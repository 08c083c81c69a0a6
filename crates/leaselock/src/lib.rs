//! The leaselock library.
#![allow(dead_code, unused_imports, unused_macros)]

mod clock;
mod doctor;
mod error;
mod fence;
mod keys;
mod name;
mod script;
mod store;
mod token;
mod ttl;
