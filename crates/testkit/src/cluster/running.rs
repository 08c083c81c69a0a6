//! A running cluster: its nodes, and which of them has what.

use std::sync::Mutex;
use std::time::Duration;

use super::slots::{Range, most, owner, primaries, ranges, serves};
use crate::process::wait_until;
use crate::resp::Value;
use crate::server::Server;

/// Gossip takes its time, and a node that has just come up does not serve for two seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// A running cluster. Its nodes are ordinary servers, which can be paused, killed and started again.
#[derive(Debug)]
pub struct Cluster {
    pub(super) nodes: Vec<Server>,
    /// Only one slot gets its new owner at a time.
    pub(super) moving: Mutex<()>,
}

impl Cluster {
    /// `redis+cluster://` with every node, or `rediss+…`
    pub fn url(&self) -> String {
        let places = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.reached_at()));
        let secured = self.nodes.iter().any(|node| node.tls_port().is_some());
        let scheme = if secured { "rediss" } else { "redis" };
        format!(
            "{scheme}+cluster://{}",
            places.collect::<Vec<_>>().join(",")
        )
    }

    /// All nodes: the primaries of the beginning first, in the order of their slots, then their replicas.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The slot of a key, as the servers reckon it.
    pub fn slot(&self, key: &str) -> u16 {
        let slot = self.anyone(&["CLUSTER", "KEYSLOT", key]).integer();
        slot.and_then(|slot| u16::try_from(slot).ok())
            .expect("a key has a slot")
    }

    /// The primary that most nodes say has the slot.
    pub fn owner(&self, slot: u16) -> &Server {
        let owners = self.nodes.iter().filter_map(|node| owner(node, slot));
        let port = most(owners.collect()).expect("a node has the slot");
        self.at(port)
    }

    /// The primary of a key.
    pub fn owner_of(&self, key: &str) -> &Server {
        self.owner(self.slot(key))
    }

    /// A replica that the node has, by its own account: one that follows anew is named after a while.
    ///
    /// # Panics
    ///
    /// When it gets none.
    #[track_caller]
    pub fn replica_of(&self, primary: &Server) -> &Server {
        let mut found = None;
        wait_until(PATIENCE, "it has a replica", || {
            found = self.try_replica_of(primary);
            found.is_some()
        });
        found.expect("it was found")
    }

    pub(super) fn try_replica_of(&self, primary: &Server) -> Option<&Server> {
        let of = |range: &Range| range.ports.first() == Some(&primary.port());
        let its = ranges(primary).into_iter().find(of)?;
        its.ports.get(1).map(|port| self.at(*port))
    }

    /// Waits until every node that runs serves, and all of them agree on who has which slot.
    #[track_caller]
    pub fn settle(&self) {
        wait_until(PATIENCE, "the cluster serves and agrees", || {
            let alive: Vec<_> = self.nodes.iter().filter(|node| serves(node)).collect();
            let running = self
                .nodes
                .iter()
                .filter(|node| crate::process::is_alive(node.pid()));
            let views: Vec<_> = alive.iter().map(|node| primaries(node)).collect();
            alive.len() == running.count() && views.windows(2).all(|pair| pair[0] == pair[1])
        });
    }

    fn at(&self, port: u16) -> &Server {
        let node = self.nodes.iter().find(|node| node.port() == port);
        node.expect("a node of this cluster")
    }

    /// The answer of the first node that gives one.
    fn anyone(&self, args: &[&str]) -> Value {
        let mut answers = self.nodes.iter().filter_map(|node| node.try_cli(args).ok());
        answers.next().expect("a node that answers")
    }
}
