//! The client: one store, one identity, one background thread.

pub(crate) mod builder;
pub(crate) mod detached;
pub(crate) mod inspect;
pub(crate) mod options;
#[cfg(feature = "redis")]
pub(crate) mod quorum;
pub(crate) mod requests;
mod several;
mod strict;
#[cfg(feature = "redis")]
mod verdicts;
pub(crate) mod views;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use self::requests::Requests;
use crate::engine::identity::{Announce, Process};
pub(crate) use crate::engine::thread::Background;
use crate::quorum::votable::Votable;

use self::builder::ClientBuilder;
use self::detached::{DetachedLease, Handle};
use self::inspect::{BreakTerms, Broken, Inspection};
use self::options::{DEFAULT_TTL, Options};
use crate::base::clock::{Clock, Moment};
use crate::base::clock_watch::ClockWatch;
use crate::base::error::{BreakError, InspectError, InvalidInput, StoreError};
use crate::base::name::Name;
use crate::base::token::{ClientId, Stock, Token};
use crate::base::ttl::{Drift, Ttl};
use crate::engine::cleanup::Cleanup;
use crate::engine::gate::Strict;
use crate::engine::lease::Held;
use crate::engine::lease::deadlines::Id;
use crate::engine::lease::record::LeaseRecord;
use crate::engine::note::Note;
use crate::engine::wait::local::groups::LocalGroups;
use crate::engine::wait::local::keyed_mutex::KeyedMutex;
use crate::mutex::Mutex;
use crate::quorum::executor::Executor;
use crate::script::keys;
use crate::script::keys::MutexKeys;
use crate::store::Holder;
use crate::store::report;
use crate::store::report::Report;

/// How long others can read who a client is, without its renewing it.
const RECORD_TTL: Ttl = match Ttl::whole_ms(60_000) {
    Some(ttl) => ttl,
    None => panic!("a minute is in range"),
};
/// How often a client that is in use renews it.
const RECORD_EVERY: Duration = Duration::from_secs(20);
pub(crate) const OPERATOR_WITHIN: Duration = Duration::from_secs(2);

/// A connection to a store, under one identity. Cheap to clone; clones share everything.
///
/// Building one touches no network, so it does not fail because a server is down; the first operation says so.
/// The async methods need a tokio runtime with I/O and time; [`blocking`](crate::blocking) needs none.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) id: ClientId,
    pub(crate) prefix: String,
    /// Where the client's own thread listens.
    pub(crate) channel: String,
    /// Where the connection of the requests listens.
    pub(crate) channel_along: String,
    pub(crate) record: String,
    pub(crate) about: Process,
    pub(crate) defaults: Options,
    pub(crate) drift: Drift,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) clock: Clock,
    pub(crate) store: Executor,
    pub(crate) requests: Requests,
    pub(crate) tokens: Stock,
    pub(crate) skew: Arc<ClockWatch>,
    /// In strict mode.
    pub(crate) strict: Option<Strict>,
    pub(crate) local_groups: LocalGroups,
    /// Whose turn it is to try, behind locks that have no line.
    pub(crate) gates: KeyedMutex,
    /// How many more locks may have a connection of their own.
    #[cfg(feature = "redis")]
    pub(crate) lines: Arc<tokio::sync::Semaphore>,
    /// Over which replicas are waited for.
    #[cfg(feature = "redis")]
    pub(crate) waiting_rooms: crate::engine::replicas::pool::ReplicaPool,
    background: OnceLock<Result<Background, StoreError>>,
    closed: AtomicBool,
    /// When this client last said who it is; 0 for never.
    announced: AtomicU64,
    /// It has begun to say so, and there may be a record to take back.
    introduced: AtomicBool,
}

/// What a client has come across; see [`Client::stats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// How often the store's clock was seen to jump against ours: leases that were held then ended early or late on the
    /// store. Each time all leases of this client were verified at once.
    pub clock_jumps: u64,
    /// By how many milliseconds it jumped last, forward or, below zero, back; `None` when it never did.
    pub last_clock_jump_ms: Option<i64>,
}

/// What was left to clean up when a client was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Leases and places that were given back in the background, and confirmed.
    pub released: usize,
    /// Those that were not confirmed; they end by themselves at their ttl.
    pub unconfirmed: usize,
}

impl Client {
    /// A client for a URL: `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://`, `redis+cluster://`, `file:` or
    /// `mem:`.
    ///
    /// # Errors
    /// [`InvalidInput`] says what is wrong with the URL. Servers are not contacted.
    pub fn connect(url: &str) -> Result<Client, InvalidInput> {
        Client::builder().url(url).build()
    }

