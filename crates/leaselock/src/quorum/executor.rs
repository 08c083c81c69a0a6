//! The executor of operations: one store, or a majority of several servers.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "redis")]
use tokio::runtime::Handle;

#[cfg(feature = "redis")]
use super::group::QuorumStore;
use super::votable::Votable;
use crate::base::clock::Moment;
use crate::base::error::{ErrorKind, InvalidInput, StoreError};
#[cfg(feature = "redis")]
use crate::script::library::Library;
use crate::script::{Operation, Value};
#[cfg(feature = "redis")]
use crate::store::redis::{DedicatedConnection, LoadedFunctions};
use crate::store::report::Report;
use crate::store::subscriptions::Subscriptions;
use crate::store::{Capabilities, Holder, SharedSink, Sink, Store, Timed, Traffic};

/// One store or several. Clones share everything; `unshared` has connections of its own.
///
/// An operation that only one store supports is refused by a majority, or answered as by a store without it.
#[derive(Debug, Clone)]
pub(crate) enum Executor {
    One(Store),
    #[cfg(feature = "redis")]
    Majority(QuorumStore),
}

/// Evaluates the same expression on either variant.
macro_rules! each {
    ($executor:expr, $inner:ident => $body:expr) => {
        match $executor {
            Executor::One($inner) => $body,
            #[cfg(feature = "redis")]
            Executor::Majority($inner) => $body,
        }
    };
}

/// Evaluates what only one server supports, or its substitute elsewhere.
macro_rules! on_server {
    ($executor:expr, $server:ident => $body:expr, else $elsewhere:expr) => {
        match $executor {
            #[cfg(feature = "redis")]
            Executor::One(Store::Redis($server)) => $body,
            _ => $elsewhere,
        }
    };
}

impl Executor {
    /// Returns the one store.
    pub(crate) fn one(&self) -> Option<&Store> {
        match self {
            Executor::One(store) => Some(store),
            #[cfg(feature = "redis")]
            Executor::Majority(_) => None,
        }
    }

    /// Returns the several servers.
    #[cfg(feature = "redis")]
    pub(crate) fn majority(&self) -> Option<&QuorumStore> {
        match self {
            Executor::One(_) => None,
            Executor::Majority(quorum) => Some(quorum),
        }
    }

    /// Returns the one store; several servers agree on nothing but a lease.
    fn one_for(&self, what: impl FnOnce() -> &'static str) -> Result<&Store, StoreError> {
        let refused = || {
            let what = what();
            let message = format!("{what} cannot be voted on by several servers");
            StoreError::refused(ErrorKind::Unsupported, message)
        };
        self.one().ok_or_else(refused)
    }

    /// Runs an operation and reads its answer. Returns within `within`, give or take scheduling.
    pub(crate) async fn ask<O: Votable>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply, StoreError> {
        match self {
            Executor::One(store) => store.ask(operation, within).await,
            #[cfg(feature = "redis")]
            Executor::Majority(quorum) => Box::pin(quorum.ask(operation, within, None)).await, // the future is large
        }
    }

    /// Runs an operation without a vote.
    pub(crate) async fn ask_one<O: Operation>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply, StoreError> {
        let store = self.one_for(|| operation.script().name)?;
        store.ask(operation, within).await
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
        match self {
            Executor::One(store) => store.ask_when(operation, within).await,
            #[cfg(feature = "redis")]
            Executor::Majority(quorum) => {
                let reply = Box::pin(quorum.ask(operation, within, Some(Arc::new(hears)))).await?;
                Ok(Timed {
                    reply: Ok(reply),
                    time_us: None,
                })
            }
        }
    }

    /// See [`Store::listen`].
    pub(crate) async fn listen(&self, channel: &str, sink: Sink) {
        each!(self, store => store.listen(channel, sink).await)
    }

