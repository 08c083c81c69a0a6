//! The router of a cluster's requests: each goes to the node that has the lock's slot.
//!
//! The nodes themselves report that a slot has moved, is moving, or has no owner. Such a reply means that nothing was
//! done, so the request is sent again to the right node, within its own time. A request whose connection broke after it
//! was sent has an unknown outcome, as on a single server, and is never sent again here.
//!
//! The redis client's own `cluster_async` is not used: it sends a request again after a timeout or a dropped connection,
//! and reports the last outcome only. Without retries it follows no redirect either, because it counts those as retries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Cmd, Value};

use super::slots::{Redirect, SlotNode, slot_of};
use super::topology::Topology;
use crate::base::backoff::Backoff;
use crate::base::{CLOCK, Moment, Result, debug_as, hold, refusal};
use crate::store::Subscriptions;
use crate::store::redis::connection::Connection;
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::error_map;
use crate::store::url::RedisUrl;

/// A node that was not reached by then may not be the owner any more, so the others are asked.
///
/// Connecting continues.
const REACHED_AFTER: Duration = Duration::from_millis(300);
/// Pauses between two tries of one request; the first is immediate.
const PAUSES_MS: &[u64] = &[0, 2, 4, 8, 16, 32, 50];

/// The least time for a try: with less its outcome could be unknown, and it would break a shared connection.
const ANSWER: Duration = Duration::from_millis(100);

/// A cluster over connections that belong together: one to each node that was needed.
pub(crate) struct Cluster {
    pub(crate) topology: Arc<Topology>,
    connections: Mutex<NodeConnections>,
}

#[derive(Default)]
struct NodeConnections {
    by_node: HashMap<SlotNode, Arc<Connection>>,
    /// How many connections to forgotten nodes were made.
    made_before: u64,
    /// The version of the table to which the connections belong.
    changes: u64,
}

impl Cluster {
    /// Creates a cluster that connects on first use. `seeds`: some of the nodes.
    pub(crate) fn new(seeds: Vec<RedisUrl>) -> Arc<Self> {
        Cluster::of(Topology::new(seeds))
    }

    /// Returns the same cluster over connections of its own.
    pub(crate) fn another(&self) -> Arc<Self> {
        Cluster::of(Arc::clone(&self.topology))
    }

    fn of(topology: Arc<Topology>) -> Arc<Self> {
        Arc::new(Cluster {
            topology,
            connections: Mutex::default(),
        })
    }

    /// Sends one command to the owner of the key, and returns its reply, which may be an error.
    ///
    /// While some of its keys are on their way to another node the command is sent again until `retry_until`.
    pub(crate) async fn ask(
        &self,
        command: &Cmd,
        key: Option<&str>,
        until: Moment,
        retry_until: Moment,
    ) -> Result<Value> {
        let slot = key.map_or(0, slot_of);
        let left = CLOCK.left(until);
        let latest = until.minus(ANSWER.min(left / 4));
        let (mut backoff, mut sent_on) = (Backoff::new(PAUSES_MS), None);
        loop {
            let asked = self.topology.asked();
            let node = match sent_on.take() {
                Some(node) => node,
                None => self.owner(slot, asked, until).await?,
            };
            let outcome = self.ask_at(&node, command, until).await;
            let (outcome, until) = match self.learnt(&outcome, &node, asked, until).await {
                None => return outcome,
                Some(Redirect::Ask(to)) => {
                    let there = self.connection(&to);
                    let asking = there.behind("ASKING", command, until); // it permits one command
                    let outcome = Box::pin(asking).await;
                    let Ok(Value::ServerError(reply)) = &outcome else {
                        return outcome;
                    };
                    match Redirect::read(&error_map::line(reply), &to) {
                        Some(Redirect::TryAgain) => (outcome, retry_until.min(until)),
                        Some(_) => (outcome, until),
                        None => return outcome,
                    }
                }
                // The node that reports this knows, whatever others report meanwhile.
                Some(Redirect::Moved(_, to)) => {
                    sent_on = Some(to);
                    (outcome, until)
                }
                Some(Redirect::Elsewhere) => (outcome, until),
                Some(Redirect::TryAgain) => (outcome, retry_until.min(until)),
            };
            let pause = backoff.next_jittered();
            let again = CLOCK.now().plus(pause);
            if again >= until.min(latest) {
                return outcome;
            }
            if !pause.is_zero() {
                CLOCK.sleep_until(again).await;
            }
        }
    }

    /// Returns the owner of the slot. The nodes are asked when it is not known.
    async fn owner(&self, slot: u16, asked: u64, until: Moment) -> Result<SlotNode> {
        if let Some(node) = self.topology.owner(slot) {
            return Ok(node);
        }
        self.topology.refresh(asked, until).await?;
        let nobody = || refusal!(ClusterDown: "no node of the cluster has the slot of this lock");
        self.topology.owner(slot).ok_or_else(nobody)
    }

