//! A store on servers, for the layers above.
//!
//! This file runs scripts there, and says what each kind of link to a server can do, and this user. The files in its
//! folder have one task each: creation, listing keys, and loading functions.

mod create;
mod functions;
mod scan;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline};
use tokio::runtime::Handle;

use super::cluster::node_subscriber;
use super::dedicated::DedicatedConnection;
use super::doctor::{ask_sentinels, examine};
use super::link::RedisStore;
use super::{answer, calls, channels, error_map, external_connection, health};
use crate::base::{CLOCK, ErrorKind, Result, StoreError, debug_as, refusal};
use crate::script::{Answer, Call, Library, Listed, Malformed, Value, keys};
use crate::store::{
    Capabilities, LeaseHolder, LoadedFunctions, Reachability, Report, SharedSink, Sink, Store,
    Subscriptions,
};

impl Store for RedisStore {
    async fn run(&self, call: &Call, within: Duration) -> Result<Answer> {
        let until = CLOCK.now().plus(within);
        let answer = match self {
            Self::Cluster(cluster) => Box::pin(cluster.run(call, until, within)).await?,
            link => {
                let library = link.functions();
                let short = calls::short(library, call);
                let answer = match link.own() {
                    // A server writes to its clients in reverse: the one that was first to have something to be
                    // written is the last. Behind another command that is this client, and not the waiter.
                    Some(own) if call.message_first => {
                        Box::pin(own.behind("PING", &short, until)).await? // only behind the queue, and large
                    }
                    _ => link.ask_within(&short, until, within).await?,
                };
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

    /// None come over a connection that was handed in.
    async fn listen(&self, channel: &str, sink: Sink) {
        match self.own() {
            Some(own) => channels::listen(&own.endpoint, channel, sink).await,
            None => std::future::pending().await,
        }
    }

    async fn examine(&self, within: Duration) -> Result<Report> {
        let Self::Cluster(cluster) = self else {
            return examine::one(self, within).await;
        };
        let endpoints = cluster.endpoints(CLOCK.now().plus(within)).await?;
        let primaries: Vec<_> = endpoints.into_iter().map(RedisStore::to).collect();
        Box::pin(examine::all(self.describe(), &primaries, within)).await
    }

    async fn examine_sentinels(&self, report: &mut Report, ttl: Duration) {
        let Some(own) = self.own() else {
            return;
        };
        if let Some(view) = ask_sentinels::view(&own.endpoint).await {
            report.findings.extend(view.checks(ttl));
            report.guarantees.extend(view.promise());
        }
    }

    fn capabilities(&self) -> Capabilities {
        let (cluster, own) = (self.is_cluster(), self.own().is_some());
        Capabilities {
            wakes: cluster || own,
            keys_per_call: if cluster { 1 } else { 200 }, // others may be in another slot
            combines: own, // what is behind the program's connection is unknown: it may be a cluster
            has_users: true,
            has_replicas: own, // a request that waits for them needs a connection to itself
            has_commands: true,
            look_every: Duration::MAX,
        }
    }

    /// A connection that was handed in is the only one.
    fn unshared(&self) -> Self {
        match self {
            Self::Own(own) => Self::Own(own.another()),
            Self::External(_) => self.clone(),
            Self::Cluster(cluster) => Self::Cluster(cluster.another()),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Own(own) => own.endpoint.to_string(),
            Self::External(theirs) => format!(
                "a Redis connection that was handed in, database {}",
                theirs.database()
            ),
            Self::Cluster(cluster) => cluster.topology.to_string(),
        }
    }

    fn tried(&self) -> Reachability {
        match self {
            Self::Own(own) => own.trouble.all(),
            Self::External(_) => Reachability::new(),
            Self::Cluster(cluster) => cluster.topology.tried(),
        }
    }

    /// Counts the connections. One that was handed in reconnects unnoticed.
    fn epoch(&self) -> Option<u64> {
        match self {
            Self::Own(own) => Some(own.epoch()),
            Self::External(_) => None,
            Self::Cluster(cluster) => Some(cluster.epoch()),
        }
    }

    async fn scan(
        &self,
        cursor: u64,
        pattern: &str,
        _about: Option<fn(&str) -> Call>,
        within: Duration,
    ) -> Result<(u64, Vec<Listed>)> {
        let until = CLOCK.now().plus(within);
        if let Self::Cluster(cluster) = self {
            return self.scan_nodes(cluster, cursor, pattern, until).await;
        }
        let scan = Self::scan_command(cursor, pattern);
        self.page(&self.ask(&scan, None, until).await?)
    }

    /// None work over a connection that was handed in.
    fn subscriptions(&self) -> Arc<Subscriptions> {
        match self.own() {
            Some(_) => Subscriptions::new(),
            None => Subscriptions::unavailable(),
        }
    }

    async fn serve(&self, set: &Arc<Subscriptions>) {
        match self {
            Self::Own(own) => channels::serve(&own.endpoint, set).await,
            Self::External(_) => std::future::pending().await,
            Self::Cluster(cluster) => node_subscriber::serve(&cluster.topology).await,
        }
    }

    /// Follows the server to the address that the Sentinels report.
    ///
    /// It has leases verified when connections end. A connection that was handed in reports nothing.
    async fn follow(&self, holder: &Arc<dyn LeaseHolder>) {
        match self {
            Self::Own(own) => health::follow(own, holder).await,
            Self::Cluster(cluster) => health::over_many(&cluster.topology.trouble, holder).await,
            Self::External(_) => std::future::pending().await,
        }
    }

    /// A script that hands a lock over counts the channel's subscribers and publishes there, with the rights of this
    /// user.
    async fn may_wake(&self, channel: &str, within: Duration) -> Option<bool> {
        let (count, publish) = match keys::is_sharded(channel) {
            true => ("SHARDNUMSUB", "SPUBLISH"),
            false => ("NUMSUB", "PUBLISH"),
        };
        let may_ask = self.plain(&["PUBSUB", count, channel], within).await;
        if !Self::is_allowed(&may_ask)? {
            return Some(false);
        }
        Self::is_allowed(&self.plain(&[publish, channel, ""], within).await)
    }

    async fn load_functions(
        &self,
        library: &'static Library,
        within: Duration,
    ) -> Result<Vec<LoadedFunctions>> {
        let Self::Cluster(cluster) = self else {
            return self.load_here(library, within).await;
        };
        let endpoints = cluster.endpoints_anew(CLOCK.now().plus(within)).await?;
        let loading = endpoints.into_iter().map(|endpoint| {
            let store = RedisStore::to(endpoint);
            let node = store.describe();
            (node, async move { store.load_here(library, within).await })
        });
        LoadedFunctions::on_each(&library.name, loading).await
    }

    fn subscriptions_at(&self, key: &str) -> Option<(Arc<Subscriptions>, bool)> {
        match self {
            Self::Cluster(cluster) => cluster.subscriptions_at(key),
            _ => None,
        }
    }

    fn deliver_from_nodes(&self, sink: SharedSink) {
        if let Self::Cluster(cluster) = self {
            cluster.topology.subscribers.deliver_to(sink);
        }
    }

    /// Keyspace notifications have this channel.
    fn news_of(&self, key: &str) -> Option<String> {
        let own = self.own()?;
        Some(format!("__keyspace@{}__:{key}", own.endpoint.url().db))
    }

    /// None come over a connection that was handed in.
    fn deliver_along(&self, channel: &str, sink: Sink) {
        if let Some(own) = self.own() {
            own.push_mode.deliver_along(channel, sink);
        }
    }

    fn hears(&self) -> bool {
        self.own().is_some_and(|own| own.receives())
    }

    fn would_hear(&self) -> bool {
        self.own().is_some_and(|own| own.would_receive())
    }

    async fn listens(&self, within: Duration) -> bool {
        match self.own() {
            Some(own) => own.start_receiving(CLOCK.now().plus(within)).await,
            None => false,
        }
    }

    fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    async fn plain(&self, words: &[&str], within: Duration) -> Result<Value> {
        let (key, until) = (words.get(1).copied(), CLOCK.now().plus(within));
        let answer = self.ask(Cmd::new().arg(words), key, until).await?;
        answer::understood(answer, |line| self.explain(line))
    }

    async fn together(&self, commands: &[&[&str]], within: Duration) -> Result<Vec<Value>> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        pipeline.atomic();
        for words in commands {
            pipeline.add_command(Cmd::new().arg(*words).clone());
        }
        let answer = match self {
            Self::Own(own) => own.together(&pipeline, CLOCK.now().plus(within)).await?,
            Self::External(theirs) => {
                external_connection::answer(theirs.together(&pipeline), within).await?
            }
            Self::Cluster(_) => return Err(on_one_server()),
        };
        match answer::understood(answer, |line| self.explain(line))? {
            Value::Array(answers) => Ok(answers),
            _ => Err(answer::malformed()),
        }
    }
}

impl RedisStore {
    /// Runs a script in one round trip, whether the server has it or not.
    ///
    /// So a caller that sends another request behind it can rely on the order.
    pub(crate) async fn run_whole(&self, call: &Call, within: Duration) -> Result<Answer> {
        let whole = calls::whole(self.functions(), call);
        let key = call.parameters.keys().next();
        let answer = self.ask(&whole, key, CLOCK.now().plus(within)).await?;
        self.understood(call, answer)
    }

    fn understood(&self, call: &Call, answer: redis::Value) -> Result<Answer> {
        if let redis::Value::ServerError(reply) = &answer {
            return Err(self.explain_call(call, &error_map::line(reply)));
        }
        answer::plain(answer)
            .and_then(Answer::from_value)
            .map_err(|Malformed| {
                let message = format!(
                    "unexpected reply from {} to {}: is something else listening there, or a proxy in between?",
                    self.describe(),
                    call.script.name
                );
                StoreError::unknown(ErrorKind::Malformed, message)
            })
    }

    /// True if the user may publish: the only one of these commands that a node of a quorum cannot do without.
    pub(crate) async fn may_publish(&self, channel: &str, within: Duration) -> Option<bool> {
        Self::is_allowed(&self.plain(&["PUBLISH", channel, ""], within).await)
    }

    /// Reads whether the server permits it; `None` when it has not said so.
    pub(super) fn is_allowed(answer: &Result<Value>) -> Option<bool> {
        match answer {
            Ok(_) => Some(true),
            Err(error) if matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::Unsupported) => {
                Some(false)
            }
            Err(_) => None,
        }
    }

    /// Opens a connection without other users, driven by the runtime of `handle`.
    pub(crate) async fn private(
        &self,
        handle: &Handle,
        within: Duration,
    ) -> Result<DedicatedConnection> {
        match self {
            Self::Own(own) => DedicatedConnection::open(own.endpoint.clone(), handle, within).await,
            Self::Cluster(_) => Err(on_one_server()),
            Self::External(_) => {
                let message = "a connection that was handed in cannot be told to open others: build the client from a \
                               URL or from a redis::Client";
                Err(StoreError::refused(ErrorKind::Unsupported, message))
            }
        }
    }

    /// True if a request would leave at once, which is assumed of a connection that was handed in.
    pub(crate) fn is_connected(&self) -> bool {
        self.own().is_none_or(|own| own.is_connected())
    }
}

fn on_one_server() -> StoreError {
    refusal!(Unsupported: "a cluster has no one server for this: its keys may lie on several")
}

debug_as!(RedisStore, it => "RedisStore({})", it.describe());
