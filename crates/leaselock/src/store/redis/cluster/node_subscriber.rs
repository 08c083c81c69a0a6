//! Subscriptions at every node of a cluster, over one connection each while a channel is wanted.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::topology::Topology;
use crate::base::{CLOCK, ErrorKind, StoreError};
use crate::script::keys;
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::subscriber::{self, Publisher, Refused};
use crate::store::subscriptions::Subscriptions;

/// How long the nodes are asked for the owner of a slot whose channel was lost.
const ASKED_FOR: Duration = Duration::from_secs(1);
/// How often, where no node reports by itself that a slot has left.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Serves the subscriptions at all nodes, until it is dropped.
pub(in crate::store::redis) async fn serve(topology: &Arc<Topology>) {
    let (mut served, mut tasks) = (HashSet::new(), JoinSet::new());
    loop {
        for (node, set) in topology.subscribers.nodes() {
            let publisher = NodePublisher {
                endpoint: topology.endpoint(&node),
                topology: Arc::clone(topology),
            };
            if served.insert(node) {
                tasks.spawn(async move { subscriber::serve(&publisher, &set).await });
            }
        }
        topology.subscribers.grown.notified().await;
    }
}

/// One node, with the channels of the slots that it has.
struct NodePublisher {
    endpoint: Endpoint,
    topology: Arc<Topology>,
}

impl NodePublisher {
    async fn refresh(&self, asked: u64) {
        let until = CLOCK.now().plus(ASKED_FOR);
        drop(self.topology.refresh(asked, until).await);
    }
}

impl Publisher for NodePublisher {
    const CONSEQUENCE: &'static str = "not listening; waiters have their timers only";

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn is_sharded(&self, channel: &str) -> bool {
        keys::is_sharded(channel)
    }

    fn refused(&self, set: &Subscriptions, channel: &str, error: StoreError) -> Refused {
        if error.kind() == ErrorKind::ClusterDown {
            let asked = self.topology.asked();
            set.gone(|name| name == channel);
            self.topology.refresh_in_background(asked);
            return Ok(());
        }
        if !error.is_transient() && self.is_sharded(channel) {
            let unsharded = &self.topology.subscribers.unsharded;
            unsharded.store(true, Ordering::SeqCst);
        }
        subscriber::refuse(&self.endpoint, set, channel, error)
    }

    fn begin(&self) -> u64 {
        self.topology.asked()
    }

    /// The channels may now belong to another node.
    async fn failed(&self, begun: u64) {
        self.refresh(begun).await;
    }

    /// Asks for the table at intervals: ordinary channels stay when a slot leaves, and no message reports that.
    async fn accompany(&self, set: &Subscriptions) {
        loop {
            sleep(ASKED_EVERY).await;
            if self.topology.subscribers.unsharded.load(Ordering::SeqCst) && !set.is_idle() {
                self.refresh(self.topology.asked()).await;
            }
        }
    }
}