    /// Sends to this very node.
    ///
    /// It waits for a missing connection no longer than it takes to ask others whether the node is still the right one.
    async fn ask_at(&self, node: &SlotNode, command: &Cmd, until: Moment) -> Result<Value> {
        let connection = self.connection(node);
        let reached = CLOCK.now().plus(REACHED_AFTER).min(until);
        Box::pin(connection.reached(reached)).await?;
        let left = CLOCK.left(until);
        connection.ask(command, until, left).await
    }

    /// Learns from an outcome; `None` when it is the last one.
    async fn learnt(
        &self,
        outcome: &Result<Value>,
        node: &SlotNode,
        asked: u64,
        until: Moment,
    ) -> Option<Redirect> {
        let redirect = match outcome {
            Ok(Value::ServerError(reply)) => {
                let line = error_map::line(reply);
                if line.starts_with("CLUSTERDOWN") {
                    self.topology.refresh_in_background(asked);
                }
                Redirect::read(&line, node)
            }
            Err(error) if error.maybe_applied() => {
                self.topology.refresh_in_background(asked);
                None
            }
            Err(error) if error.is_transient() => Some(Redirect::Elsewhere),
            Ok(_) | Err(_) => None,
        };
        match &redirect {
            Some(Redirect::Moved(slot, to)) => self.topology.moved(*slot, to),
            // Without news, the node is tried again.
            Some(Redirect::Elsewhere) => {
                drop(Box::pin(self.topology.refresh(asked, until)).await);
            }
            Some(Redirect::Ask(_) | Redirect::TryAgain) | None => {}
        }
        redirect
    }

    fn connection(&self, node: &SlotNode) -> Arc<Connection> {
        let changes = self.topology.changes();
        let mut connections = hold(&self.connections);
        if connections.changes != changes {
            connections.changes = changes;
            self.forget_strangers(&mut connections, node);
        }
        if let Some(known) = connections.by_node.get(node) {
            return known.clone();
        }
        let endpoint = self.topology.endpoint(node);
        let connection = Connection::new(endpoint, self.topology.trouble.clone());
        connections.by_node.insert(node.clone(), connection.clone());
        connection
    }

    /// Closes connections to nodes without slots. Requests that are on their way keep theirs.
    fn forget_strangers(&self, connections: &mut NodeConnections, but: &SlotNode) {
        let primaries = self.topology.primaries();
        connections.by_node.retain(|node, connection| {
            let stays = node == but || primaries.contains(node);
            if !stays {
                connections.made_before += connection.epoch();
            }
            stays
        });
    }

    /// Returns a number that grows with each new connection and with each slot that is found elsewhere.
    pub(crate) fn epoch(&self) -> u64 {
        let connections = hold(&self.connections);
        let made: u64 = connections
            .by_node
            .values()
            .map(|connection| connection.epoch())
            .sum();
        made + connections.made_before + self.topology.changes()
    }

    /// Sends one command to the primary at this index; `None` behind the last.
    pub(crate) async fn ask_primary(
        &self,
        place: usize,
        command: &Cmd,
        until: Moment,
    ) -> Result<Option<Value>> {
        let primaries = self.primaries(until).await?;
        match primaries.get(place) {
            Some(node) => self.ask_at(node, command, until).await.map(Some),
            None => Ok(None),
        }
    }

    async fn primaries(&self, until: Moment) -> Result<Vec<SlotNode>> {
        if self.topology.primaries().is_empty() {
            let asked = self.topology.asked();
            self.topology.refresh(asked, until).await?;
        }
        Ok(self.topology.primaries())
    }

    /// Lists every primary as a server of its own, by a new table.
    pub(in crate::store::redis) async fn endpoints_anew(
        &self,
        until: Moment,
    ) -> Result<Vec<Endpoint>> {
        let asked = self.topology.asked();
        self.topology.refresh(asked, until).await?;
        self.endpoints(until).await
    }

    /// Names the node that has the key, as far as is known.
    pub(crate) fn place_of(&self, key: &str) -> String {
        match self.topology.owner(slot_of(key)) {
            Some(node) => format!("the node {node}"),
            None => format!("a node of {}", self.topology),
        }
    }

    /// Lists every primary as a server of its own.
    pub(in crate::store::redis) async fn endpoints(&self, until: Moment) -> Result<Vec<Endpoint>> {
        let primaries = self.primaries(until).await?;
        let endpoint = |node| self.topology.endpoint(node);
        Ok(primaries.iter().map(endpoint).collect())
    }

    /// Returns the subscriptions at the node that has the key, as far as is known.
    ///
    /// `sharded` channels are used where the server has them.
    pub(crate) fn subscriptions_at(&self, key: &str) -> Option<(Arc<Subscriptions>, bool)> {
        let node = self.topology.owner(slot_of(key))?;
        self.topology.subscribers.at(&node)
    }
}

debug_as!(Cluster, it => "Cluster({})", it.topology);
