//! Several servers as one store: requests to all of them, and their combined reply.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;

use super::fan_out::FanOut;
use super::member::{Common, NodeTerms, QuorumMember};
use super::repair::Repair;
use super::tally::{Absent, TallyVerdict, Votes, majority};
use super::votable::Votable;
use crate::base::clock::{CLOCK, Moment};
use crate::base::error::{ErrorKind, StoreError};
use crate::base::error::{NodeVote, Tally, Vote};
use crate::script::library::Library;
use crate::store::redis::{LoadedFunctions, RedisStore, load_on_each};
use crate::store::{Capabilities, Event, LeaseHolder, Sink};

/// Several servers. Clones share everything; `unshared` has connections of its own.
#[derive(Clone)]
pub(crate) struct QuorumStore {
    pub(super) nodes: Arc<[Arc<QuorumMember>]>,
    mops: Arc<[Arc<Repair>]>,
    pub(super) common: Arc<Common>,
    runs_on: Arc<OnceLock<Handle>>,
}

/// A callback for each node's reply, even after the outcome.
pub(crate) type Hears<R> = Arc<dyn Fn(usize, &R) + Send + Sync>;

/// Which nodes may reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeQuestion {
    /// Only a server that knows all it has granted.
    ToVote,
    /// Every server.
    ToSay,
}

impl QuorumStore {
    pub(crate) fn new(servers: Vec<RedisStore>, terms: NodeTerms) -> Self {
        let common = Arc::new(Common::new(terms, servers.len()));
        let runs_on = Arc::default();
        let mop = |store: &RedisStore| Repair::new(store.unshared(), terms.longest, &runs_on);
        let mops = servers.iter().map(mop).collect();
        let node = |(at, store)| Arc::new(QuorumMember::new(store, at, &common));
        QuorumStore {
            nodes: servers.into_iter().enumerate().map(node).collect(),
            mops,
            common,
            runs_on,
        }
    }

    pub(crate) fn unshared(&self) -> Self {
        let nodes = self.nodes.iter();
        QuorumStore {
            nodes: nodes.map(|node| Arc::new(node.unshared())).collect(),
            ..self.clone()
        }
    }

    /// Runs the remaining cleanup on this runtime.
    pub(crate) fn clean_up_on(&self, handle: &Handle) {
        drop(self.runs_on.set(handle.clone())); // the first one is enough
    }

    /// Waits until no node has cleanup left, at most for `within`.
    ///
    /// It does not wait longer for a node that is gone.
    pub(crate) async fn is_clean(&self, within: Duration) {
        /// How often closing a client checks whether the nodes are clean.
        const EACH: Duration = Duration::from_millis(2);
        let until = self.until(within.min(self.common.terms.node_timeout));
        let is_clean = || {
            let none = self.common.cleaning.load(Ordering::SeqCst) == 0;
            none && self.mops.iter().all(|mop| mop.is_idle())
        };
        while !is_clean() && CLOCK.now() < until {
            tokio::time::sleep(EACH).await;
        }
    }

    /// Returns the longest ttl that a lease may have.
    pub(crate) fn longest(&self) -> Duration {
        self.common.terms.longest
    }

    /// Returns how far a proposed fencing token may be behind a node's clock.
    ///
    /// No token that an earlier process of the node granted is that young, because the node has stayed out for all of
    /// that time.
    pub(crate) fn behind(&self) -> Duration {
        self.common.terms.longest / 4
    }

    /// Proposes as [`propose`](QuorumStore::propose) does; 0 for a caller without fencing.
    pub(crate) async fn propose_if(&self, fencing: bool, within: Duration) -> u64 {
        if fencing {
            self.propose(within).await
        } else {
            0
        }
    }

    /// Proposes a fencing token; 0 when no server's time is known.
    ///
    /// The first proposal of a client waits until a majority has reported its time. Connecting asks for that anyway, so
    /// it costs no round trip; a proposal without it would cost one.
    pub(crate) async fn propose(&self, within: Duration) -> u64 {
        let known = self.common.times.propose(CLOCK.now());
        if known != 0 {
            return known;
        }
        let until = self.until(within.min(self.common.terms.node_timeout));
        let mut births = FanOut::new(self.nodes.len(), within);
        for (at, node) in self.nodes.iter().map(Arc::clone).enumerate() {
            births.send(at, async move {
                let born = node.birth(until).await.map(drop);
                (born.map_err(Absent::Failed), None)
            });
        }
        while !births.votes().is_majority(|()| true) && births.next().await.is_some() {}
        self.common.times.propose(CLOCK.now())
    }

