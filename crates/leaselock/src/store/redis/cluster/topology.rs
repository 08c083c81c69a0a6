//! The topology of a cluster: the owner of each slot. All connections of a client share it.
//!
//! A table is requested when there is none, and when a reply has shown that it is old. Any node can be asked, over a
//! dedicated connection, because those of requests may wait for a node that is stuck.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::slots::{SlotNode, SlotTable};
use super::subscribers::Subscribers;
use crate::base::{CLOCK, ErrorKind, Moment, Result, StoreError, debug_as, hold, refusal};
use crate::script::library::Library;
use crate::store::Reachability;
use crate::store::redis::connection_events::ConnectionEvents;
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::error_map;
use crate::store::url::{Place, RedisUrl, address};

/// A node that has not replied by then may be dead, and another one is asked as well.
const NEXT_AFTER: Duration = Duration::from_millis(200);
/// The shortest pause between two requests for a table, however many requests find it old.
const LEAST_APART: Duration = Duration::from_millis(50);
/// How long the nodes are asked when no caller waits for the reply.
const IN_BACKGROUND: Duration = Duration::from_secs(2);
/// A task that asks for longer is on a runtime that is not driven any more.
const STUCK_AFTER: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct Topology {
    seeds: Vec<RedisUrl>,
    table: Mutex<SlotTable>,
    /// Held by the task that asks the nodes, with the time of the latest reply.
    gate: tokio::sync::Mutex<Option<Moment>>,
    /// How often the nodes have replied.
    asked: AtomicU64,
    /// How often a slot was found with another owner.
    changes: AtomicU64,
    pub(in crate::store::redis) subscribers: Subscribers,
    /// Events of all connections, and of slots that are found elsewhere.
    pub(in crate::store::redis) trouble: ConnectionEvents,
}

impl Topology {
    pub(super) fn new(seeds: Vec<RedisUrl>) -> Arc<Self> {
        Arc::new(Topology {
            seeds,
            ..Topology::default()
        })
    }

