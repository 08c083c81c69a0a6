//! A quorum as a store: what it does without a vote, at every node.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;

use super::group::QuorumStore;
use super::tally::majority;
use crate::base::{CLOCK, InvalidInput, Result, span};
use crate::script::{Answer, Call, Library};
use crate::store::interface::not_votable;
use crate::store::{
    Capabilities, Event, LeaseHolder, LoadedFunctions, Reachability, Report, Sink, Store,
};

impl Store for QuorumStore {
    async fn run(&self, call: &Call, _within: Duration) -> Result<Answer> {
        Err(not_votable(call.script.name))
    }

    async fn examine(&self, within: Duration) -> Result<Report> {
        self.examine_nodes(within).await
    }

    fn unshared(&self) -> Self {
        let nodes = self.nodes.iter();
        QuorumStore {
            nodes: nodes.map(|node| Arc::new(node.unshared())).collect(),
            ..self.clone()
        }
    }

    /// Runs the remaining cleanup on this runtime.
    fn clean_up_on(&self, handle: &Handle) {
        drop(self.runs_on.set(handle.clone())); // the first one is enough
    }

    /// Waits until no node has cleanup left, at most for `within`.
    ///
    /// It does not wait longer for a node that is gone.
    async fn is_clean(&self, within: Duration) {
        /// How often closing a client checks whether the nodes are clean.
        const EACH: Duration = Duration::from_millis(2);
        let until = self.until(within.min(self.common.terms.node_timeout));
        let is_clean = || {
            let none = Arc::strong_count(&self.common.cleaning) == 1;
            none && self.mops.iter().all(|mop| mop.is_idle())
        };
        while !is_clean() && CLOCK.now() < until {
            tokio::time::sleep(EACH).await;
        }
    }

    /// Subscribes at every node. Messages are missed only when no node is connected.
    async fn listen(&self, channel: &str, sink: Sink) {
        let sink: Arc<dyn Fn(Event) + Send + Sync> = Arc::from(sink);
        let heard = Arc::new(AtomicUsize::new(0));
        let listening = self.nodes.iter().map(|node| {
            let (sink, heard, hears) = (Arc::clone(&sink), Arc::clone(&heard), AtomicUsize::new(0));
            let one = Box::new(move |event| {
                let others = match event {
                    Event::Ready if hears.swap(1, Ordering::SeqCst) == 0 => {
                        heard.fetch_add(1, Ordering::SeqCst);
                        0
                    }
                    Event::Gap if hears.swap(0, Ordering::SeqCst) == 1 => {
                        heard.fetch_sub(1, Ordering::SeqCst) - 1
                    }
                    Event::Gap => return,
                    _ => 0,
                };
                if others > 0 {
                    return; // they report the same
                }
                sink(event);
            });
            node.store.listen(channel, one)
        });
        join_all(listening).await;
    }

    /// True if most nodes let the user publish to the channel; `None` when too few say so.
    async fn may_wake(&self, channel: &str, within: Duration) -> Option<bool> {
        let nodes = self.nodes.iter();
        let asked = nodes.map(|node| node.store.may_publish(channel, within));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let (mut allow, mut refuse) = (0, 0);
        while let Some(said) = asked.next().await {
            match said {
                Some(true) => allow += 1,
                Some(false) => refuse += 1,
                None => {}
            }
            let needed = majority(self.nodes.len());
            if allow >= needed || refuse >= needed {
                return Some(allow >= needed);
            }
        }
        None
    }

    /// Follows each node to wherever it moves, for ever; stops when dropped.
    async fn follow(&self, holder: &Arc<dyn LeaseHolder>) {
        join_all(self.nodes.iter().map(|node| node.store.follow(holder))).await;
        std::future::pending().await
    }

    /// Loads the scripts onto every node as functions.
    async fn load_functions(
        &self,
        library: &'static Library,
        within: Duration,
    ) -> Result<Vec<LoadedFunctions>> {
        let loading = self.nodes.iter().map(|node| {
            let loading = node.store.load_functions(library, within);
            (node.store.describe(), loading)
        });
        LoadedFunctions::on_each(&library.name, loading).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            wakes: true,
            keys_per_call: 200,
            combines: true,
            has_users: true,
            has_replicas: false,
            has_commands: false,
            look_every: Duration::MAX,
        }
    }

    fn describe(&self) -> String {
        let nodes: Vec<String> = self
            .nodes
            .iter()
            .map(|node| node.store.describe())
            .collect();
        format!("a quorum of {}: {}", nodes.len(), nodes.join(", "))
    }

    fn tried(&self) -> Reachability {
        self.nodes
            .iter()
            .flat_map(|node| node.store.tried())
            .collect()
    }

    /// A lease must not outlive the time for which a restarted node stays out.
    fn check_limits(&self, priority: i32, ttl: Duration) -> Result<(), InvalidInput> {
        if priority != 0 {
            return Err(InvalidInput::new(
                "a quorum does not support a priority: it has no queue to go ahead in; leave it out, or use one server",
            )
            .because("servers that vote have no queue"));
        }
        let longest = self.longest();
        if ttl <= longest {
            return Ok(());
        }
        Err(InvalidInput::new(format!(
            "ttl {} is longer than the longest on this quorum, {}: make it shorter, or raise `longest_ttl` for all who share \
             the servers, who must agree on it",
            span(ttl),
            span(longest)
        )))
    }
}