    /// A client with options of its own.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn from_inner(inner: Inner) -> Self {
        Client {
            inner: Arc::new(inner),
        }
    }

    #[cfg(any(test, feature = "blocking", feature = "redis"))]
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// The lock of this name, with the client's default options. A bad name is reported by the first operation.
    pub fn mutex(&self, name: impl Into<String>) -> Mutex {
        Mutex::new(
            Arc::clone(&self.inner),
            name.into(),
            self.inner.defaults.clone(),
        )
    }

    /// This client's id, as others see it. Not a secret.
    pub fn id(&self) -> &str {
        self.inner.id.as_str()
    }

    /// Where the locks are, for messages and logs: the URL without user and password, or the folder.
    pub fn store(&self) -> String {
        self.inner.store.describe()
    }

    /// The leases that this client holds, oldest first.
    pub fn held(&self) -> Vec<Held> {
        let kept = self
            .inner
            .started()
            .map(|background| background.keeper.held())
            .unwrap_or_default();
        kept.into_iter()
            .map(Held::new)
            .filter(Held::is_held)
            .collect()
    }

    /// Who holds a name, why, since when, and who waits for it.
    ///
    /// # Cancel safety
    /// Safe: looking changes nothing.
    ///
    /// # Errors
    /// [`InspectError`] when the name is bad or the store does not answer.
    pub async fn inspect(&self, name: &str) -> Result<Inspection, InspectError> {
        inspect::inspect(&self.inner, &Name::new(name)?).await
    }

    /// Every lock of leaselock that is held and matches a glob pattern (`*`, `?`, `[…]`), in no order. Locks of other
    /// libraries cannot be told from other keys; ask [`inspect`](Client::inspect) for them by name.
    ///
    /// Uses `SCAN`: a lock that is taken or released meanwhile may or may not be there.
    ///
    /// # Cancel safety
    /// Safe: looking changes nothing.
    ///
    /// # Errors
    /// [`InspectError`] when the store does not answer.
    pub async fn list(&self, pattern: &str) -> Result<Vec<Inspection>, InspectError> {
        inspect::list(&self.inner, pattern).await
    }

    /// Takes a lock away from its holder, as an operator; the next in line has it in the same step. The holder learns
    /// of it at its next renewal and may act until then: only fencing protects against that.
    ///
    /// # Cancel safety
    /// When dropped, it may have happened.
    ///
    /// # Errors
    /// [`BreakError`] says why nothing was broken.
    pub async fn break_lease(&self, name: &str, terms: BreakTerms) -> Result<Broken, BreakError> {
        inspect::break_lease(&self.inner, &Name::new(name)?, terms).await
    }

    /// Goes on with a lease that another process has detached.
    pub fn attach(&self, handle: Handle) -> DetachedLease {
        DetachedLease::new(Arc::clone(&self.inner), handle)
    }

    /// Examines the store: version, persistence, eviction, role, clock, file system, and whether each is fit for locks;
    /// and says in words what the set-up can promise and what it cannot. Of Sentinels it says whether they can choose
    /// another primary, and whether leases of the default ttl would outlive that. Jumps of its clock that this client
    /// has seen are among what was looked at.
    ///
    /// # Errors
    /// [`StoreError`] when the store does not answer.
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        let mut report = self.inner.store.examine(OPERATOR_WITHIN).await?;
        let ttl = self.inner.defaults.length();
        self.inner.store.examine_sentinels(&mut report, ttl).await;
        report.checks.extend(report::clock_jumps(
            self.inner.skew.jumps(),
            self.inner.skew.last_ms(),
        ));
        Ok(report)
    }

    /// What this client has come across since it was built.
    pub fn stats(&self) -> Stats {
        Stats {
            clock_jumps: self.inner.skew.jumps(),
            last_clock_jump_ms: self.inner.skew.last_ms(),
        }
    }

    /// Finishes the clean-up of dropped leases and cancelled acquisitions, waiting a few seconds at most. New
    /// acquisitions are refused from here on; leases that are held stay held.
    pub async fn close(&self) -> Closed {
        self.inner.closed.store(true, Ordering::SeqCst);
        let Some(background) = self.inner.started() else {
            return Closed {
                released: 0,
                unconfirmed: 0,
            };
        };
        let (released, unconfirmed) = background
            .cleanup
            .drained(&self.inner.clock, OPERATOR_WITHIN)
            .await;
        self.inner.store.is_clean(OPERATOR_WITHIN).await;
        if self.inner.introduced.load(Ordering::SeqCst) && self.held().is_empty() {
            let gone = Announce {
                record: &self.inner.record,
                about: "",
                ttl: RECORD_TTL,
            };
            drop(self.inner.ask(&gone, OPERATOR_WITHIN).await); // for onlookers only
        }
        Closed {
            released,
            unconfirmed,
        }
    }

    /// A descriptor that a child process can inherit: as long as it is open anywhere, a lease of this client in a
    /// folder store stays held, even when this process is gone, as with flock(1). `None` on other stores.
    pub fn session_descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        self.inner.store.session_descriptor()
    }
}