    pub(crate) fn showed(&self, at: usize, time_us: u64) {
        self.common.times.showed(at, time_us, CLOCK.now());
    }

    pub(crate) fn asked_for(&self, least: u64) {
        self.common.times.asked_for(least);
    }

    /// Sends a request to the nodes that are `among`.
    pub(crate) fn poll<O: Votable>(
        &self,
        operation: &O,
        asked: NodeQuestion,
        among: impl Fn(usize) -> bool,
        within: Duration,
    ) -> FanOut<O::Reply> {
        self.poll_hearing(operation, asked, among, within, None)
    }

    fn poll_hearing<O: Votable>(
        &self,
        operation: &O,
        asked: NodeQuestion,
        among: impl Fn(usize) -> bool,
        within: Duration,
        hears: Option<Hears<O::Reply>>,
    ) -> FanOut<O::Reply> {
        let call = Arc::new(operation.on_a_node());
        let within = within.min(self.common.terms.node_timeout);
        let mut poll = FanOut::new(self.nodes.len(), within);
        for (at, node) in self.nodes.iter().enumerate().filter(|(at, _)| among(*at)) {
            let (node, call) = (Arc::clone(node), Arc::clone(&call));
            let common = Arc::clone(&self.common);
            let cleaning = O::CLEANS_UP.then(|| Cleaning::begin(&common, &self.mops[at]));
            let (over, hears) = (Arc::clone(poll.over()), hears.clone());
            poll.send(at, async move {
                let answer = match asked {
                    NodeQuestion::ToVote => node.vote(&call, within, &over).await,
                    NodeQuestion::ToSay => node.ask(&call, within).await,
                };
                let said = answer
                    .and_then(|answer| O::of_a_node(call.script, &answer).map_err(Absent::Failed));
                if let (Ok(reply), Some(hears)) = (&said, hears) {
                    hears(at, reply);
                }
                if let Some(cleaning) = cleaning {
                    match &said {
                        Ok(reply) if O::is_found(reply) => {}
                        said => cleaning.mop.take(&call, said.is_ok()),
                    }
                }
                (said, common.server(at))
            });
        }
        poll
    }

    /// Runs an operation, and returns the combined reply as soon as that is decided.
    pub(crate) async fn ask<O: Votable>(
        &self,
        operation: &O,
        within: Duration,
        hears: Option<Hears<O::Reply>>,
    ) -> Result<O::Reply, StoreError> {
        if matches!(O::count(&Votes::new(self.nodes.len())), TallyVerdict::Never) {
            return Err(not_votable(operation.script().name));
        }
        let mut poll = self.poll_hearing(operation, NodeQuestion::ToSay, |_| true, within, hears);
        while poll.next().await.is_some() {
            if let TallyVerdict::Decided(reply) = O::count(poll.votes()) {
                return Ok(reply);
            }
        }
        Err(self.no_majority(poll.votes(), |_| Vote::Answered, true))
    }

    /// Creates the error of too few equal replies.
    pub(crate) fn no_majority<R>(
        &self,
        votes: &Votes<R>,
        shown: impl Fn(&R) -> Vote,
        maybe_applied: bool,
    ) -> StoreError {
        let vote = |(at, node): (usize, &Arc<QuorumMember>)| NodeVote {
            node: node.store.describe(),
            vote: match votes.of(at) {
                None => Vote::Silent,
                Some(Ok(_)) if self.common.twin(at).is_some() => Vote::SameServer,
                Some(Ok(reply)) => shown(reply),
                Some(Err(Absent::NotVoting(rest))) => Vote::NotVoting { rest: *rest },
                Some(Err(Absent::Failed(error))) => Vote::of_failure(error.kind()),
            },
            error: match votes.of(at) {
                Some(Err(Absent::Failed(error))) => Some(error.clone()),
                _ => None,
            },
            within: votes.within(),
        };
        let all: Vec<NodeVote> = self.nodes.iter().enumerate().map(vote).collect();
        let granted = all.iter().filter(|one| one.vote == Vote::Granted).count();
        let tally = Tally {
            granted,
            needed: votes.needed(),
            votes: all,
        };
        StoreError::no_majority(kind_of(votes), tally, maybe_applied)
    }

