//! The store of a client, of any kind.

use std::sync::Arc;
use std::time::Duration;

use super::port::{Capabilities, Holder, Sink, Timed, Traffic};
#[cfg(feature = "redis")]
use super::redis::LoadedFunctions;
use super::report::Report;
use super::subscriptions::Subscriptions;
use crate::base::clock::Moment;
#[cfg(all(feature = "redis", feature = "embedded"))]
use crate::base::error::ErrorKind;
use crate::base::error::StoreError;
#[cfg(feature = "redis")]
use crate::script::library::Library;
use crate::script::{Answer, Call, Operation};

/// One of the stores. Clones share everything; `unshared` has a connection of its own.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    #[cfg(feature = "redis")]
    Redis(super::redis::RedisStore),
    #[cfg(feature = "embedded")]
    Embedded(super::embedded::EmbeddedStore),
}

/// Evaluates the same expression on any kind of store.
macro_rules! each {
    ($store:expr, $inner:ident => $body:expr) => {
        match $store {
            #[cfg(feature = "redis")]
            Store::Redis($inner) => $body,
            #[cfg(feature = "embedded")]
            Store::Embedded($inner) => $body,
        }
    };
}

/// Evaluates the first expression on servers, and the second on a folder or memory.
macro_rules! either {
    ($store:expr, $redis:pat => $there:expr, $embedded:pat => $here:expr) => {
        match $store {
            #[cfg(feature = "redis")]
            Store::Redis($redis) => $there,
            #[cfg(feature = "embedded")]
            Store::Embedded($embedded) => $here,
        }
    };
}

impl Store {
    /// Runs a script once, or says whether it may have run. Returns within `within`, give or take scheduling.
    pub(crate) async fn run(&self, call: &Call, within: Duration) -> Result<Answer, StoreError> {
        each!(self, store => store.run(call, within).await)
    }

    /// Runs an operation and reads its answer.
    pub(crate) async fn ask<O: Operation>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply, StoreError> {
        let call = operation.call();
        O::read(call.script, &self.run(&call, within).await?)
    }

    /// Runs an operation and returns the server's time too, whatever the outcome.
    pub(crate) async fn ask_when<O: Operation>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<Timed<O::Reply>, StoreError> {
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
        either!(self, store => store.subscriptions(), _ => Subscriptions::new())
    }

    /// Serves the subscriptions, for ever; stops when dropped.
    pub(crate) async fn serve(&self, subscriptions: &Arc<Subscriptions>) {
        each!(self, store => store.serve(subscriptions).await)
    }

    /// Follows the store to wherever it moves, for ever; stops when dropped.
    ///
    /// It has leases verified when something happens to the store.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn follow(&self, holder: &Arc<dyn Holder>) {
        either!(self, store => store.follow(&**holder).await, _ => std::future::pending().await)
    }

    /// True if the store has users, whose rights may be limited.
    pub(crate) fn has_users(&self) -> bool {
        either!(self, _ => true, _ => false)
    }

    /// True if the user may wake the channel's subscribers; `None` when the store does not say.
    ///
    /// It publishes an empty message there.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn may_wake(&self, channel: &str, within: Duration) -> Option<bool> {
        either!(self, store => store.may_wake(channel, within).await, _ => Some(true))
    }

    /// Returns some keys that may be locks and match the glob pattern, and the next cursor.
    ///
    /// From `cursor` on: 0 to begin, and 0 again at the end.
    pub(crate) async fn scan(
        &self,
        cursor: u64,
        pattern: &str,
        within: Duration,
    ) -> Result<(u64, Vec<String>), StoreError> {
        each!(self, store => store.scan(cursor, pattern, within).await)
    }

    /// Reports what an operator should know about the store, and whether it is fit for locks.
    pub(crate) async fn examine(&self, within: Duration) -> Result<Report, StoreError> {
        each!(self, store => store.examine(within).await)
    }

    /// Loads all scripts as functions onto the server, or onto every primary of a cluster.
    #[cfg(feature = "redis")]
    pub(crate) async fn load_functions(
        &self,
        library: &'static Library,
        within: Duration,
    ) -> Result<LoadedFunctions, StoreError> {
        match self {
            Store::Redis(store) => store.load_functions(library, within).await,
            #[cfg(feature = "embedded")]
            Store::Embedded(_) => Err(StoreError::refused(
                ErrorKind::Unsupported,
                "functions are for servers, and this is a folder or memory",
            )),
        }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        each!(self, store => store.capabilities())
    }

    /// Returns a number that changes with each new connection, behind which another server may reply.
    ///
    /// `None` when that cannot be detected.
    pub(crate) fn epoch(&self) -> Option<u64> {
        each!(self, store => store.epoch())
    }

    /// Returns how often the data under a name was written, where each call reads and writes all of it.
    ///
    /// A waiter that listens there is known to be alive without a request.
    #[cfg_attr(
        not(feature = "embedded"),
        expect(unused_variables, reason = "only folders can tell")
    )]
    pub(crate) fn traffic(&self, key: &str) -> Option<Traffic> {
        either!(self, _ => None, store => store.traffic(key))
    }

    /// Returns the same store over a connection of its own.
    pub(crate) fn unshared(&self) -> Store {
        either!(self, store => Store::Redis(store.unshared()), store => Store::Embedded(store.clone()))
    }

    /// Limits how long a job that outlives this process can hold; only a store with sessions lets it hold at all.
    #[cfg_attr(not(feature = "embedded"), expect(unused_variables))]
    pub(crate) fn limit_session(&self, until: Moment) {
        either!(self, _ => {}, store => store.limit_session(until));
    }

    /// See [`Client::session_descriptor`](crate::Client::session_descriptor).
    pub(crate) fn session_descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        either!(self, _ => None, store => store.session_descriptor())
    }

    /// Describes the store, without secrets.
    pub(crate) fn describe(&self) -> String {
        each!(self, store => store.describe())
    }
}
