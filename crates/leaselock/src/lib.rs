//! The leaselock library.
