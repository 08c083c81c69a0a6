//! Locks that are not taken in the native way, as the engine sees them: what another library's way of locking must be
//! able to do. The ways themselves are in `interop`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::grant::{ExtendAnswer, ReleaseAnswer};
use super::kind::HeldFor;
use crate::base::{Clock, Moment, Result, Ttl};
use crate::quorum::executor::Executor;
use crate::script::{Operation, Value};
use crate::store::{DedicatedConnection, Subscriptions};

pub(crate) use futures_util::future::BoxFuture;

/// The reply to a request in another library's way.
pub(crate) type LockReply<'a, R> = BoxFuture<'a, Result<R>>;

/// So many locks of one client have a connection of their own at a time.
pub(crate) const OWN_CONNECTIONS_MOST: usize = 64;

/// What of a client another way of locking uses. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    /// That of requests.
    pub(crate) store: Executor,
    /// That of the client's own thread.
    pub(crate) thread_store: Executor,
    pub(crate) thread: Handle,
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// How many more locks may have a connection of their own.
    pub(crate) permits: Arc<Semaphore>,
}

impl Connections {
    /// A connection for one purpose, moved by the client's own thread.
    pub(crate) async fn private(&self, within: Duration) -> Result<DedicatedConnection> {
        self.store.private(&self.thread, within).await
    }
}

/// The server of the lock, and how long one request may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LockServer<'a> {
    pub(crate) store: &'a Executor,
    pub(crate) within: Duration,
}

impl<'a> LockServer<'a> {
    pub(crate) fn new(store: &'a Executor, within: Duration) -> Self {
        LockServer { store, within }
    }

    pub(crate) async fn plain(self, words: &[&str]) -> Result<Value> {
        self.store.plain(words, self.within).await
    }

    pub(crate) async fn run<O: Operation>(self, operation: &O) -> Result<O::Reply> {
        self.store.ask_one(operation, self.within).await
    }
}

/// Another library's way of locking one name.
pub(crate) trait CustomProtocol: fmt::Debug + Send + Sync {
    /// What the next request writes; nothing is sent to the lock. `before`: that of an earlier try, which held nothing.
    fn prepare<'a>(
        &'a self,
        asked: HeldFor<'a>,
        before: Option<Arc<dyn CustomLock>>,
        connections: &'a Connections,
        within: Duration,
    ) -> LockReply<'a, Arc<dyn CustomLock>>;
}

/// What one try came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakeOutcome {
    Taken,
    /// Another has it; until when, if that is known.
    Busy {
        remaining: Option<Duration>,
    },
}

/// One taking of a lock. It is made before its request is sent, and its value is its own.
pub(crate) trait CustomLock: fmt::Debug + Send + Sync {
    /// What the way is called.
    fn protocol(&self) -> &'static str;

    /// Why its locks cannot be extended and so not renewed; `None` when they can.
    fn why_no_renewal(&self) -> Option<&'static str>;

    fn lock(&self) -> &str;

    /// Its connection, for the next try.
    fn connection(&self) -> Option<Arc<OwnConnection>> {
        None
    }

    /// Takes the lock if it is free. The same value again: it is not taken twice, but may be told "busy".
    fn take<'a>(&'a self, server: LockServer<'a>, ttl: Ttl) -> LockReply<'a, TakeOutcome>;

    /// True if it is renewed by a request of its own: the others hold a token at their key, as the native way does.
    fn extends_itself(&self) -> bool;

    /// Makes its time whole again.
    fn extend<'a>(&'a self, server: LockServer<'a>, ttl: Ttl) -> LockReply<'a, ExtendAnswer>;

    /// Gives it back as the way does it. `left`: of the lease, by our own clock.
    fn release<'a>(
        &'a self,
        server: LockServer<'a>,
        left: Duration,
    ) -> LockReply<'a, ReleaseAnswer>;

    /// Takes away what may be left of it, whatever became of its requests: compares first, in every way.
    fn clean_up<'a>(&'a self, server: LockServer<'a>) -> LockReply<'a, ()>;

    /// Listens as the users of the lock do. What is told from then on is heard, if anything is.
    fn listen<'a>(
        &'a self,
        connections: &'a Connections,
        within: Duration,
    ) -> BoxFuture<'a, Option<Box<dyn ReleaseSignal>>>;
}

/// A connection of one lock's own.
#[derive(Debug)]
pub(crate) struct OwnConnection {
    pub(crate) connection: tokio::sync::Mutex<DedicatedConnection>,
    pub(crate) _permit: tokio::sync::OwnedSemaphorePermit,
}

/// What tells a waiter that a lock without a queue may be free.
pub(crate) trait ReleaseSignal: Send + Sync {
    /// Each release is told, so there is no need to ask by timer except now and then.
    fn is_heard(&self) -> bool;

    /// Ends when it is worth trying; never when nothing can be heard.
    fn told<'a>(&'a self, clock: &'a Clock) -> BoxFuture<'a, ()>;

    /// The try that followed was answered: what was told has had its use.
    fn has_tried(&mut self, now: Moment);
}
