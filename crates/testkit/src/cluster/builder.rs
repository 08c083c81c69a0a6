//! How a cluster is put together: each node gets its slots, then they meet.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use super::running::{Cluster, PATIENCE};
use super::slots::{SLOTS, serves};
use crate::clock;
use crate::process::wait_until;
use crate::server::Server;
use crate::tls::{Authority, Pair};

/// A node gives up on one that has not answered after its node timeout, and after a second if that is less.
const MEETS_WITHIN: Duration = Duration::from_secs(3);

/// A cluster to be. See [`Cluster::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing before `start`"]
pub struct Builder<'a> {
    binary: Option<PathBuf>,
    config: Vec<(String, String)>,
    primaries: u16,
    replicas: u16,
    node_timeout: Duration,
    tls: Option<(&'a Authority, Pair)>,
}

impl Default for Builder<'_> {
    fn default() -> Self {
        Builder {
            binary: None,
            config: Vec::new(),
            primaries: 3,
            replicas: 0,
            node_timeout: Duration::from_secs(2),
            tls: None,
        }
    }
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
}

impl<'a> Builder<'a> {
    /// Runs this program rather than the one that [`crate::server::find_binary`] finds.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// One directive of redis.conf for every node.
    pub fn config(mut self, directive: &str, value: &str) -> Self {
        self.config.push((directive.to_owned(), value.to_owned()));
        self
    }

    /// How many nodes share the slots.
    pub fn primaries(mut self, count: u16) -> Self {
        self.primaries = count;
        self
    }

    /// How many replicas each of them has.
    pub fn replicas(mut self, each: u16) -> Self {
        self.replicas = each;
        self
    }

    /// A node of which nothing was heard for so long is taken for dead.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// Nodes reach each other and are reached over TLS, with this certificate.
    pub fn tls(mut self, authority: &'a Authority, pair: Pair) -> Self {
        self.tls = Some((authority, pair));
        self
    }

    /// Starts the nodes, makes them a cluster and waits until it serves: two seconds at least, which a node that has
    /// just come up takes.
    ///
    /// # Panics
    ///
    /// With a node's log, when it does not come up.
    pub fn start(self) -> Cluster {
        let count = self.primaries * (1 + self.replicas);
        let nodes: Vec<Server> = (0..count).map(|_| self.node()).collect();
        let (primaries, replicas) = nodes.split_at(usize::from(self.primaries));
        for ((epoch, node), slots) in (1_u16..).zip(primaries).zip(shares(self.primaries)) {
            expect_ok(node, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch.to_string()]);
            let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
            let mut add = vec!["CLUSTER", "ADDSLOTS"];
            add.extend(slots.iter().map(String::as_str));
            expect_ok(node, &add);
        }
        introduce(&nodes);
        for (index, node) in replicas.iter().enumerate() {
            let primary = &primaries[index % primaries.len()];
            replicate(node, primary);
        }
        let primaries = primaries.len();
        let moving = Mutex::default();
        let cluster = Cluster { nodes, moving };
        wait_until(PATIENCE, "all nodes have met", || {
            cluster.nodes.iter().all(|node| knows(node, count))
        });
        if self.replicas > 0 {
            wait_until(PATIENCE, "primaries name their replicas", || {
                let mut primaries = cluster.nodes[..primaries].iter();
                primaries.all(|node| cluster.try_replica_of(node).is_some())
            });
        }
        cluster.settle();
        cluster
    }

    fn node(&self) -> Server {
        let mut builder = Server::builder().cluster_node(self.node_timeout);
        if let Some(binary) = &self.binary {
            builder = builder.binary(binary);
        }
        for (directive, value) in &self.config {
            builder = builder.config(directive, value);
        }
        if let Some((authority, pair)) = &self.tls {
            builder = builder
                .tls_among(authority, pair.clone())
                .config("tls-cluster", "yes");
        }
        builder.start()
    }
}

/// Equal shares of the slots, in order.
fn shares(primaries: u16) -> impl Iterator<Item = std::ops::Range<u16>> {
    let bound = move |index: u16| {
        let slot = u32::from(SLOTS) * u32::from(index) / u32::from(primaries);
        u16::try_from(slot).expect("slots fit")
    };
    (0..primaries).map(move |index| bound(index)..bound(index + 1))
}

/// The first node knows all others. It gives up on one that has not answered within a second, which happens on a busy
/// machine, and asks no more by itself.
fn introduce(nodes: &[Server]) {
    let Some((first, others)) = nodes.split_first() else {
        return;
    };
    let mut asked_again = clock::now();
    wait_until(PATIENCE, "the first node knows all others", || {
        let known = first.cli(&["CLUSTER", "NODES"]);
        let known = known.text().unwrap_or_default();
        let mut unknown = others.iter().filter(|node| !is_among(known, node));
        let Some(node) = unknown.next() else {
            return true;
        };
        if clock::now() >= asked_again {
            asked_again = clock::now() + MEETS_WITHIN;
            for node in std::iter::once(node).chain(unknown) {
                let port = node.reached_at().to_string();
                expect_ok(first, &["CLUSTER", "MEET", "127.0.0.1", &port]);
            }
        }
        false
    });
}

/// Whether the node has a line of its own in the answer to `CLUSTER NODES`, and the two have met. Some versions tell a
/// plain connection the plain port, others always the one on which the nodes reach each other.
fn is_among(known: &str, node: &Server) -> bool {
    let ports = [node.port(), node.reached_at()];
    let addresses = ports.map(|port| format!(" 127.0.0.1:{port}@"));
    known.lines().any(|line| {
        let is_its = addresses.iter().any(|address| line.contains(address));
        is_its && !line.contains("handshake")
    })
}

/// The node has heard of its primary, follows it, and has a copy of its data.
fn replicate(node: &Server, primary: &Server) {
    let id = primary.cli(&["CLUSTER", "MYID"]);
    let id = id.text().expect("a node has an id");
    wait_until(PATIENCE, "a replica has heard of its primary", || {
        let answer = node.cli(&["CLUSTER", "REPLICATE", id]);
        answer.text() == Some("OK")
    });
    wait_until(PATIENCE, "a replica has a copy", || {
        let info = node.cli(&["INFO", "replication"]);
        info.text()
            .is_some_and(|text| text.contains("master_link_status:up"))
    });
}

fn knows(node: &Server, count: u16) -> bool {
    let line = format!("cluster_known_nodes:{count}\r");
    let info = node.cli(&["CLUSTER", "INFO"]);
    serves(node) && info.text().is_some_and(|text| text.contains(&line))
}

/// # Panics
///
/// With the server's words, when it refuses.
#[track_caller]
pub(super) fn expect_ok(node: &Server, args: &[&str]) {
    let answer = node.cli(args);
    let shown = &args[..args.len().min(6)];
    assert_eq!(answer.text(), Some("OK"), "{shown:?} on {}", node.port());
}