    /// Returns how often the nodes have replied.
    ///
    /// A request reads it before it is sent, and passes it on when it has found the table old.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    pub(super) fn owner(&self, slot: u16) -> Option<SlotNode> {
        hold(&self.table).owner(slot).cloned()
    }

    pub(super) fn primaries(&self) -> Vec<SlotNode> {
        hold(&self.table).primaries()
    }

    /// Returns the outcomes of the latest attempts, without those of nodes that have no slots any more.
    pub(in crate::store::redis) fn tried(&self) -> Reachability {
        let (nodes, mut tried) = (self.primaries(), self.trouble.all());
        let names = nodes.iter().map(|node| address(&node.host, node.port));
        names.filter_map(|name| tried.remove_entry(&name)).collect()
    }

    /// Returns the library when scripts are called as its functions.
    pub(crate) fn functions(&self) -> Option<&'static Library> {
        self.seeds[0].functions
    }

    /// Returns the endpoint of a node: all have the login of the URL.
    pub(super) fn endpoint(&self, node: &SlotNode) -> Endpoint {
        let mut url = self.seeds[0].clone();
        if let Place::Tcp { host, port, .. } = &mut url.place {
            (*host, *port) = (node.host.as_ref().to_owned(), node.port);
        }
        Endpoint::new(url)
    }

    /// Converts an error line of a node.
    pub(crate) fn explain(&self, line: &str) -> StoreError {
        if line.starts_with("MOVED ") || line.starts_with("ASK ") {
            let message = format!(
                "the nodes of the cluster do not agree about who has this lock (one said: {})",
                error_map::quoted(line)
            );
            return StoreError::refused(ErrorKind::ClusterDown, message);
        }
        Endpoint::new(self.seeds[0].clone()).explain(line)
    }

    /// Records that a slot belongs to another node.
    pub(super) fn moved(self: &Arc<Self>, slot: u16, to: &SlotNode) {
        let asked = self.asked();
        if hold(&self.table).moved(slot, to) {
            self.has_changed();
            self.refresh_in_background(asked); // it is seldom the only one
        }
    }

    fn has_changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        let table = hold(&self.table).clone();
        self.subscribers.follow(&table);
        self.trouble.happened();
    }

    /// Asks the nodes, unless a task has since `seen`. A caller that needs the reply at once does not wait for this.
    pub(super) fn refresh_in_background(self: &Arc<Self>, seen: u64) {
        let this = Arc::clone(self);
        drop(tokio::spawn(async move {
            let until = CLOCK.now().plus(IN_BACKGROUND);
            if let Err(error) = this.refresh(seen, until).await {
                tracing::debug!(target: "leaselock", server = %this, %error, "the slots are not known anew");
            }
        }));
    }

    /// Asks the nodes, unless a task has since `seen`.
    pub(super) async fn refresh(&self, seen: u64, until: Moment) -> Result<()> {
        let within = CLOCK.left(until).min(STUCK_AFTER);
        let gate = timeout(within, self.gate.lock()).await;
        if self.asked() != seen {
            return Ok(());
        }
        let latest = gate.as_ref().ok().and_then(|latest| **latest);
        if let Some(latest) = latest {
            CLOCK.sleep_until(latest.plus(LEAST_APART).min(until)).await;
        }
        let outcome = self.ask_the_nodes(until).await;
        if let Ok(mut latest) = gate {
            *latest = Some(CLOCK.now());
        }
        let table = outcome?;
        let news = {
            let mut known = hold(&self.table);
            let news = !known.agrees(&table);
            *known = table;
            news
        };
        self.asked.fetch_add(1, Ordering::SeqCst);
        if news {
            tracing::debug!(target: "leaselock", server = %self, primaries = ?self.primaries(), "slots");
            self.has_changed();
        }
        Ok(())
    }

    /// Asks one node after the other, the next before a slow one has replied. The first reply counts.
    async fn ask_the_nodes(&self, until: Moment) -> Result<SlotTable> {
        let mut rest = self.candidates().into_iter();
        let mut asking = JoinSet::new();
        let mut failure = None;
        loop {
            let next = rest.next();
            let last = next.is_none();
            if let Some(node) = next {
                let endpoint = self.endpoint(&node);
                asking.spawn(async move { table_of(&endpoint, &node).await });
            } else if asking.is_empty() {
                break;
            }
            let within = if last {
                CLOCK.left(until)
            } else {
                CLOCK.left(until).min(NEXT_AFTER)
            };
            match timeout(within, asking.join_next()).await {
                Ok(Some(Ok(Ok(table)))) => return Ok(table),
                Ok(Some(Ok(Err(error)))) => failure = Some(error),
                Ok(Some(Err(_)) | None) => {}
                Err(_) if CLOCK.left(until).is_zero() => break,
                Err(_) => {}
            }
        }
        Err(failure.unwrap_or_else(|| refusal!(NoReply: "no node of {self} has answered in time")))
    }

    /// Lists the nodes to ask: known ones first, then those of the URL.
    ///
    /// Known ones are in random order, so that one with an old view is not always the first.
    fn candidates(&self) -> Vec<SlotNode> {
        let mut nodes = hold(&self.table).nodes().to_vec();
        if !nodes.is_empty() {
            let first = getrandom::u32().unwrap_or_default() as usize % nodes.len();
            nodes.rotate_left(first);
        }
        for seed in &self.seeds {
            if let Place::Tcp { host, port, .. } = &seed.place {
                let seed = SlotNode::new(host, *port);
                if !nodes.contains(&seed) {
                    nodes.push(seed);
                }
            }
        }
        nodes
    }
}

async fn table_of(endpoint: &Endpoint, node: &SlotNode) -> Result<SlotTable> {
    let mut raw = endpoint.for_requests().await?;
    let slots = raw
        .connection
        .send_packed_command(redis::cmd("CLUSTER").arg("SLOTS"))
        .await;
    let odd = || refusal!(Malformed: "unexpected reply from {endpoint} to CLUSTER SLOTS");
    match slots.map_err(|error| endpoint.connecting(error))? {
        Value::ServerError(reply) => Err(endpoint.refusal(&reply)),
        answer => SlotTable::read(&answer, node).ok_or_else(odd),
    }
}

/// The URL without its login.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = matches!(self.seeds[0].place, Place::Tcp { tls: true, .. });
        let scheme = if tls { "rediss" } else { "redis" };
        let place = |seed: &RedisUrl| match &seed.place {
            Place::Tcp { host, port, .. } => Some(address(host, *port)),
            _ => None,
        };
        let places: Vec<_> = self.seeds.iter().filter_map(place).collect();
        write!(f, "{scheme}+cluster://{}", places.join(","))
    }
}

debug_as!(Topology, it => "Topology({it})");
