//! Leases on one Redis or Valkey server. The only folder that names `redis::`.
//!
//! A script is sent by its hash, and as a whole when the server does not have it; never loaded beforehand. Every call
//! has one deadline, which covers connecting too. What a failure says about the request is decided in `fault`.

mod answer;
mod backoff;
mod cluster;
mod endpoint;
mod functions;
mod sentinel;
mod socket;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_options;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, ConnectionAddr, Value};

use self::cluster::Cluster;
pub(crate) use self::commands::DedicatedConnection;
use self::connection::Connection;
use self::endpoint::Endpoint;
use self::external_connection::{ExternalConnection, Theirs};
pub(crate) use self::functions::load_on_each;
pub use self::functions::{FunctionsNode, LoadedFunctions};
use self::health::ConnectionEvents;
#[cfg(feature = "tls")]
pub use self::tls_options::TlsOptions;
use super::report::Report;
use super::subscriptions::Subscriptions;
use super::url::{Place, RedisUrl};
use super::{Capabilities, Holder, SharedSink, Sink};
use crate::base::clock::{Clock, Moment};
use crate::base::error::{ErrorKind, InvalidInput, StoreError};
use crate::script::{Answer, Call, Malformed, Script};

const CLOCK: Clock = Clock::boot();
const SCAN_COUNT: u32 = 500;

/// One server, over a connection of ours or of the user's, or a cluster. Clones share the connection.
#[derive(Clone)]
pub(crate) struct RedisStore(Link);

#[derive(Clone)]
enum Link {
    Own(Arc<Connection>),
    External(Arc<dyn ExternalConnection>),
    Cluster(Arc<Cluster>),
}

impl RedisStore {
    /// Connects when it is needed for the first time.
    pub(crate) fn from_url(url: RedisUrl) -> Self {
        RedisStore::to(Endpoint::new(url))
    }

    fn to(endpoint: Endpoint) -> Self {
        RedisStore(Link::Own(Connection::new(
            endpoint,
            ConnectionEvents::default(),
        )))
    }

