//! The executor of operations: a server or a cluster, a folder or memory, or a majority of several servers.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "redis")]
use tokio::runtime::Handle;

#[cfg(feature = "redis")]
use super::group::{QuorumStore, not_votable};
use super::votable::Votable;
use crate::base::clock::Moment;
use crate::base::error::{ErrorKind, InvalidInput, StoreError};
use crate::script::damage::Types;
#[cfg(feature = "redis")]
use crate::script::library::Library;
use crate::script::{Answer, Call, Operation};
#[cfg(feature = "embedded")]
use crate::store::embedded::EmbeddedStore;
#[cfg(feature = "redis")]
use crate::store::redis::{LoadedFunctions, RedisStore};
use crate::store::report::Report;
use crate::store::subscriptions::Subscriptions;
use crate::store::{Capabilities, LeaseHolder, Sink, Timed, Traffic};

/// One store or several. Clones share everything; `unshared` has connections of its own.
///
/// An operation that only one store supports is refused by a majority, or answered as by a store without it.
#[derive(Debug, Clone)]
pub(crate) enum Executor {
    /// One server, or a cluster.
    #[cfg(feature = "redis")]
    Redis(RedisStore),
    /// A folder, or memory.
    #[cfg(feature = "embedded")]
    Embedded(EmbeddedStore),
    #[cfg(feature = "redis")]
    Majority(QuorumStore),
}

/// Evaluates the expression of the variant.
macro_rules! by_variant {
    ($executor:expr, $server:pat => $redis:expr, $folder:pat => $embedded:expr, $quorum:pat => $majority:expr) => {
        match $executor {
            #[cfg(feature = "redis")]
            Executor::Redis($server) => $redis,
            #[cfg(feature = "embedded")]
            Executor::Embedded($folder) => $embedded,
            #[cfg(feature = "redis")]
            Executor::Majority($quorum) => $majority,
        }
    };
}

/// Evaluates the same expression on any variant.
macro_rules! each {
    ($executor:expr, $store:ident => $body:expr) => {
        by_variant!($executor, $store => $body, $store => $body, $store => $body)
    };
}

mod server;

impl Executor {
    /// Returns the several servers.
    #[cfg(feature = "redis")]
    pub(crate) fn majority(&self) -> Option<&QuorumStore> {
        by_variant!(self, _ => None, _ => None, quorum => Some(quorum))
    }

    /// True if several servers vote, which agree on nothing but a lease.
    pub(crate) fn is_majority(&self) -> bool {
        by_variant!(self, _ => false, _ => false, _ => true)
    }

    /// Runs a script once on the one store, or says whether it may have run.
    async fn run(&self, call: &Call, within: Duration) -> Result<Answer, StoreError> {
        match self.run_unexplained(call, within).await {
            Err(refused) if refused.kind() == ErrorKind::WrongType => {
                Err(Box::pin(self.name_damage(call, refused, within)).await)
            }
            outcome => outcome,
        }
    }

    /// Names the key of another type and the remedy, if it lies beside a lock and the store still replies.
    async fn name_damage(&self, call: &Call, refused: StoreError, within: Duration) -> StoreError {
        let types = Types::in_call(call);
        let found = self.run_unexplained(&types.call(), within).await;
        let found = found.and_then(|answer| Types::read(types.script(), &answer));
        match types.damage(&found.unwrap_or_default()).first() {
            Some(damage) => {
                StoreError::refused(refused.kind(), format!("nothing was changed: {damage}"))
            }
            None => refused,
        }
    }

    async fn run_unexplained(&self, call: &Call, within: Duration) -> Result<Answer, StoreError> {
        by_variant!(
            self,
            server => server.run(call, within).await,
            folder => folder.run(call, within).await,
            _ => Err(not_votable(call.script.name))
        )
    }

    /// Runs an operation and reads its answer. Returns within `within`, give or take scheduling.
    pub(crate) async fn ask<O: Votable>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply, StoreError> {
        #[cfg(feature = "redis")]
        if let Executor::Majority(quorum) = self {
            return Box::pin(quorum.ask(operation, within, None)).await; // the future is large
        }
        self.ask_one(operation, within).await
    }

    /// Runs an operation without a vote.
    pub(crate) async fn ask_one<O: Operation>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply, StoreError> {
        let call = operation.call();
        O::read(call.script, &self.run(&call, within).await?)
    }

    /// Runs [`ask`](Executor::ask) and returns the server's time too, whatever the outcome.
    ///
    /// Several servers have no time in common.
    pub(crate) async fn ask_when<O: Votable>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<Timed<O::Reply>, StoreError> {
        self.ask_hearing(operation, within, |_, _| {}).await
    }

