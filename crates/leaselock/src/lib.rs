//! The leaselock library.

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
