//! The client's part of the event log: events wait here, and a task of the client's thread writes them.
//!
//! Nothing waits for that task, and it writes at most once a second. What comes meanwhile and does not fit is counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use leaselock_fence::{Fence, Name};
use tokio::sync::{Notify, broadcast};
use tokio::time::sleep;

use crate::base::clock_watch::ClockWatch;
use crate::base::{ClientId, ErrorKind, StoreError, debug_as, hold};
use crate::engine::values::log::{AT_ONCE, NoteEvents, ReadLog, Written, entries};
use crate::engine::values::{LogEntry, LogEvent};
use crate::quorum::executor::Executor;
use crate::script::keys;

/// Between two requests of a client.
const EVERY: Duration = Duration::from_secs(1);
/// After a request that failed: the store may be down, and the entries wait.
const LATER: Duration = Duration::from_secs(10);
/// After a refusal, which an operator may lift.
const MUCH_LATER: Duration = Duration::from_secs(600);
const WITHIN: Duration = Duration::from_secs(1);
/// For how long the log is read for the operator of a break, whose entry follows the break itself: for all names of a
/// lease together.
pub(crate) const BREAKER_WITHIN: Duration = Duration::from_millis(500);
/// The pause before each reading, and how long the nodes have to reply to it: one that is down takes all of that time.
const READ_AFTER_AND_WITHIN_MS: [(u64, u64); 3] = [(5, 50), (20, 100), (50, 250)];
/// A break is among the newest so many entries.
const BREAKER_AMONG: u64 = 100;

/// A listener that is so many events behind has missed the oldest.
const HEARD_AT_ONCE: usize = 1024;

/// The events of one client: those that wait to be written, and those who listen.
pub(crate) struct EventLog {
    key: String,
    client: ClientId,
    store: Executor,
    /// How many events it has written or left out.
    number: AtomicU64,
    pending: Mutex<Pending>,
    changed: Notify,
    is_refused: AtomicBool,
    /// Made with the first listener.
    listeners: OnceLock<broadcast::Sender<LogEntry>>,
}

#[derive(Default)]
struct Pending {
    entries: Vec<String>,
    left_out: u64,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.left_out == 0
    }
}

