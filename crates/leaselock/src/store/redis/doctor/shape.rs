//! How servers carry the locks together.

/// It decides what is wrong with one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One server.
    Single,
    /// The nodes of a cluster.
    Cluster,
}
