//! Several servers as one: requests to all of them, and their combined reply.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;

use super::member::{Common, NodeTerms, QuorumMember};
use super::repair::Repair;
use super::tally::{Absent, TallyVerdict, Votable, Votes};
use crate::base::error::{NodeVote, Tally, Vote};
use crate::base::{CLOCK, ErrorKind, Moment, Result, StoreError, debug_as};
use crate::store::interface::not_votable;
use crate::store::{RedisStore, Store};

/// Several servers. Clones share everything; `unshared` has connections of its own.
#[derive(Clone)]
pub(crate) struct QuorumStore {
    pub(super) nodes: Arc<[Arc<QuorumMember>]>,
    pub(super) mops: Arc<[Arc<Repair>]>,
    pub(super) common: Arc<Common>,
    pub(super) runs_on: Arc<OnceLock<Handle>>,
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
        let mop = |store: &RedisStore| Repair::new(store.unshared(), &common, &runs_on);
        let mops = servers.iter().map(mop).collect();
        let node = |(at, store)| Arc::new(QuorumMember::new(store, at, &common));
        QuorumStore {
            nodes: servers.into_iter().enumerate().map(node).collect(),
            mops,
            common,
            runs_on,
        }
    }

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
            let cleaning =
                O::CLEANS_UP.then(|| (Arc::clone(&common.cleaning), Arc::clone(&self.mops[at])));
            let (over, hears) = (Arc::clone(&poll.over), hears.clone());
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
                if let Some((_counted, mop)) = cleaning {
                    match &said {
                        Ok(reply) if O::is_found(reply) => {}
                        said => mop.take(&call, said.is_ok()),
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
    ) -> Result<O::Reply> {
        if matches!(O::count(&Votes::new(self.nodes.len())), TallyVerdict::Never) {
            return Err(not_votable(operation.script().name));
        }
        let mut poll = self.poll_hearing(operation, NodeQuestion::ToSay, |_| true, within, hears);
        while poll.next().await.is_some() {
            if let TallyVerdict::Decided(reply) = O::count(poll.votes()) {
                return Ok(reply);
            }
        }
        let votes = poll.votes();
        let may_have_acted = votes.may_have_acted() || votes.answers().next().is_some();
        Err(self.no_majority(votes, |_| Vote::Answered, may_have_acted))
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

    pub(super) fn until(&self, within: Duration) -> Moment {
        CLOCK.now().plus(within)
    }
}

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

debug_as!(QuorumStore, it => "QuorumStore({})", it.describe());

// Requests to all nodes at once.
//
// The caller gets the outcome as soon as it is decided. Requests that are still on their way continue by themselves. A
// node may carry out a dropped request all the same, and no task would learn of that.

/// A node's reply, and which server it is.
pub(super) type Said<R> = (Result<R, Absent>, Option<u64>);
/// A request that is on its way, with its node.
type NodeRequest<R> = Pin<Box<dyn Future<Output = (usize, Said<R>)> + Send>>;

/// One request to several nodes.
pub(crate) struct FanOut<R: Send + 'static> {
    votes: Votes<R>,
    /// True if the outcome is known.
    over: Arc<AtomicBool>,
    on_their_way: FuturesUnordered<NodeRequest<R>>,
}

impl<R: Send + 'static> FanOut<R> {
    pub(super) fn new(nodes: usize, within: Duration) -> Self {
        FanOut {
            votes: Votes::new(nodes).due(within),
            over: Arc::default(),
            on_their_way: FuturesUnordered::new(),
        }
    }

    /// Cancels requests that have not left yet, because the vote failed.
    pub(crate) fn call_off(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(super) fn send(
        &mut self,
        at: usize,
        request: impl Future<Output = Said<R>> + Send + 'static,
    ) {
        self.on_their_way
            .push(Box::pin(async move { (at, request.await) }));
    }

    pub(crate) fn votes(&self) -> &Votes<R> {
        &self.votes
    }

    /// Waits for the next reply and returns its node; `None` when there is none left.
    ///
    /// # Cancel safety
    /// Safe: the requests continue.
    pub(crate) async fn next(&mut self) -> Option<usize> {
        let (at, (said, server)) = self.on_their_way.next().await?;
        self.votes.record(at, said, server);
        Some(at)
    }
}

impl<R: Send + 'static> Drop for FanOut<R> {
    fn drop(&mut self) {
        let mut left = std::mem::take(&mut self.on_their_way);
        if left.is_empty() {
            return;
        }
        // Here and not on the client's thread: their connections and timers belong to this runtime.
        if let Ok(runtime) = Handle::try_current() {
            // One task for all of them: a second would wake another thread of the runtime to share the work.
            drop(runtime.spawn(async move { while left.next().await.is_some() {} }));
        }
    }
}
