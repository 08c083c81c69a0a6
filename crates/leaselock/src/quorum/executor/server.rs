//! What only one server, or a cluster, supports. Elsewhere it is refused, or answered as by a store without it.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "redis")]
use tokio::runtime::Handle;

use super::Executor;
use crate::base::error::{ErrorKind, StoreError};
use crate::script::Value;
#[cfg(feature = "redis")]
use crate::store::redis::DedicatedConnection;
use crate::store::report::Report;
use crate::store::subscriptions::Subscriptions;
use crate::store::{SharedSink, Sink};

/// Evaluates what only one server supports, or its substitute elsewhere.
macro_rules! on_server {
    ($executor:expr, $server:ident => $body:expr, else $elsewhere:expr) => {
        by_variant!($executor, $server => $body, _ => $elsewhere, _ => $elsewhere)
    };
}

impl Executor {
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
        self.is_majority() || self.is_cluster()
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
        on_server!(self, server => server.examine_sentinels(report, ttl).await, else {});
    }
}

fn no_commands() -> StoreError {
    StoreError::refused(
        ErrorKind::Unsupported,
        "only one server takes commands; this store runs scripts",
    )
}
