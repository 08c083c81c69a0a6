//! Where leases live. A store does two things: it runs a script atomically on its declared keys, and it delivers
//! wake-up messages, saying when it may have missed some. It never learns which primitive it serves.

use std::sync::Arc;
use std::time::Duration;

use self::report::Report;
use self::subscriptions::Subscriptions;
use crate::base::clock::Moment;
use crate::base::error::StoreError;
use crate::script::{Answer, Call, Operation, Value};

#[cfg(feature = "embedded")]
pub(crate) mod embedded;
#[cfg(feature = "redis")]
pub(crate) mod redis;
pub(crate) mod report;
pub(crate) mod subscriptions;
pub(crate) mod url;

/// What a listener hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Messages from now on arrive. Whatever was sent before may have been missed.
    Ready,
    /// Messages may be missed until the next `Ready`.
    Gap,
    /// Some holder's process ended without a word: a lock may be free.
    #[cfg_attr(
        not(feature = "embedded"),
        expect(dead_code, reason = "servers do not know")
    )]
    Ended,
    /// A message to the channel.
    Message(Vec<u8>),
}

/// Receives events; called on the client's own thread or where somebody waits for them, must not block.
pub(crate) type Sink = Box<dyn Fn(Event) + Send + Sync>;

/// Whoever has leases on a store.
pub(crate) trait Holder: Send + Sync {
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "nothing happens to connections")
    )]
    fn holds(&self) -> bool;

    /// Something happened to the store: every lease is verified now.
    fn verify_all(&self);
}

/// A sink that several share.
pub(crate) type SharedSink = Arc<dyn Fn(Event) + Send + Sync>;

/// What differs between stores, for those above.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capabilities {
    /// Waiters can be woken by messages. Without, they have timers only.
    pub(crate) wakes: bool,
    /// How many keys of different names one call may have.
    pub(crate) keys_per_call: usize,
    /// Requests for different names may leave in one call.
    pub(crate) combines: bool,
    /// Each lock has a place of its own where its waiters listen.
    pub(crate) by_node: bool,
    /// Waiters look at least this often, whatever else they know.
    pub(crate) look_every: Duration,
}

/// What a lock's place in a folder has seen, to be had without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// How often it was written.
    pub(crate) commits: u64,
    /// How much is read by each call.
    pub(crate) bytes: u64,
}

/// An answer with the server's time in it.
pub(crate) struct Timed<R> {
    pub(crate) reply: Result<R, StoreError>,
    pub(crate) time_us: Option<u64>,
}

/// One of the stores. Clones share everything; `another_lane` has a connection of its own.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    #[cfg(feature = "redis")]
    Redis(redis::RedisStore),
    #[cfg(feature = "redis")]
    Quorum(crate::quorum::QuorumStore),
    #[cfg(feature = "embedded")]
    Embedded(embedded::EmbeddedStore),
}

/// Runs the same expression on whichever store this is.
macro_rules! each {
    ($store:expr, $inner:ident => $body:expr) => {
        match $store {
            #[cfg(feature = "redis")]
            Store::Redis($inner) => $body,
            #[cfg(feature = "redis")]
            Store::Quorum($inner) => $body,
            #[cfg(feature = "embedded")]
            Store::Embedded($inner) => $body,
        }
    };
}

impl Store {
    /// Runs a script once, or says whether it may have run. Returns within `within`, give or take scheduling.
    pub(crate) async fn run(&self, call: &Call, within: Duration) -> Result<Answer, StoreError> {
        each!(self, store => store.run(call, within).await)
    }

    /// Runs an operation and understands its answer.
    pub(crate) async fn ask<O: Operation>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply, StoreError> {
        #[cfg(feature = "redis")]
        if let Store::Quorum(quorum) = self {
            return Box::pin(quorum.ask(operation, within, None)).await; // large, as is what it is made of
        }
        O::read(&self.run(&operation.call(), within).await?)
    }

    /// The same, and what time it was on the server, whatever it says. Several servers have no time in common.
    pub(crate) async fn ask_when<O: Operation>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<Timed<O::Reply>, StoreError> {
        self.ask_hearing(operation, within, |_, _| {}).await
    }

