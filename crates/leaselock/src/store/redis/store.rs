//! A store on servers, for the layers above: it runs scripts there, and delivers messages.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::link::Link;
use super::{answer, calls, channels, error_map, health};
use crate::base::clock::Clock;
use crate::base::error::{ErrorKind, StoreError};
use crate::script::{Answer, Call, Malformed};
use crate::store::subscriptions::Subscriptions;
use crate::store::{Capabilities, Holder, SharedSink, Sink};

const CLOCK: Clock = Clock::boot();

/// One server, over a connection of ours or of the program's, or a cluster. Clones share the connection.
#[derive(Clone)]
pub(crate) struct RedisStore(pub(super) Link);

impl RedisStore {
    pub(crate) async fn run(&self, call: &Call, within: Duration) -> Result<Answer, StoreError> {
        let until = CLOCK.now().plus(within);
        let answer = match &self.0 {
            Link::Cluster(cluster) => Box::pin(cluster.run(call, until, within)).await?,
            link => {
                let library = link.functions();
                let short = calls::short(library, call);
                let answer = link.ask_within(&short, until, within).await?;
                if calls::is_noscript(&answer) {
                    let whole = calls::whole(library, call);
                    Box::pin(link.ask(&whole, None, until)).await? // rare, and large
                } else {
                    answer
                }
            }
        };
        self.understood(call, answer)
    }

    /// Runs a script in one round trip, whether the server has it or not.
    ///
    /// So a caller that sends another request behind it can rely on the order.
    pub(crate) async fn run_whole(
        &self,
        call: &Call,
        within: Duration,
    ) -> Result<Answer, StoreError> {
        let whole = calls::whole(self.0.functions(), call);
        let key = call.all_keys().next();
        let answer = self.0.ask(&whole, key, CLOCK.now().plus(within)).await?;
        self.understood(call, answer)
    }

    fn understood(&self, call: &Call, answer: Value) -> Result<Answer, StoreError> {
        if let Value::ServerError(reply) = &answer {
            return Err(self.0.explain_call(call, &error_map::line(reply)));
        }
        answer::plain(answer)
            .and_then(Answer::from_value)
            .map_err(|Malformed| {
                let message = format!(
                    "the answer of {} from {} was not understood",
                    call.script.name,
                    self.describe()
                );
                StoreError::unknown(ErrorKind::Malformed, message)
            })
    }

    /// Delivers messages to the channel until dropped; none over a connection that was handed in.
    pub(crate) async fn listen(&self, channel: &str, sink: Sink) {
        match self.0.own() {
            Some(own) => channels::listen(own.endpoint(), channel, sink).await,
            None => std::future::pending().await,
        }
    }

    /// Returns the subscriptions to changing channels; none over a connection that was handed in.
    pub(crate) fn subscriptions(&self) -> Arc<Subscriptions> {
        match self.0.own() {
            Some(_) => Subscriptions::new(),
            None => Subscriptions::unavailable(),
        }
    }

    /// Serves the subscriptions until dropped.
    pub(crate) async fn serve(&self, set: &Arc<Subscriptions>) {
        match &self.0 {
            Link::Own(lane) => channels::serve(lane.endpoint(), set).await,
            Link::External(_) => std::future::pending().await,
            Link::Cluster(cluster) => cluster.serve().await,
        }
    }

    /// Returns the subscriptions at the node that has the key, and whether its channels are sharded.
    pub(crate) fn subscriptions_at(&self, key: &str) -> Option<(Arc<Subscriptions>, bool)> {
        match &self.0 {
            Link::Cluster(cluster) => cluster.subscriptions_at(key),
            _ => None,
        }
    }

    /// Enables wake-ups there from now on.
    pub(crate) fn deliver_from_nodes(&self, sink: SharedSink) {
        if let Link::Cluster(cluster) = &self.0 {
            cluster.deliver_from_nodes(sink);
        }
    }

    /// Follows the server to the address that the Sentinels report, until dropped.
    ///
    /// It has leases verified when connections end. A connection that was handed in reports nothing.
    pub(crate) async fn follow(&self, holder: &dyn Holder) {
        match &self.0 {
            Link::Own(lane) => health::follow(lane, holder).await,
            Link::Cluster(cluster) => health::over_many(cluster.trouble(), holder).await,
            Link::External(_) => std::future::pending().await,
        }
    }

    /// Returns the channel on which the server reports what happens to a key, with keyspace notifications.
    pub(crate) fn news_of(&self, key: &str) -> Option<String> {
        let own = self.0.own()?;
        Some(format!("__keyspace@{}__:{key}", own.endpoint().url().db))
    }

    /// Enables wake-ups over the connection of the requests from now on.
    ///
    /// None come over one that was handed in.
    pub(crate) fn hear_along(&self, channel: &str, sink: Sink) {
        if let Some(own) = self.0.own() {
            own.push_mode().hear_along(channel, sink);
        }
    }

    /// True if messages now arrive over the connection of the requests, in the caller's runtime.
    pub(crate) fn hears(&self) -> bool {
        self.0.own().is_some_and(|own| own.hears())
    }

    /// True if that holds for the connection of the next request.
    pub(crate) fn would_hear(&self) -> bool {
        self.0.own().is_some_and(|own| own.would_hear())
    }

    /// Returns the same, after an attempt to bring that about.
    pub(crate) async fn listens(&self, within: Duration) -> bool {
        match self.0.own() {
            Some(own) => own.listens(CLOCK.now().plus(within)).await,
            None => false,
        }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        if let Link::Cluster(_) = &self.0 {
            return Capabilities {
                wakes: true,
                keys_per_call: 1, // others may be in another slot
                combines: false,
                by_node: true,
                look_every: Duration::MAX,
            };
        }
        Capabilities {
            wakes: self.0.own().is_some(),
            keys_per_call: 200,
            by_node: false,
            combines: self.0.own().is_some(), // what is behind the program's connection is unknown: it may be a cluster
            look_every: Duration::MAX,
        }
    }

    /// Counts the connections. One that was handed in reconnects unnoticed.
    pub(crate) fn epoch(&self) -> Option<u64> {
        match &self.0 {
            Link::Own(lane) => Some(lane.epoch()),
            Link::External(_) => None,
            Link::Cluster(cluster) => Some(cluster.epoch()),
        }
    }

    /// True if dedicated connections can be opened, and a server has replicas.
    pub(crate) fn has_replicas(&self) -> bool {
        self.0.own().is_some()
    }

    /// True if a request would leave at once, which is assumed of a connection that was handed in.
    pub(crate) fn is_connected(&self) -> bool {
        self.0.own().is_none_or(|own| own.is_connected())
    }

    /// Returns the same server over a connection of its own. One that was handed in is the only one.
    pub(crate) fn another_lane(&self) -> Self {
        match &self.0 {
            Link::Own(lane) => RedisStore(Link::Own(lane.another())),
            Link::External(_) => self.clone(),
            Link::Cluster(cluster) => RedisStore(Link::Cluster(cluster.another())),
        }
    }

    pub(crate) fn describe(&self) -> String {
        self.0.describe()
    }

    /// True if each key may be on a server of its own.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.0, Link::Cluster(_))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStore({})", self.describe())
    }
}