    /// Connections of our own to where the client points.
    pub(crate) fn from_client(client: &redis::Client) -> Result<Self, InvalidInput> {
        let info = client.get_connection_info();
        let login = info.redis_settings();
        let place = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Place::Tcp {
                host: host.clone(),
                port: *port,
                tls: false,
            },
            ConnectionAddr::Unix(path) => Place::Unix(path.clone()),
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            } if cfg!(feature = "tls") => Place::Tcp {
                host: host.clone(),
                port: *port,
                tls: true,
            },
            _ => {
                let message = "a client with TLS settings of its own cannot be copied: hand in one of its connections";
                return Err(InvalidInput::new(message.to_owned()));
            }
        };
        let db = u32::try_from(login.db()).map_err(|_| {
            InvalidInput::new("the database of the client must not be negative".to_owned())
        })?;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Ok(Self::from_url(RedisUrl {
            place,
            user: owned(login.username()),
            password: owned(login.password()),
            db,
            functions: None,
            #[cfg(feature = "tls")]
            tls: Arc::default(),
        }))
    }

    /// The user's own connection, shared. It cannot listen: waiters have timers only.
    pub(crate) fn from_connection(
        connection: impl ConnectionLike + Clone + Send + Sync + 'static,
    ) -> Self {
        RedisStore(Link::External(Arc::new(Theirs(connection))))
    }

    pub(crate) async fn run(&self, call: &Call, within: Duration) -> Result<Answer, StoreError> {
        let until = CLOCK.now().plus(within);
        let answer = match &self.0 {
            Link::Cluster(cluster) => {
                Box::pin(self.run_at_node(cluster, call, until, within)).await?
            }
            link => {
                let library = link.functions();
                let short = functions::short(library, call);
                let answer = link.ask_within(&short, until, within).await?;
                if is_noscript(&answer) {
                    let whole = functions::whole(library, call);
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
        let whole = functions::whole(self.0.functions(), call);
        let key = call.all_keys().next();
        let answer = self.0.ask(&whole, key, CLOCK.now().plus(within)).await?;
        self.understood(call, answer)
    }

    fn understood(&self, call: &Call, answer: Value) -> Result<Answer, StoreError> {
        if let Value::ServerError(reply) = &answer {
            return Err(functions::explain(&self.0, call, &error_map::line(reply)));
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
        match &self.0 {
            Link::Own(lane) => subscriber::listen(lane.endpoint(), channel, sink).await,
            _ => std::future::pending().await,
        }
    }

    /// Who hears changing channels: nobody over a connection that was handed in.
    pub(crate) fn bells(&self) -> Arc<Subscriptions> {
        match &self.0 {
            Link::Own(_) => Subscriptions::new(),
            _ => Subscriptions::deaf(),
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
        match &self.0 {
            Link::Own(lane) => Some(format!("__keyspace@{}__:{key}", lane.endpoint().url().db)),
            _ => None,
        }
    }

    /// From now on whoever waits can be told over the connection of the requests. Nothing is told over one that was
    /// handed in.
    pub(crate) fn hear_along(&self, channel: &str, sink: Sink) {
        if let Link::Own(lane) = &self.0 {
            lane.wish().hear_along(channel, sink);
        }
    }

    /// Messages arrive over the connection of the requests at present, in the runtime of whoever asks.
    pub(crate) fn hears(&self) -> bool {
        match &self.0 {
            Link::Own(lane) => lane.hears(),
            _ => false,
        }
    }

    /// The same for the connection that a request would go over.
    pub(crate) fn would_hear(&self) -> bool {
        match &self.0 {
            Link::Own(lane) => lane.would_hear(),
            _ => false,
        }
    }

    /// The same, after having tried to bring that about.
    pub(crate) async fn listens(&self, within: Duration) -> bool {
        match &self.0 {
            Link::Own(lane) => lane.listens(CLOCK.now().plus(within)).await,
            _ => false,
        }
    }

    pub(crate) async fn scan(
        &self,
        cursor: u64,
        pattern: &str,
        within: Duration,
    ) -> Result<(u64, Vec<String>), StoreError> {
        let until = CLOCK.now().plus(within);
        if let Link::Cluster(cluster) = &self.0 {
            return self.scan_nodes(cluster, cursor, pattern, until).await;
        }
        let answer = self.0.ask(&scan(cursor, pattern), None, until).await?;
        self.page(&answer)
    }

    fn page(&self, answer: &Value) -> Result<(u64, Vec<String>), StoreError> {
        if let Value::ServerError(reply) = answer {
            return Err(self.0.explain(&error_map::line(reply)));
        }
        answer::page(answer).map_err(|Malformed| {
            let message = format!(
                "the answer of SCAN from {} was not understood",
                self.describe()
            );
            StoreError::refused(ErrorKind::Malformed, message)
        })
    }

    pub(crate) async fn examine(&self, within: Duration) -> Result<Report, StoreError> {
        if let Link::Cluster(cluster) = &self.0 {
            let endpoints = cluster.endpoints(CLOCK.now().plus(within)).await?;
            let primaries: Vec<_> = endpoints.into_iter().map(RedisStore::to).collect();
            let shape = doctor::Shape::Cluster;
            return Box::pin(doctor::examine_all(
                self.describe(),
                &primaries,
                shape,
                within,
            ))
            .await;
        }
        doctor::one(self, doctor::Shape::Single, within).await
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
            wakes: matches!(self.0, Link::Own(_)),
            keys_per_call: 200,
            by_node: false,
            combines: matches!(self.0, Link::Own(_)), // what lies behind another's connection is not known: a cluster?
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
        matches!(self.0, Link::Own(_))
    }

    /// A request would leave at once. One that was handed in is asked.
    pub(crate) fn is_connected(&self) -> bool {
        match &self.0 {
            Link::Own(lane) => lane.is_connected(),
            _ => true,
        }
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
        match &self.0 {
            Link::Own(lane) => lane.endpoint().to_string(),
            Link::External(theirs) => format!(
                "a Redis connection that was handed in, database {}",
                theirs.database()
            ),
            Link::Cluster(cluster) => cluster.to_string(),
        }
    }

    /// The way to the one server of this store, when the connections to it are ours.
    fn own_endpoint(&self) -> Option<&Endpoint> {
        match &self.0 {
            Link::Own(lane) => Some(lane.endpoint()),
            _ => None,
        }
    }

    /// Each key may lie on a server of its own.
    pub(crate) fn is_cluster(&self) -> bool {
        if let Link::Cluster(_) = &self.0 {
            return true;
        }
        false
    }
}

impl Link {
    /// `key`: where the command goes, in a cluster.
    async fn ask(
        &self,
        command: &Cmd,
        key: Option<&str>,
        until: Moment,
    ) -> Result<Value, StoreError> {
        if let Link::Cluster(cluster) = self {
            return Box::pin(cluster.ask(command, key, until, until)).await;
        }
        let left = until.saturating_since(CLOCK.now());
        self.ask_within(command, until, left).await
    }

    /// For whoever has just read how much time is left until then.
    async fn ask_within(
        &self,
        command: &Cmd,
        until: Moment,
        left: Duration,
    ) -> Result<Value, StoreError> {
        match self {
            Link::Own(lane) => lane.ask(command, until, left).await,
            Link::External(theirs) => external_connection::ask(&**theirs, command, left).await,
            Link::Cluster(cluster) => Box::pin(cluster.ask(command, None, until, until)).await,
        }
    }

    /// What an error line of the server means.
    fn explain(&self, line: &str) -> StoreError {
        match self {
            Link::Own(lane) => lane.endpoint().explain(line),
            Link::External(_) => error_map::from_line(line),
            Link::Cluster(cluster) => cluster.explain(line),
        }
    }
}

fn hash_of(script: &'static Script) -> &'static str {
    let hash = || redis::Script::new(script.source).get_hash().to_owned();
    script.sha1.get_or_init(hash)
}

fn scan(cursor: u64, pattern: &str) -> Cmd {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern);
    scan.arg("COUNT").arg(SCAN_COUNT).arg("TYPE").arg("string");
    scan
}

fn command(verb: &str, script: &str, call: &Call) -> Cmd {
    let room = verb.len() + script.len() + call.bytes() + 4;
    let mut command = Cmd::with_capacity(call.count() + 3, room);
    command.arg(verb).arg(script).arg(call.key_count());
    for word in call.words() {
        command.arg(word);
    }
    command
}

fn is_noscript(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(reply) if reply.code() == "NOSCRIPT")
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStore({})", self.describe())
    }
}

pub(crate) mod channels;
pub(crate) mod commands;
pub(crate) mod connection;
pub(crate) mod doctor;
pub(crate) mod error_map;
pub(crate) mod external_connection;
pub(crate) mod health;
pub(crate) mod heartbeat;
pub(crate) mod push_mode;
pub(crate) mod push_receiver;
pub(crate) mod subscriber;
#[cfg(test)]
mod tests;
