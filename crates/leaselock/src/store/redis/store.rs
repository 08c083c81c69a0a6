//! A store on servers, for those above: it runs scripts there, and delivers messages.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::link::Link;
use super::{answer, calls, channels, error_map, health, subscriber};
use crate::base::clock::Clock;
use crate::base::error::{ErrorKind, StoreError};
use crate::script::{Answer, Call, Malformed};
use crate::store::subscriptions::Subscriptions;
use crate::store::{Capabilities, Holder, SharedSink, Sink};

const CLOCK: Clock = Clock::boot();

/// One server, over a connection of ours or of the user's, or a cluster. Clones share the connection.
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
                    Box::pin(link.ask(&whole, None, until)).await? // seldom, and large
                } else {
                    answer
                }
            }
        };
        self.understood(call, answer)
    }

    /// The same in one trip, whether the server has the script or not: whoever sends something behind it can rely on the
    /// order.
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

    /// Messages to the channel until dropped; nothing at all over a connection that was handed in.
    pub(crate) async fn listen(&self, channel: &str, sink: Sink) {
        match self.0.own() {
            Some(own) => subscriber::listen(own.endpoint(), channel, sink).await,
            None => std::future::pending().await,
        }
    }

    /// Who hears changing channels: nobody over a connection that was handed in.
    pub(crate) fn bells(&self) -> Arc<Subscriptions> {
        match self.0.own() {
            Some(_) => Subscriptions::new(),
            None => Subscriptions::deaf(),
        }
    }

    /// Hears what the bells want until dropped.
    pub(crate) async fn serve(&self, bells: &Arc<Subscriptions>) {
        match &self.0 {
            Link::Own(lane) => channels::serve(lane.endpoint(), bells).await,
            Link::External(_) => std::future::pending().await,
            Link::Cluster(cluster) => cluster.serve().await,
        }
    }

    /// Who hears channels at the node that has the key, and whether those are to be sharded.
    pub(crate) fn bells_at(&self, key: &str) -> Option<(Arc<Subscriptions>, bool)> {
        match &self.0 {
            Link::Cluster(cluster) => cluster.bells_at(key),
            _ => None,
        }
    }

    /// From now on whoever waits can be told there.
    pub(crate) fn hear_at_nodes(&self, sink: SharedSink) {
        if let Link::Cluster(cluster) = &self.0 {
            cluster.hear_at_nodes(sink);
        }
    }

    /// Follows the server to wherever the Sentinels say it is, and has leases verified when connections end, until
    /// dropped. Nobody tells anything of one that was handed in.
    pub(crate) async fn follow(&self, holder: &dyn Holder) {
        match &self.0 {
            Link::Own(lane) => health::follow(lane, holder).await,
            Link::Cluster(cluster) => health::over_many(cluster.trouble(), holder).await,
            Link::External(_) => std::future::pending().await,
        }
    }

    /// Where the server tells what happens to a key, when its keyspace notifications are on.
    pub(crate) fn news_of(&self, key: &str) -> Option<String> {
        let own = self.0.own()?;
        Some(format!("__keyspace@{}__:{key}", own.endpoint().url().db))
    }

    /// From now on whoever waits can be told over the connection of the requests. Nothing is told over one that was
    /// handed in.
    pub(crate) fn hear_along(&self, channel: &str, sink: Sink) {
        if let Some(own) = self.0.own() {
            own.push_mode().hear_along(channel, sink);
        }
    }

    /// Messages arrive over the connection of the requests at present, in the runtime of whoever asks.
    pub(crate) fn hears(&self) -> bool {
        self.0.own().is_some_and(|own| own.hears())
    }

    /// The same for the connection that a request would go over.
    pub(crate) fn would_hear(&self) -> bool {
        self.0.own().is_some_and(|own| own.would_hear())
    }

    /// The same, after having tried to bring that about.
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
                keys_per_call: 1, // others may lie in another slot
                combines: false,
                by_node: true,
                look_every: Duration::MAX,
            };
        }
        Capabilities {
            wakes: self.0.own().is_some(),
            keys_per_call: 200,
            by_node: false,
            combines: self.0.own().is_some(), // what lies behind another's connection is not known: a cluster?
            look_every: Duration::MAX,
        }
    }

    /// How many connections there were. One that was handed in reconnects without a word.
    pub(crate) fn epoch(&self) -> Option<u64> {
        match &self.0 {
            Link::Own(lane) => Some(lane.epoch()),
            Link::External(_) => None,
            Link::Cluster(cluster) => Some(cluster.epoch()),
        }
    }

    /// Connections can be opened for one purpose, and a server has replicas.
    pub(crate) fn has_replicas(&self) -> bool {
        self.0.own().is_some()
    }

    /// A request would leave at once. One that was handed in is asked.
    pub(crate) fn is_connected(&self) -> bool {
        self.0.own().is_none_or(|own| own.is_connected())
    }

    /// The same server over a connection of its own. There is only one that was handed in.
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

    /// Each key may lie on a server of its own.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.0, Link::Cluster(_))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStore({})", self.describe())
    }
}
