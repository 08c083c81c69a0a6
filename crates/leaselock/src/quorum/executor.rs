//! The executor of operations: a server or a cluster, a folder or memory, or a majority of several servers.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::group::QuorumStore;
use super::requests::RequestCounts;
use super::tally::Votable;
use crate::base::{ErrorKind, InvalidInput, Moment, Result, StoreError};
use crate::script::damage::Types;
use crate::script::{Answer, Call, Library, Listed, Operation, Value};
use crate::store::interface::no_commands;
use crate::store::{
    Capabilities, DedicatedConnection, EmbeddedStore, LeaseHolder, LoadedFunctions, Reachability,
    RedisStore, Report, SharedSink, Sink, Store, Subscriptions, Timed, Traffic,
};

/// One store or several. Clones share everything; `unshared` has connections of its own.
#[derive(Debug, Clone)]
pub(crate) enum Executor {
    /// One server, or a cluster.
    Redis(RedisStore, Arc<RequestCounts>),
    /// A folder, or memory.
    Embedded(EmbeddedStore, Arc<RequestCounts>),
    Majority(QuorumStore),
}

/// Evaluates the same expression on any variant.
macro_rules! each {
    ($executor:expr, $store:ident => $body:expr) => {
        match $executor {
            Executor::Redis($store, _) => $body,
            Executor::Embedded($store, _) => $body,
            Executor::Majority($store) => $body,
        }
    };
}

/// Declares methods of [`Store`], which are documented there, as those of the variant.
macro_rules! as_the_store {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) $(-> $reply:ty)?;)+) => {
        $(pub(crate) fn $name(&self, $($arg: $kind),*) $(-> $reply)? {
            each!(self, store => store.$name($($arg),*))
        })+
    };
    ($(async fn $name:ident($($arg:ident: $kind:ty),*) $(-> $reply:ty)?;)+) => {
        $(pub(crate) async fn $name(&self, $($arg: $kind),*) $(-> $reply)? {
            each!(self, store => store.$name($($arg),*).await)
        })+
    };
}

impl Executor {
    as_the_store! {
        fn capabilities() -> Capabilities;
        fn describe() -> String;
        fn tried() -> Reachability;
        fn epoch() -> Option<u64>;
        fn is_cluster() -> bool;
        fn subscriptions() -> Arc<Subscriptions>;
        fn subscriptions_at(key: &str) -> Option<(Arc<Subscriptions>, bool)>;
        fn deliver_from_nodes(sink: SharedSink);
        fn deliver_along(channel: &str, sink: Sink);
        fn news_of(key: &str) -> Option<String>;
        fn hears() -> bool;
        fn would_hear() -> bool;
        fn traffic(key: &str) -> Option<Traffic>;
        fn limit_session(until: Moment);
        fn session_descriptor() -> Option<OwnedFd>;
        fn only_job_lives(client: &str) -> bool;
        fn check_limits(priority: i32, ttl: Duration) -> Result<(), InvalidInput>;
        fn clean_up_on(handle: &Handle);
    }

    as_the_store! {
        async fn listen(channel: &str, sink: Sink);
        async fn listens(within: Duration) -> bool;
        async fn serve(subscriptions: &Arc<Subscriptions>);
        async fn follow(holder: &Arc<dyn LeaseHolder>);
        async fn may_wake(channel: &str, within: Duration) -> Option<bool>;
        async fn scan(cursor: u64, pattern: &str, about: Option<fn(&str) -> Call>, within: Duration) -> Result<(u64, Vec<Listed>)>;
        async fn plain(words: &[&str], within: Duration) -> Result<Value>;
        async fn together(commands: &[&[&str]], within: Duration) -> Result<Vec<Value>>;
        async fn load_functions(library: &'static Library, within: Duration) -> Result<Vec<LoadedFunctions>>;
        async fn examine(within: Duration) -> Result<Report>;
        async fn examine_sentinels(report: &mut Report, ttl: Duration);
        async fn is_clean(within: Duration);
    }

    pub(crate) fn redis(store: RedisStore) -> Executor {
        Executor::Redis(store, Arc::default())
    }

    pub(crate) fn embedded(store: EmbeddedStore) -> Executor {
        Executor::Embedded(store, Arc::default())
    }

    /// Returns the same over connections of its own.
    pub(crate) fn unshared(&self) -> Executor {
        match self {
            Executor::Redis(server, count) => Executor::Redis(server.unshared(), count.clone()),
            Executor::Embedded(files, count) => Executor::Embedded(files.unshared(), count.clone()),
            Executor::Majority(quorum) => Executor::Majority(quorum.unshared()),
        }
    }

    /// Opens a dedicated connection, driven by the runtime of this handle.
    pub(crate) async fn private(
        &self,
        handle: &Handle,
        within: Duration,
    ) -> Result<DedicatedConnection> {
        match self {
            Executor::Redis(server, _) => server.private(handle, within).await,
            _ => Err(no_commands()),
        }
    }

    /// Returns the counts of the requests; each node of several servers has some of them.
    pub(crate) fn requests(&self) -> &RequestCounts {
        match self {
            Executor::Redis(_, requests) | Executor::Embedded(_, requests) => requests,
            Executor::Majority(quorum) => &quorum.common.requests,
        }
    }

    pub(crate) fn majority(&self) -> Option<&QuorumStore> {
        match self {
            Executor::Majority(quorum) => Some(quorum),
            _ => None,
        }
    }

    /// True if several servers vote, which agree on nothing but a lease.
    pub(crate) fn is_majority(&self) -> bool {
        self.majority().is_some()
    }

    /// Refuses strict mode for a store that cannot forget.
    ///
    /// A folder's leases end with their machine, and a majority does not forget.
    pub(crate) fn can_be_strict(&self) -> Result<()> {
        if self.capabilities().has_commands {
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

    /// Runs a script once on the one store, or says whether it may have run.
    async fn run(&self, call: &Call, within: Duration) -> Result<Answer> {
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

    async fn run_unexplained(&self, call: &Call, within: Duration) -> Result<Answer> {
        each!(self, store => {
            let counted = self.requests().begin(call, store);
            let answer = store.run(call, within).await;
            counted.end(&answer);
            answer
        })
    }

    /// Runs an operation and reads its answer. Returns within `within`, give or take scheduling.
    pub(crate) async fn ask<O: Votable>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply> {
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
    ) -> Result<O::Reply> {
        let call = operation.call();
        O::read(call.script, &self.run(&call, within).await?)
    }

    /// Runs [`ask`](Executor::ask) and returns the server's time too, whatever the outcome.
    ///
    /// Several servers have no time in common. A majority passes each node's reply to `hears`, even after the outcome.
    pub(crate) async fn ask_hearing<O: Votable>(
        &self,
        operation: &O,
        within: Duration,
        hears: impl Fn(usize, &O::Reply) + Send + Sync + 'static,
    ) -> Result<Timed<O::Reply>> {
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
}
