//! The scripts of a read-write lock.

mod changes;
pub(super) mod reads;
mod reads_served;
