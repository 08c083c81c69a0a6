//! What a store offers to the layers above.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::functions::LoadedFunctions;
use super::port::{Capabilities, LeaseHolder, Reachability, SharedSink, Sink, Traffic};
use super::report::Report;
use super::subscriptions::Subscriptions;
use crate::base::{InvalidInput, Moment, Result, StoreError, refusal};
use crate::script::{Answer, Call, Library, Listed, Value};

/// A server or a cluster, a folder or memory, or several servers as one.
///
/// Each runs scripts and delivers messages. A method with a body says what a store without that ability answers.
pub(crate) trait Store: Sized {
    /// Runs a script once, or says whether it may have run.
    async fn run(&self, call: &Call, within: Duration) -> Result<Answer>;

    /// Subscribes to a channel for ever, across reconnects; stops when dropped.
    async fn listen(&self, channel: &str, sink: Sink);

    /// Reports what an operator should know about the store, and whether it is fit for locks.
    async fn examine(&self, within: Duration) -> Result<Report>;

    fn capabilities(&self) -> Capabilities;

    /// Returns the same over connections of its own.
    fn unshared(&self) -> Self;

    /// Describes the store or the servers, without secrets.
    fn describe(&self) -> String;

    /// Returns the servers that there are, as far as any task has tried to connect.
    fn tried(&self) -> Reachability {
        Reachability::new()
    }

    /// Returns a number that changes with each new connection, behind which another server may reply.
    ///
    /// `None` when that cannot be detected. Several servers have several connections, and their times are never compared.
    fn epoch(&self) -> Option<u64> {
        None
    }

    /// Returns some keys that match the glob pattern, and the next cursor.
    ///
    /// From `cursor` on: 0 to begin, and 0 again at the end. Each node of several has other keys. With `about`, the call
    /// about a lock, those alone that may be locks; a store that reads them for that answers the call too.
    async fn scan(
        &self,
        _cursor: u64,
        _pattern: &str,
        _about: Option<fn(&str) -> Call>,
        _within: Duration,
    ) -> Result<(u64, Vec<Listed>)> {
        Err(not_votable("a list of locks"))
    }

    /// Returns the subscriptions to changing channels, which work while a task serves them.
    fn subscriptions(&self) -> Arc<Subscriptions> {
        Subscriptions::unavailable()
    }

    /// Serves the subscriptions, for ever, across reconnects; stops when dropped.
    async fn serve(&self, _subscriptions: &Arc<Subscriptions>) {
        std::future::pending().await
    }

    /// Follows the store to wherever it moves, and keeps a folder clean, for ever; stops when dropped.
    ///
    /// It has leases verified when something happens to the store.
    async fn follow(&self, holder: &Arc<dyn LeaseHolder>);

    /// True if the user may wake the channel's subscribers; `None` when the store does not say.
    ///
    /// It publishes an empty message there.
    async fn may_wake(&self, _channel: &str, _within: Duration) -> Option<bool> {
        Some(true)
    }

    /// Loads all scripts as functions onto the server, every primary of a cluster, or every node of a quorum.
    async fn load_functions(
        &self,
        _library: &'static Library,
        _within: Duration,
    ) -> Result<Vec<LoadedFunctions>> {
        Err(refusal!(Unsupported: "functions are for servers, and this is a folder or memory"))
    }

    // Of one server, or a cluster.

    /// Returns the subscriptions at this key's node, and whether its channels are sharded.
    ///
    /// For stores where each lock has its own node. The key may move later.
    fn subscriptions_at(&self, _key: &str) -> Option<(Arc<Subscriptions>, bool)> {
        None
    }

    /// Enables wake-ups there from now on.
    fn deliver_from_nodes(&self, _sink: SharedSink) {}

    /// Returns the channel on which the store may report what any client does to a key.
    fn news_of(&self, _key: &str) -> Option<String> {
        None
    }

    /// Enables wake-ups over the connection of the requests too.
    ///
    /// The sink runs in the runtime that made that connection, is told of a gap when the connection ends, and must not
    /// block.
    fn deliver_along(&self, _channel: &str, _sink: Sink) {}

    /// True if messages now arrive over the connection of the requests, in the caller's runtime.
    fn hears(&self) -> bool {
        false
    }

    /// True if that holds for the connection of the next request: it may not exist yet, and may turn out otherwise.
    fn would_hear(&self) -> bool {
        false
    }

    /// Returns the same, after an attempt to bring that about.
    async fn listens(&self, _within: Duration) -> bool {
        false
    }

    /// True if each key may be on a server of its own.
    fn is_cluster(&self) -> bool {
        false
    }

    /// Runs one command that is not a script.
    async fn plain(&self, _words: &[&str], _within: Duration) -> Result<Value> {
        Err(no_commands())
    }

    /// Runs several commands as one transaction, and returns the reply of each.
    async fn together(&self, _commands: &[&[&str]], _within: Duration) -> Result<Vec<Value>> {
        Err(no_commands())
    }

    /// Adds to the report what Sentinels say, if this server has any; leases of this ttl must outlive a failover.
    async fn examine_sentinels(&self, _report: &mut Report, _ttl: Duration) {}

    // Of a folder.

    /// Returns how often the data under a name was written, where each call reads and writes all of it.
    ///
    /// A waiter that listens there is known to be alive without a request.
    fn traffic(&self, _key: &str) -> Option<Traffic> {
        None
    }

    /// Limits how long a job that outlives this process can hold; only a store with sessions lets it hold at all.
    fn limit_session(&self, _until: Moment) {}

    /// See [`Client::session_descriptor`](crate::Client::session_descriptor).
    fn session_descriptor(&self) -> Option<OwnedFd> {
        None
    }

    /// True if the process of this client is dead, and its job keeps its leases whatever their ttl.
    fn only_job_lives(&self, _client: &str) -> bool {
        false
    }

    // Of several servers.

    /// Refuses what several servers do not support: a priority, and a ttl that is longer than all agreed on.
    fn check_limits(&self, _priority: i32, _ttl: Duration) -> Result<(), InvalidInput> {
        Ok(())
    }

    /// Runs the cleanup of the nodes on this runtime.
    fn clean_up_on(&self, _handle: &Handle) {}

    /// Waits for the cleanup of the nodes, at most for `within`.
    async fn is_clean(&self, _within: Duration) {}
}

/// Refuses what the nodes of a quorum could not agree on.
pub(crate) fn not_votable(what: &str) -> StoreError {
    refusal!(Unsupported: "{what} cannot be voted on by several servers")
}

/// Refuses what is not a script.
pub(crate) fn no_commands() -> StoreError {
    refusal!(Unsupported: "only one server takes commands; this store runs scripts")
}
