//! How servers hold the locks together.

/// The set-up, which decides what is wrong with one of its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One server.
    Single,
    /// The nodes of a cluster.
    Cluster,
}
