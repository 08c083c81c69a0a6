//! How servers carry the locks together.

/// How servers carry the locks together, which decides what is wrong with one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One server.
    Single,
    /// A primary and its replicas, one of which takes its place.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "named by the stores of several servers")
    )]
    Failover,
    /// The nodes of a cluster.
    Cluster,
    /// Servers that know nothing of each other and vote.
    Quorum,
}