    /// Returns the subscriptions to changing channels, which work while a task serves them.
    pub(crate) fn subscriptions(&self) -> Arc<Subscriptions> {
        match self {
            Executor::One(store) => store.subscriptions(),
            #[cfg(feature = "redis")]
            Executor::Majority(_) => Subscriptions::unavailable(),
        }
    }

    /// Returns the subscriptions at this key's node, and whether its channels are sharded.
    ///
    /// For stores where each lock has its own node. The key may move later.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn subscriptions_at(&self, key: &str) -> Option<(Arc<Subscriptions>, bool)> {
        on_server!(self, server => server.subscriptions_at(key), else None)
    }

    /// Enables wake-ups there from now on.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn deliver_from_nodes(&self, sink: SharedSink) {
        on_server!(self, server => server.deliver_from_nodes(sink), else {});
    }

    /// Serves the subscriptions, for ever, across reconnects; stops when dropped.
    pub(crate) async fn serve(&self, subscriptions: &Arc<Subscriptions>) {
        match self {
            Executor::One(store) => store.serve(subscriptions).await,
            #[cfg(feature = "redis")]
            Executor::Majority(_) => std::future::pending().await,
        }
    }

    /// See [`Store::follow`].
    pub(crate) async fn follow(&self, holder: &Arc<dyn Holder>) {
        each!(self, store => store.follow(holder).await)
    }

    /// Returns the channel on which the store may report what any client does to a key.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn news_of(&self, key: &str) -> Option<String> {
        on_server!(self, server => server.news_of(key), else None)
    }

    /// Enables wake-ups over the connection of the requests too.
    ///
    /// The sink runs in the runtime that made that connection, is told of a gap when the connection ends, and must not
    /// block.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn deliver_along(&self, channel: &str, sink: Sink) {
        on_server!(self, server => server.deliver_along(channel, sink), else {});
    }

    /// True if messages now arrive over the connection of the requests, in the caller's runtime.
    pub(crate) fn hears(&self) -> bool {
        on_server!(self, server => server.receives(), else false)
    }

    /// True if that holds for the connection of the next request: it may not exist yet, and may turn out otherwise.
    pub(crate) fn would_hear(&self) -> bool {
        on_server!(self, server => server.would_receive(), else false)
    }

    /// Returns the same, after an attempt to bring that about.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn listens(&self, within: Duration) -> bool {
        on_server!(self, server => server.start_receiving(within).await, else false)
    }

    /// True if a request can wait for replicas.
    pub(crate) fn has_replicas(&self) -> bool {
        on_server!(self, server => server.has_replicas(), else false)
    }

    /// True if plain commands of other protocols can be sent: only a server has other programs that lock in those.
    pub(crate) fn has_commands(&self) -> bool {
        on_server!(self, _server => true, else false)
    }

    /// Refuses strict mode for a store that cannot forget.
    ///
    /// A folder's leases end with their machine, and a majority does not forget.
    pub(crate) fn can_be_strict(&self) -> Result<(), StoreError> {
        if self.has_commands() {
            return Ok(());
        }
        Err(StoreError::refused(
            ErrorKind::Unsupported,
            format!(
                "strict mode is for servers, and {} needs none: its leases end with the machine that they are on",
                self.describe()
            ),
        ))
    }

    /// True if each key may be on a server of its own.
    pub(crate) fn is_cluster(&self) -> bool {
        on_server!(self, server => server.is_cluster(), else false)
    }

    /// True if replies come from several servers, each with a clock of its own.
    pub(crate) fn has_clocks(&self) -> bool {
        self.one().is_none() || self.is_cluster()
    }

    /// Runs one command that is not a script.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn plain(
        &self,
        words: &[&str],
        within: Duration,
    ) -> Result<Value, StoreError> {
        on_server!(self, server => server.plain(words, within).await, else Err(no_commands()))
    }

    /// Runs several commands as one transaction, and returns the reply of each.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn together(
        &self,
        commands: &[&[&str]],
        within: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        on_server!(self, server => server.together(commands, within).await, else Err(no_commands()))
    }

    /// Opens a dedicated connection, driven by the runtime of this handle.
    #[cfg(feature = "redis")]
    pub(crate) async fn private(
        &self,
        handle: &Handle,
        within: Duration,
    ) -> Result<DedicatedConnection, StoreError> {
        on_server!(self, server => server.private(handle, within).await, else Err(no_commands()))
    }

    /// Adds to the report what Sentinels say, if this server has any; leases of this ttl must outlive a failover.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables, clippy::unused_async))]
    pub(crate) async fn examine_sentinels(&self, report: &mut Report, ttl: Duration) {
        #[cfg(feature = "redis")]
        on_server!(self, server => server.examine_sentinels(report, ttl).await, else {});
    }

    /// See [`Store::has_users`].
    pub(crate) fn has_users(&self) -> bool {
        self.one().is_none_or(Store::has_users)
    }

    /// See [`Store::may_wake`].
    pub(crate) async fn may_wake(&self, channel: &str, within: Duration) -> Option<bool> {
        each!(self, store => store.may_wake(channel, within).await)
    }

    /// Scans the keys; see [`Store::scan`]. Each node of several has other keys.
    pub(crate) async fn scan(
        &self,
        cursor: u64,
        pattern: &str,
        within: Duration,
    ) -> Result<(u64, Vec<String>), StoreError> {
        let store = self.one_for(|| "a list of locks")?;
        store.scan(cursor, pattern, within).await
    }

    /// See [`Store::examine`].
    pub(crate) async fn examine(&self, within: Duration) -> Result<Report, StoreError> {
        each!(self, store => store.examine(within).await)
    }

    /// True if waiters have a position there: no majority could agree on one.
    pub(crate) fn has_queue(&self) -> bool {
        self.one().is_some()
    }

    /// Refuses what several servers do not support: a priority, and a ttl that is longer than all agreed on.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn check_limits(&self, priority: i32, ttl: Duration) -> Result<(), InvalidInput> {
        #[cfg(feature = "redis")]
        if let Some(quorum) = self.majority() {
            return quorum.check_limits(priority, ttl);
        }
        Ok(())
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
        #[cfg(feature = "redis")]
        if let Some(quorum) = self.majority() {
            quorum.is_clean(within).await;
        }
    }

    /// Loads all scripts as functions onto each server.
    #[cfg(feature = "redis")]
    pub(crate) async fn load_functions(
        &self,
        library: &'static Library,
        within: Duration,
    ) -> Result<LoadedFunctions, StoreError> {
        each!(self, store => store.load_functions(library, within).await)
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        each!(self, store => store.capabilities())
    }

    /// See [`Store::epoch`]. Several servers have several connections, and their times are never compared.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.one()?.epoch()
    }

    /// See [`Store::traffic`].
    pub(crate) fn traffic(&self, key: &str) -> Option<Traffic> {
        self.one()?.traffic(key)
    }

    /// Returns the same over connections of its own.
    pub(crate) fn unshared(&self) -> Executor {
        match self {
            Executor::One(store) => Executor::One(store.unshared()),
            #[cfg(feature = "redis")]
            Executor::Majority(quorum) => Executor::Majority(quorum.unshared()),
        }
    }

    /// See [`Store::limit_session`].
    pub(crate) fn limit_session(&self, until: Moment) {
        if let Some(store) = self.one() {
            store.limit_session(until);
        }
    }

    /// See [`Store::session_descriptor`].
    pub(crate) fn session_descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        self.one()?.session_descriptor()
    }

    /// Describes the store or the servers, without secrets.
    pub(crate) fn describe(&self) -> String {
        each!(self, store => store.describe())
    }
}

fn no_commands() -> StoreError {
    StoreError::refused(
        ErrorKind::Unsupported,
        "only one server takes commands; this store runs scripts",
    )
}
