//! Locks on a cluster: each is on the node that has its slot.

mod calls;
pub(super) mod node_subscriber;
mod router;
mod slots;
mod subscribers;
#[cfg(test)]
mod tests;
mod topology;

pub(super) use self::router::Cluster;