    /// Subscribes at every node. Messages are missed only when no node is connected.
    pub(crate) async fn listen(&self, channel: &str, sink: Sink) {
        let sink: Arc<dyn Fn(Event) + Send + Sync> = Arc::from(sink);
        let heard = Arc::new(AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for node in self.nodes.iter() {
            let (node, channel) = (Arc::clone(node), channel.to_owned());
            let (sink, heard) = (Arc::clone(&sink), Arc::clone(&heard));
            tasks.spawn(async move {
                let hears = AtomicUsize::new(0);
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
                node.store.listen(&channel, one).await;
            });
        }
        while tasks.join_next().await.is_some() {}
    }

    /// True if most nodes let the user publish to the channel; `None` when too few say so.
    pub(crate) async fn may_wake(&self, channel: &str, within: Duration) -> Option<bool> {
        let mut asked = tokio::task::JoinSet::new();
        for node in self.nodes.iter().map(Arc::clone) {
            let channel = channel.to_owned();
            asked.spawn(async move { node.store.may_publish(&channel, within).await });
        }
        let (mut allow, mut refuse) = (0, 0);
        while let Some(said) = asked.join_next().await {
            match said.ok().flatten() {
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
    pub(crate) async fn follow(&self, holder: &Arc<dyn LeaseHolder>) {
        let mut tasks = tokio::task::JoinSet::new();
        for node in self.nodes.iter().map(Arc::clone) {
            let holder = Arc::clone(holder);
            tasks.spawn(async move { node.store.follow(&*holder).await });
        }
        while tasks.join_next().await.is_some() {}
        std::future::pending().await
    }

    /// Loads the scripts onto every node as functions.
    pub(crate) async fn load_functions(
        &self,
        library: &'static Library,
        within: Duration,
    ) -> Result<LoadedFunctions, StoreError> {
        let stores = self.nodes.iter().map(|node| node.store.clone());
        load_on_each(stores.collect(), library, within).await
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        Capabilities {
            wakes: true,
            keys_per_call: 200,
            combines: true,
            by_node: false,
            look_every: Duration::MAX,
        }
    }

    pub(crate) fn describe(&self) -> String {
        let nodes: Vec<String> = self
            .nodes
            .iter()
            .map(|node| node.store.describe())
            .collect();
        format!("a quorum of {}: {}", nodes.len(), nodes.join(", "))
    }

    pub(super) fn until(&self, within: Duration) -> Moment {
        CLOCK.now().plus(within)
    }
}

/// A cleanup request, from its creation until it ends or goes to the repair.
struct Cleaning {
    common: Arc<Common>,
    mop: Arc<Repair>,
}

impl Cleaning {
    fn begin(common: &Arc<Common>, mop: &Arc<Repair>) -> Self {
        common.cleaning.fetch_add(1, Ordering::SeqCst);
        Cleaning {
            common: Arc::clone(common),
            mop: Arc::clone(mop),
        }
    }
}

impl Drop for Cleaning {
    fn drop(&mut self) {
        self.common.cleaning.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(super) fn not_votable(what: &str) -> StoreError {
    let message = format!("{what} cannot be voted on by several servers");
    StoreError::refused(ErrorKind::Unsupported, message)
}

/// Returns the most frequent kind of error.
fn kind_of<R>(votes: &Votes<R>) -> ErrorKind {
    let kind = |absent: &Absent| match absent {
        Absent::NotVoting(_) => ErrorKind::NotServing,
        Absent::Failed(error) => error.kind(),
    };
    let kinds: Vec<ErrorKind> = votes.absent().map(kind).collect();
    let often = |kind: &ErrorKind| kinds.iter().filter(|other| *other == kind).count();
    // A transient error comes first, because a waiter continues then.
    let most = kinds
        .iter()
        .copied()
        .max_by_key(|kind| (often(kind), *kind != ErrorKind::Corrupt));
    most.unwrap_or(ErrorKind::NotServing)
}

impl fmt::Debug for QuorumStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuorumStore({})", self.describe())
    }
}