    /// Runs it, and a majority passes each node's reply to `hears`, even after the outcome.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn ask_hearing<O: Votable>(
        &self,
        operation: &O,
        within: Duration,
        hears: impl Fn(usize, &O::Reply) + Send + Sync + 'static,
    ) -> Result<Timed<O::Reply>, StoreError> {
        #[cfg(feature = "redis")]
        if let Executor::Majority(quorum) = self {
            let reply = Box::pin(quorum.ask(operation, within, Some(Arc::new(hears)))).await?;
            return Ok(Timed {
                reply: Ok(reply),
                time_us: None,
            });
        }
        let call = operation.call();
        let answer = self.run(&call, within).await?;
        Ok(Timed {
            reply: O::read(call.script, &answer),
            time_us: O::time_us(&answer),
        })
    }

    /// Subscribes to a channel for ever, across reconnects; stops when dropped.
    pub(crate) async fn listen(&self, channel: &str, sink: Sink) {
        each!(self, store => store.listen(channel, sink).await)
    }

    /// Returns the subscriptions to changing channels, which work while a task serves them.
    pub(crate) fn subscriptions(&self) -> Arc<Subscriptions> {
        by_variant!(
            self,
            server => server.subscriptions(),
            _ => Subscriptions::new(),
            _ => Subscriptions::unavailable()
        )
    }

    /// Serves the subscriptions, for ever, across reconnects; stops when dropped.
    pub(crate) async fn serve(&self, subscriptions: &Arc<Subscriptions>) {
        by_variant!(
            self,
            server => server.serve(subscriptions).await,
            folder => folder.serve(subscriptions).await,
            _ => std::future::pending().await
        )
    }

    /// Follows the store to wherever it moves, and keeps a folder clean, for ever; stops when dropped.
    ///
    /// It has leases verified when something happens to the store.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn follow(&self, holder: &Arc<dyn LeaseHolder>) {
        by_variant!(
            self,
            server => server.follow(&**holder).await,
            folder => folder.follow().await,
            quorum => quorum.follow(holder).await
        )
    }

    /// True if the store has users, whose rights may be limited.
    pub(crate) fn has_users(&self) -> bool {
        by_variant!(self, _ => true, _ => false, _ => true)
    }

    /// True if the user may wake the channel's subscribers; `None` when the store does not say.
    ///
    /// It publishes an empty message there.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn may_wake(&self, channel: &str, within: Duration) -> Option<bool> {
        by_variant!(
            self,
            server => server.may_wake(channel, within).await,
            _ => Some(true),
            quorum => quorum.may_wake(channel, within).await
        )
    }

    /// Returns some keys that may be locks and match the glob pattern, and the next cursor.
    ///
    /// From `cursor` on: 0 to begin, and 0 again at the end. Each node of several has other keys.
    pub(crate) async fn scan(
        &self,
        cursor: u64,
        pattern: &str,
        within: Duration,
    ) -> Result<(u64, Vec<String>), StoreError> {
        by_variant!(
            self,
            server => server.scan(cursor, pattern, within).await,
            folder => folder.scan(cursor, pattern, within).await,
            _ => Err(not_votable("a list of locks"))
        )
    }

    /// Reports what an operator should know about the store, and whether it is fit for locks.
    pub(crate) async fn examine(&self, within: Duration) -> Result<Report, StoreError> {
        each!(self, store => store.examine(within).await)
    }

    /// True if waiters have a position there: no majority could agree on one.
    pub(crate) fn has_queue(&self) -> bool {
        !self.is_majority()
    }

    /// Refuses what several servers do not support: a priority, and a ttl that is longer than all agreed on.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn check_limits(&self, priority: i32, ttl: Duration) -> Result<(), InvalidInput> {
        by_variant!(self, _ => Ok(()), _ => Ok(()), quorum => quorum.check_limits(priority, ttl))
    }

    /// Runs the cleanup of the nodes on this runtime.
    #[cfg(feature = "redis")]
    pub(crate) fn clean_up_on(&self, handle: &Handle) {
        if let Some(quorum) = self.majority() {
            quorum.clean_up_on(handle);
        }
    }

    /// Waits for the cleanup of the nodes, at most for `within`.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables, clippy::unused_async))]
    pub(crate) async fn is_clean(&self, within: Duration) {
        by_variant!(self, _ => {}, _ => {}, quorum => quorum.is_clean(within).await);
    }

    /// Loads all scripts as functions onto the server, every primary of a cluster, or every node of a quorum.
    #[cfg(feature = "redis")]
    pub(crate) async fn load_functions(
        &self,
        library: &'static Library,
        within: Duration,
    ) -> Result<LoadedFunctions, StoreError> {
        by_variant!(
            self,
            server => server.load_functions(library, within).await,
            _ => Err(StoreError::refused(
                ErrorKind::Unsupported,
                "functions are for servers, and this is a folder or memory",
            )),
            quorum => quorum.load_functions(library, within).await
        )
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        each!(self, store => store.capabilities())
    }

    /// Returns a number that changes with each new connection, behind which another server may reply.
    ///
    /// `None` when that cannot be detected. Several servers have several connections, and their times are never compared.
    pub(crate) fn epoch(&self) -> Option<u64> {
        by_variant!(self, server => server.epoch(), folder => folder.epoch(), _ => None)
    }

    /// Returns how often the data under a name was written, where each call reads and writes all of it.
    ///
    /// A waiter that listens there is known to be alive without a request.
    #[cfg_attr(
        not(feature = "embedded"),
        expect(unused_variables, reason = "only folders can tell")
    )]
    pub(crate) fn traffic(&self, key: &str) -> Option<Traffic> {
        by_variant!(self, _ => None, folder => folder.traffic(key), _ => None)
    }

    /// Returns the same over connections of its own.
    pub(crate) fn unshared(&self) -> Executor {
        by_variant!(
            self,
            server => Executor::Redis(server.unshared()),
            folder => Executor::Embedded(folder.clone()),
            quorum => Executor::Majority(quorum.unshared())
        )
    }

    /// Limits how long a job that outlives this process can hold; only a store with sessions lets it hold at all.
    #[cfg_attr(not(feature = "embedded"), expect(unused_variables))]
    pub(crate) fn limit_session(&self, until: Moment) {
        by_variant!(self, _ => {}, folder => folder.limit_session(until), _ => {});
    }

    /// See [`Client::session_descriptor`](crate::Client::session_descriptor).
    pub(crate) fn session_descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        by_variant!(self, _ => None, folder => folder.session_descriptor(), _ => None)
    }

    /// Describes the store or the servers, without secrets.
    pub(crate) fn describe(&self) -> String {
        each!(self, store => store.describe())
    }
}
