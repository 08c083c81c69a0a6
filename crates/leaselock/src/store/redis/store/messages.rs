//! Messages of a store: subscriptions, messages along with the replies, and what happens to the connections.

use std::sync::Arc;
use std::time::Duration;

use super::RedisStore;
use crate::base::clock::CLOCK;
use crate::store::redis::link::StoreLink;
use crate::store::redis::{channels, health};
use crate::store::subscriptions::Subscriptions;
use crate::store::{LeaseHolder, SharedSink, Sink};

impl RedisStore {
    /// Delivers messages to the channel until dropped; none over a connection that was handed in.
    pub(crate) async fn listen(&self, channel: &str, sink: Sink) {
        match self.0.own() {
            Some(own) => channels::listen(&own.endpoint, channel, sink).await,
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
            StoreLink::Own(own) => channels::serve(&own.endpoint, set).await,
            StoreLink::External(_) => std::future::pending().await,
            StoreLink::Cluster(cluster) => cluster.serve().await,
        }
    }

    /// Returns the subscriptions at the node that has the key, and whether its channels are sharded.
    pub(crate) fn subscriptions_at(&self, key: &str) -> Option<(Arc<Subscriptions>, bool)> {
        match &self.0 {
            StoreLink::Cluster(cluster) => cluster.subscriptions_at(key),
            _ => None,
        }
    }

    /// Enables wake-ups there from now on.
    pub(crate) fn deliver_from_nodes(&self, sink: SharedSink) {
        if let StoreLink::Cluster(cluster) = &self.0 {
            cluster.deliver_from_nodes(sink);
        }
    }

    /// Follows the server to the address that the Sentinels report, until dropped.
    ///
    /// It has leases verified when connections end. A connection that was handed in reports nothing.
    pub(crate) async fn follow(&self, holder: &dyn LeaseHolder) {
        match &self.0 {
            StoreLink::Own(own) => health::follow(own, holder).await,
            StoreLink::Cluster(cluster) => health::over_many(cluster.trouble(), holder).await,
            StoreLink::External(_) => std::future::pending().await,
        }
    }

    /// Returns the channel on which the server reports what happens to a key, with keyspace notifications.
    pub(crate) fn news_of(&self, key: &str) -> Option<String> {
        let own = self.0.own()?;
        Some(format!("__keyspace@{}__:{key}", own.endpoint.url().db))
    }

    /// Enables wake-ups over the connection of the requests from now on.
    ///
    /// None come over one that was handed in.
    pub(crate) fn deliver_along(&self, channel: &str, sink: Sink) {
        if let Some(own) = self.0.own() {
            own.push_mode.deliver_along(channel, sink);
        }
    }

    /// True if messages now arrive over the connection of the requests, in the caller's runtime.
    pub(crate) fn receives(&self) -> bool {
        self.0.own().is_some_and(|own| own.receives())
    }

    /// True if that holds for the connection of the next request.
    pub(crate) fn would_receive(&self) -> bool {
        self.0.own().is_some_and(|own| own.would_receive())
    }

    /// Returns the same, after an attempt to bring that about.
    pub(crate) async fn start_receiving(&self, within: Duration) -> bool {
        match self.0.own() {
            Some(own) => own.start_receiving(CLOCK.now().plus(within)).await,
            None => false,
        }
    }
}