impl Inner {
    /// The background thread, started on first use.
    pub(crate) fn background(&self) -> Result<&Background, StoreError> {
        self.background
            .get_or_init(|| {
                let background = Background::start(self)?;
                self.requests.watch(&background.handle);
                Ok(background)
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    fn started(&self) -> Option<&Background> {
        self.background
            .get()
            .and_then(|background| background.as_ref().ok())
    }

    /// Where dropped things go. Only called by what exists after the thread was started.
    pub(crate) fn cleanup(&self) -> Cleanup {
        self.started()
            .map_or_else(|| Cleanup::new().0, |background| background.cleanup.clone())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// A connection for one purpose, moved by the client's own thread.
    #[cfg(feature = "redis")]
    pub(crate) async fn private(
        &self,
        within: Duration,
    ) -> Result<crate::store::redis::DedicatedConnection, StoreError> {
        let handle = &self.background()?.handle;
        self.store.private(handle, within).await
    }

    pub(crate) fn request_timeout(&self, ttl: Ttl) -> Duration {
        crate::engine::renewal::request_timeout(self.request_timeout, ttl)
    }

    pub(crate) async fn ask<O: Votable>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply, StoreError> {
        self.ask_over(&self.store, operation, within).await
    }

    /// Runs an operation, and takes in what time it is on the server.
    pub(crate) async fn ask_over<O: Votable>(
        &self,
        store: &Executor,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply, StoreError> {
        let sent = self.clock.now();
        let answer = store.ask_when(operation, within).await?;
        if let Some(time_us) = answer.time_us {
            self.note_time(sent, self.clock.now(), time_us);
        }
        answer.reply
    }

    pub(crate) fn forget(&self, id: Id) {
        if let Some(background) = self.started() {
            background.keeper.forget(id);
        }
    }

    pub(crate) fn look_again(&self, id: Id) {
        if let Some(background) = self.started() {
            background.keeper.look_again(id);
        }
    }

    /// A jump of the store's clock makes every lease be verified at once.
    pub(crate) fn note_time(&self, sent: Moment, received: Moment, server_us: u64) {
        if self.skew.note(sent, received, server_us)
            && let Some(background) = self.started()
        {
            background.keeper.verify_all();
        }
    }

    /// Says who this client is, in the background, when that was not said lately.
    pub(crate) fn announce(self: &Arc<Self>) {
        let Some(background) = self.started() else {
            return;
        };
        // Every grant comes by here, and most have nothing to write.
        let asked = self.announced.load(Ordering::SeqCst) == 1;
        if asked || self.announced.swap(1, Ordering::SeqCst) != 0 {
            return;
        }
        let inner = Arc::downgrade(self);
        let store = background.store.clone();
        drop(background.handle.spawn(async move {
            while let Some((record, about)) = inner
                .upgrade()
                .filter(|inner| inner.is_used())
                .and_then(|inner| inner.introduction())
            {
                drop(
                    store
                        .ask(
                            &Announce {
                                record: &record,
                                about: &about,
                                ttl: RECORD_TTL,
                            },
                            OPERATOR_WITHIN,
                        )
                        .await,
                );
                tokio::time::sleep(RECORD_EVERY).await;
            }
            if let Some(inner) = inner.upgrade() {
                inner.announced.store(0, Ordering::SeqCst);
            }
        }));
    }

    /// `None` when the client was closed without a lease: nobody would take the record back.
    pub(crate) fn introduction(&self) -> Option<(String, String)> {
        self.introduced.store(true, Ordering::SeqCst); // before the look, so that `close` sees this or this sees `close`
        let holds = |background: &Background| !background.keeper.is_empty();
        let ended = self.is_closed() && !self.started().is_some_and(holds);
        (!ended).then(|| (self.record.clone(), self.about.encode()))
    }

    /// Holds something or waits for something. A request that is under way counts by having asked for this.
    fn is_used(&self) -> bool {
        let used = |background: &Background| {
            !background.keeper.is_empty() || background.wakeups.is_anybody_waiting()
        };
        self.announced.swap(2, Ordering::SeqCst) == 1 || self.started().is_some_and(used)
    }

    /// Leaves the holder's note, in the background.
    pub(crate) fn leave_note(&self, keys: &MutexKeys, token: &Token, why: Option<&str>, ttl: Ttl) {
        let (Some(text), Some(background)) = (why, self.started()) else {
            return;
        };
        let (store, keys, token, text) = (
            background.store.clone(),
            keys.clone(),
            token.clone(),
            text.to_owned(),
        );
        drop(background.handle.spawn(async move {
            let note = Note {
                keys: &keys,
                token: &token,
                text: &text,
                ttl,
            };
            drop(store.ask(&note, OPERATOR_WITHIN).await); // for people; the lease does not depend on it
        }));
    }

    /// Takes the note away, in the background.
    pub(crate) fn erase_note(&self, kept: &LeaseRecord) {
        if kept.why.is_some() {
            self.leave_note(&kept.keys, &kept.token, Some(""), DEFAULT_TTL);
        }
    }

    pub(crate) fn record_of(&self, client: &str) -> String {
        keys::client_record(&self.prefix, client)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.inner.id.as_str())
            .field("store", &self.inner.store.describe())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("id", &self.id.as_str())
            .finish_non_exhaustive()
    }
}
