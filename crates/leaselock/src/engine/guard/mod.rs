//! What a caller holds: leases, owners, and grants that replicas must have first.

pub(crate) mod lease;
pub(crate) mod owner;
pub(crate) mod replicas;
