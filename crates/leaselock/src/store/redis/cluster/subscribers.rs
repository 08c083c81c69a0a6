//! Subscriptions of waiters in a cluster: at their lock's node, because a node counts its own subscribers only.
//!
//! Each node has its set of subscriptions. When a slot moves, its subscriptions end; the waiter polls and subscribes at
//! the new owner.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Notify;

use super::slots::{SlotNode, SlotTable, slot_of};
use crate::base::{debug_as, hold};
use crate::store::{SharedSink, Subscriptions};

/// The subscriptions at each node.
#[derive(Default)]
pub(in crate::store::redis) struct Subscribers {
    by_node: Mutex<HashMap<SlotNode, Arc<Subscriptions>>>,
    pub(super) grown: Notify,
    /// True once a server has said that it has no channels that belong to a slot.
    pub(super) unsharded: AtomicBool,
    sink: OnceLock<SharedSink>,
}

impl Subscribers {
    /// Wakes waiters through this sink from now on.
    pub(in crate::store::redis) fn deliver_to(&self, sink: SharedSink) {
        drop(self.sink.set(sink)); // the first one is enough
    }

    /// Returns a node's subscriptions, and whether its channels are sharded; `None` without a sink.
    pub(super) fn at(&self, node: &SlotNode) -> Option<(Arc<Subscriptions>, bool)> {
        let sink = self.sink.get()?;
        let mut by_node = hold(&self.by_node);
        let sharded = !self.unsharded.load(Ordering::SeqCst);
        let set = by_node.entry(node.clone()).or_insert_with(|| {
            self.grown.notify_one();
            Subscriptions::observed(Arc::clone(sink), false)
        });
        Some((Arc::clone(set), sharded))
    }

    /// Wakes waiters whose channel's slot has left the node of their subscription.
    pub(super) fn follow(&self, table: &SlotTable) {
        for (node, set) in hold(&self.by_node).iter() {
            set.gone(|channel| table.owner(slot_of(channel)) != Some(node));
        }
    }

    pub(super) fn nodes(&self) -> Vec<(SlotNode, Arc<Subscriptions>)> {
        let by_node = hold(&self.by_node);
        let pairs = by_node.iter();
        pairs
            .map(|(node, set)| (node.clone(), Arc::clone(set)))
            .collect()
    }
}

debug_as!(Subscribers, _it => {});