    /// The same. On a quorum `hears` is told what each node has answered, also when that comes after the outcome.
    pub(crate) async fn ask_hearing<O: Operation>(
        &self,
        operation: &O,
        within: Duration,
        hears: impl Fn(usize, &O::Reply) + Send + Sync + 'static,
    ) -> Result<Timed<O::Reply>, StoreError> {
        #[cfg(feature = "redis")]
        if let Store::Quorum(quorum) = self {
            let reply = Box::pin(quorum.ask(operation, within, Some(Arc::new(hears)))).await?;
            return Ok(Timed {
                reply: Ok(reply),
                time_us: None,
            });
        }
        #[cfg(not(feature = "redis"))]
        let _ = hears;
        let answer = self.run(&operation.call(), within).await?;
        Ok(Timed {
            reply: O::read(&answer),
            time_us: O::time_us(&answer),
        })
    }

    /// Listens on a channel for ever, across reconnects; stops when dropped.
    pub(crate) async fn listen(&self, channel: &str, sink: Sink) {
        each!(self, store => store.listen(channel, sink).await)
    }

    /// Who hears changing channels. They ring as long as somebody serves them.
    pub(crate) fn bells(&self) -> Arc<Subscriptions> {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.bells(),
            _ => Subscriptions::deaf(),
        }
    }

    /// Where each lock has a place of its own: who hears channels where this key lies, and whether those are to be
    /// sharded. It may lie elsewhere later.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn bells_at(&self, key: &str) -> Option<(Arc<Subscriptions>, bool)> {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.bells_at(key),
            _ => None,
        }
    }

    /// From now on whoever waits can be told there.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn hear_at_nodes(&self, sink: SharedSink) {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.hear_at_nodes(sink),
            _ => {}
        }
    }

    /// Hears what the bells want, for ever, across reconnects; stops when dropped.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn serve(&self, bells: &Arc<Subscriptions>) {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.serve(bells).await,
            _ => std::future::pending().await,
        }
    }

    /// Follows the store to wherever it moves, and has leases verified when something happens to it, for ever; stops
    /// when dropped.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn follow(&self, holder: &Arc<dyn Holder>) {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.follow(&**holder).await,
            #[cfg(feature = "redis")]
            Store::Quorum(store) => store.follow(holder).await,
            #[cfg(feature = "embedded")]
            Store::Embedded(_) => std::future::pending().await,
        }
    }

    /// The channel on which the store may tell what happens to a key, whoever does it.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn news_of(&self, key: &str) -> Option<String> {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.news_of(key),
            _ => None,
        }
    }

    /// From now on whoever waits can be told over the connection of the requests too: the sink runs in the runtime of
    /// whoever made that connection, hears a gap when it ends, and must not block.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn hear_along(&self, channel: &str, sink: Sink) {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.hear_along(channel, sink),
            _ => {}
        }
    }

    /// Messages arrive over the connection of the requests at present, in the runtime of whoever asks.
    pub(crate) fn hears(&self) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.hears(),
            _ => false,
        }
    }

    /// The same for the connection that a request would go over: there may be none yet, and it may turn out not to.
    pub(crate) fn would_hear(&self) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.would_hear(),
            _ => false,
        }
    }

    /// The same, after having tried to bring that about.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn listens(&self, within: Duration) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.listens(within).await,
            _ => false,
        }
    }

    /// Replicas can be waited for.
    pub(crate) fn has_replicas(&self) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.has_replicas(),
            _ => false,
        }
    }

    /// What other ways of locking consist of can be sent: only to a server, where others lock in those ways.
    pub(crate) fn has_commands(&self) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(_) => true,
            _ => false,
        }
    }

    /// Strict mode is for what can forget: a folder's leases end with the machine that they are on.
    pub(crate) fn can_be_strict(&self) -> Result<(), StoreError> {
        if self.has_commands() {
            return Ok(());
        }
        Err(StoreError::refused(
            crate::base::error::ErrorKind::Unsupported,
            format!(
                "strict mode is for servers, and {} needs none: its leases end with the machine that they are on",
                self.describe()
            ),
        ))
    }

    /// Each key may lie on a server of its own.
    pub(crate) fn is_cluster(&self) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.is_cluster(),
            _ => false,
        }
    }

    /// Answers come from servers each of which has a clock of its own.
    pub(crate) fn has_clocks(&self) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Store::Quorum(_) => true,
            _ => self.is_cluster(),
        }
    }

    /// One command that is no script.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn plain(
        &self,
        words: &[&str],
        within: Duration,
    ) -> Result<Value, StoreError> {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.plain(words, within).await,
            _ => Err(no_commands()),
        }
    }

    /// Whoever asks it has a user, who may not be allowed everything.
    pub(crate) fn has_users(&self) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(_) | Store::Quorum(_) => true,
            #[cfg(feature = "embedded")]
            Store::Embedded(_) => false,
        }
    }

    /// Whether the user may do what it takes to wake whoever listens to the channel; `None` when nobody says so. It
    /// sends an empty message there.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn may_wake(&self, channel: &str, within: Duration) -> Option<bool> {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.may_wake(channel, within).await,
            #[cfg(feature = "redis")]
            Store::Quorum(store) => store.may_wake(channel, within).await,
            #[cfg(feature = "embedded")]
            Store::Embedded(_) => Some(true),
        }
    }

    /// Several as one transaction, and the answer of each.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn together(
        &self,
        commands: &[&[&str]],
        within: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => store.together(commands, within).await,
            _ => Err(no_commands()),
        }
    }

    /// Some keys that may be locks and match the glob pattern, from `cursor` on (0 to begin), and the next cursor
    /// (0 at the end).
    pub(crate) async fn scan(
        &self,
        cursor: u64,
        pattern: &str,
        within: Duration,
    ) -> Result<(u64, Vec<String>), StoreError> {
        each!(self, store => store.scan(cursor, pattern, within).await)
    }

    /// What an operator should know about the store, and whether it is fit for locks.
    pub(crate) async fn examine(&self, within: Duration) -> Result<Report, StoreError> {
        each!(self, store => store.examine(within).await)
    }

    /// Waits for what the store itself still cleans up, at most for `within`.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) async fn is_clean(&self, within: Duration) {
        #[cfg(feature = "redis")]
        if let Store::Quorum(quorum) = self {
            quorum.is_clean(within).await;
        }
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        each!(self, store => store.capabilities())
    }

    /// Changes with each new connection of this lane, behind which another server may answer; `None` when that cannot
    /// be seen.
    pub(crate) fn epoch(&self) -> Option<u64> {
        each!(self, store => store.epoch())
    }

    /// Where each call reads and writes all that is kept under a name: how often it was written. A waiter that listens
    /// there is known to be alive without a word of it.
    #[cfg_attr(
        not(feature = "embedded"),
        expect(unused_variables, reason = "only folders can tell")
    )]
    pub(crate) fn traffic(&self, key: &str) -> Option<Traffic> {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(_) | Store::Quorum(_) => None,
            #[cfg(feature = "embedded")]
            Store::Embedded(store) => store.traffic(key),
        }
    }

    /// The same store over a connection of its own.
    pub(crate) fn another_lane(&self) -> Store {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(store) => Store::Redis(store.another_lane()),
            #[cfg(feature = "redis")]
            Store::Quorum(store) => Store::Quorum(store.another_lane()),
            #[cfg(feature = "embedded")]
            Store::Embedded(store) => Store::Embedded(store.clone()),
        }
    }

    /// A job that outlives this process holds no longer than this. Only a store with sessions lets it hold at all.
    #[cfg_attr(not(feature = "embedded"), expect(unused_variables))]
    pub(crate) fn limit_session(&self, until: Moment) {
        match self {
            #[cfg(feature = "redis")]
            Store::Redis(_) | Store::Quorum(_) => {}
            #[cfg(feature = "embedded")]
            Store::Embedded(store) => store.limit_session(until),
        }
    }

    /// The store in words, without secrets.
    pub(crate) fn describe(&self) -> String {
        each!(self, store => store.describe())
    }
}

fn no_commands() -> StoreError {
    StoreError::refused(
        crate::base::error::ErrorKind::Unsupported,
        "this store runs scripts and no other commands",
    )
}
