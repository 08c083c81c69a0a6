//! A real cluster of a test's own: primaries, replicas, and the moves that operators make.

mod builder;
mod moves;

use std::time::Duration;

pub use self::builder::Builder;
use crate::process::wait_until;
use crate::resp::Value;
use crate::server::Server;

/// Gossip takes its time, and a node that has just come up does not serve for two seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many slots a cluster has.
pub const SLOTS: u16 = 16384;

/// A running cluster. Its nodes are ordinary servers, which can be paused, killed and started again.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

/// One range of slots as a node describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    /// The ports of its primary and of its replicas.
    ports: Vec<u16>,
}

impl Cluster {
    /// Three primaries and no replica.
    pub fn start() -> Cluster {
        Cluster::builder().start()
    }

    /// One that differs.
    pub fn builder<'a>() -> Builder<'a> {
        Builder::default()
    }

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
        let port = most(owners.collect()).expect("somebody has the slot");
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

    fn try_replica_of(&self, primary: &Server) -> Option<&Server> {
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

/// It says that the cluster works, and all slots have somebody.
fn serves(node: &Server) -> bool {
    node.try_cli(&["CLUSTER", "INFO"]).is_ok_and(|info| {
        info.text()
            .is_some_and(|text| text.contains("cluster_state:ok"))
    })
}

fn owner(node: &Server, slot: u16) -> Option<u16> {
    let ranges = ranges(node);
    let its = ranges
        .iter()
        .find(|range| (range.first..=range.last).contains(&slot))?;
    its.ports.first().copied()
}

/// The one that occurs most often.
fn most(mut ports: Vec<u16>) -> Option<u16> {
    ports.sort_unstable();
    let groups = ports.chunk_by(PartialEq::eq);
    groups.max_by_key(|group| group.len()).map(|group| group[0])
}

/// Who has which slots, in the eyes of one node; neighbouring ranges of one primary are one.
fn primaries(node: &Server) -> Vec<(u16, u16, u16)> {
    let mut joined: Vec<(u16, u16, u16)> = Vec::new();
    let mut all = ranges(node);
    all.sort_by_key(|range| range.first);
    for range in all {
        let port = range.ports.first().copied().unwrap_or_default();
        match joined.last_mut() {
            Some((_, last, owner)) if *owner == port && *last + 1 == range.first => {
                *last = range.last
            }
            _ => joined.push((range.first, range.last, port)),
        }
    }
    joined
}

/// What `CLUSTER SLOTS` says; nothing when the node does not answer.
fn ranges(node: &Server) -> Vec<Range> {
    let answer = node.try_cli(&["CLUSTER", "SLOTS"]).ok();
    let rows = answer.as_ref().and_then(Value::list).unwrap_or_default();
    let number =
        |value: &Value| -> Option<u16> { value.integer().and_then(|n| u16::try_from(n).ok()) };
    let read = |row: &Value| {
        let [first, last, nodes @ ..] = row.list()? else {
            return None;
        };
        Some(Range {
            first: number(first)?,
            last: number(last)?,
            ports: nodes
                .iter()
                .filter_map(|node| number(node.list()?.get(1)?))
                .collect(),
        })
    };
    rows.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests;