impl EventLog {
    pub(crate) fn new(prefix: &str, client: &ClientId, store: &Executor) -> Self {
        EventLog {
            key: keys::events(prefix),
            client: client.clone(),
            store: store.clone(),
            number: AtomicU64::new(0),
            pending: Mutex::default(),
            changed: Notify::new(),
            is_refused: AtomicBool::new(false),
            listeners: OnceLock::new(),
        }
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<LogEntry> {
        let listeners = (self.listeners).get_or_init(|| broadcast::channel(HEARD_AT_ONCE).0);
        listeners.subscribe()
    }

    /// Shows the event to listeners, and writes nothing. Without a listener it costs the reading of one value.
    pub(crate) fn tell(&self, event: impl FnOnce() -> LogEvent) {
        if self.heard().is_some() {
            self.shown(&event());
        }
    }

    fn heard(&self) -> Option<&broadcast::Sender<LogEntry>> {
        (self.listeners.get()).filter(|listeners| listeners.receiver_count() > 0)
    }

    /// Shows the event to listeners, and returns it as it is written.
    fn shown(&self, event: &LogEvent) -> String {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let client = self.client.as_str();
        if let Some(listeners) = self.heard() {
            // An error says that each listener was dropped.
            drop(listeners.send(event.entry(client, number)));
        }
        event.encode(client, number)
    }

    /// Shows the event to listeners, and has it written soon by the client's thread. Never waits.
    pub(crate) fn note(&self, event: impl FnOnce() -> LogEvent) {
        let entry = self.shown(&event());
        let mut pending = hold(&self.pending);
        // One place is for the number of those that are left out.
        if pending.entries.len() + 1 >= AT_ONCE {
            pending.left_out += 1;
            return;
        }
        pending.entries.push(entry);
        drop(pending);
        self.changed.notify_one();
    }

    /// Notes a jump of the server's clock, which all its clients see: they agree on its seconds. One of less than half a
    /// second is no more to a lease than a delay of that length.
    pub(crate) fn clock_jumped(&self, clock: &ClockWatch, server_us: u64) {
        let by_ms = clock.last_ms().unwrap_or_default();
        let by_s = (by_ms + 500 * by_ms.signum()) / 1000;
        let way = if by_s < 0 { "back" } else { "forward" };
        if by_s != 0 {
            let text = format!("the store's clock went {way} by about {} s", by_s.abs());
            let fact = format!("clock/{}/{way}", server_us / 60_000_000);
            self.note(|| LogEvent::new("clock_jumped", text).fact(fact));
        }
    }

    /// Writes one event at once, for a caller that waits for it; leaves it out when the store does not take it.
    pub(crate) async fn write(&self, event: &LogEvent) {
        let entry = self.shown(event);
        if let Err(error) = self.ask(&self.store, &[entry]).await {
            tracing::debug!(target: "leaselock", %error, ?event, "an event is not in the log");
        }
    }

    async fn ask(&self, store: &Executor, entries: &[String]) -> Result<(), StoreError> {
        let events = &self.key;
        store.ask(&NoteEvents { events, entries }, WITHIN).await
    }

    /// Writes what waits, now and then, until the client's thread ends.
    pub(crate) async fn run(&self, store: Executor) {
        loop {
            while hold(&self.pending).is_empty() {
                self.changed.notified().await;
            }
            sleep(self.flush(&store).await).await;
        }
    }

    /// Writes what waits now, for a client that ends.
    pub(crate) async fn finish(&self, store: &Executor) {
        if !self.is_refused.load(Ordering::Relaxed) {
            self.flush(store).await;
        }
    }

    /// Writes what waits, and returns after which pause the next may be written.
    async fn flush(&self, store: &Executor) -> Duration {
        let batch = {
            let mut pending = hold(&self.pending);
            if pending.left_out > 0 && pending.entries.len() < AT_ONCE {
                let count = std::mem::take(&mut pending.left_out);
                let event = LogEvent::new("left_out", format!("{count} events of this client"));
                pending.entries.push(self.shown(&event));
            }
            pending.entries.clone()
        };
        if batch.is_empty() {
            return EVERY;
        }
        let pause = match self.ask(store, &batch).await {
            Ok(()) => EVERY,
            Err(error) if matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::Unsupported) => {
                if !self.is_refused.swap(true, Ordering::Relaxed) {
                    tracing::warn!(target: "leaselock", %error, "the event log is not written");
                }
                MUCH_LATER
            }
            Err(error) => {
                tracing::debug!(target: "leaselock", %error, "the event log is not written now");
                return LATER;
            }
        };
        (hold(&self.pending).entries).retain(|entry| !batch.contains(entry));
        pause
    }

    /// Reads the newest entries that are not older than `back`.
    pub(crate) async fn read(
        &self,
        back: Duration,
        most: u64,
        within: Duration,
    ) -> Result<Written, StoreError> {
        let events = &self.key;
        let read = ReadLog { events, back, most };
        self.store.ask(&read, within).await
    }

    /// Returns the entry of the break of the lease with this name and one of these fencing tokens: of several breaks the
    /// first, because the others found a lease that ended already. Of those that name no token, and of a token that holders
    /// share, the latest is nearest.
    pub(crate) async fn breaker(
        &self,
        name: &Name,
        fences: [Option<Fence>; 2],
        is_shared: bool,
    ) -> Option<LogEntry> {
        let is_of = |entry: &LogEntry| {
            // Of several permits that were broken together each has a fencing token of its own: its time is the grant's.
            let since = fences[0].map(|fence| fence.get() / 1000);
            let at = entry.at.duration_since(std::time::UNIX_EPOCH).ok();
            let later = at.is_some_and(|at| since.is_some_and(|ms| at.as_millis() >= ms.into()));
            entry.kind == "broken"
                && entry.name.as_deref() == Some(name.as_str())
                && entry.fence.map_or(later, |_| fences.contains(&entry.fence))
        };
        for (pause, within) in READ_AFTER_AND_WITHIN_MS {
            sleep(Duration::from_millis(pause)).await;
            let read = self.read(Duration::MAX, BREAKER_AMONG, Duration::from_millis(within));
            let found = entries(&read.await.unwrap_or_default());
            let is_its_own = |entry: &&LogEntry| is_of(entry) && entry.fence.is_some();
            let mut of_token = found.iter().filter(|_| !is_shared);
            let latest = || found.iter().rev().find(|entry| is_of(entry));
            let entry = of_token.find(is_its_own).or_else(latest);
            if entry.is_some() {
                return entry.cloned();
            }
        }
        None
    }
}

debug_as!(EventLog, it => { client: it.client.as_str() });
