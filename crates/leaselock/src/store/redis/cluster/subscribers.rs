//! Where waiters of a cluster listen: at the node that has their lock, because a node counts its own listeners only.
//!
//! Each node has its bells. When a slot moves, what was heard of it ends there; whoever waits looks again and listens
//! at the new owner.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;

use super::slots::{Node, Table, slot_of};
use crate::store::SharedSink;
use crate::store::subscriptions::Subscriptions;

/// The bells of each node.
pub(super) struct Subscribers {
    by_node: Mutex<HashMap<Node, Arc<Subscriptions>>>,
    pub(super) grown: Notify,
    /// The servers have channels that belong to a slot. Supposed until one says otherwise.
    pub(super) sharded: AtomicBool,
    sink: OnceLock<SharedSink>,
}

impl Default for Subscribers {
    fn default() -> Self {
        Subscribers {
            by_node: Mutex::default(),
            grown: Notify::new(),
            sharded: AtomicBool::new(true),
            sink: OnceLock::new(),
        }
    }
}

impl Subscribers {
    pub(super) fn tell(&self, sink: SharedSink) {
        drop(self.sink.set(sink)); // once is enough
    }

    /// The bells of a node, and whether its channels are to be sharded; `None` when nobody would be told.
    pub(super) fn at(&self, node: &Node) -> Option<(Arc<Subscriptions>, bool)> {
        let sink = self.sink.get()?;
        let mut by_node = self.by_node();
        let sharded = self.sharded.load(Ordering::SeqCst);
        if let Some(bells) = by_node.get(node) {
            return Some((Arc::clone(bells), sharded));
        }
        let bells = Subscriptions::telling(Arc::clone(sink));
        by_node.insert(node.clone(), Arc::clone(&bells));
        drop(by_node);
        self.grown.notify_one();
        Some((bells, sharded))
    }

    /// Whoever listens where the slot of its channel does not lie any more is told.
    pub(super) fn follow(&self, table: &Table) {
        for (node, bells) in self.by_node().iter() {
            bells.gone(|channel| table.owner(slot_of(channel)) != Some(node));
        }
    }

    pub(super) fn nodes(&self) -> Vec<(Node, Arc<Subscriptions>)> {
        let by_node = self.by_node();
        let pairs = by_node.iter();
        pairs
            .map(|(node, bells)| (node.clone(), Arc::clone(bells)))
            .collect()
    }

    fn by_node(&self) -> MutexGuard<'_, HashMap<Node, Arc<Subscriptions>>> {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Subscribers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscribers").finish_non_exhaustive()
    }
}
