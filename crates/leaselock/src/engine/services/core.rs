//! The engine, which all locks of a client share: one store, one identity, one background thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leaselock_fence::Name;

use super::batch::batcher::Requests;
use super::cleanup::Cleanup;
use super::ids::{Ids, Who};
use super::lease::deadlines::Id;
use super::lease::record::LeaseRecord;
use super::log::EventLog;
use super::shared::SharedByTasks;
use super::thread::Background;
use super::totals::of_client::Totals;
use super::{renewal, thread};
use crate::base::clock_watch::ClockWatch;
use crate::base::error::{AcquireError, ErrorKind};
use crate::base::process::Process;
use crate::base::{ClientId, Clock, Drift, InvalidInput, Moment, StoreError, Ttl, debug_as};
use crate::engine::values::{Connections, HeldFor, Note, Seen, Strict};
use crate::quorum::executor::Executor;
use crate::quorum::tally::Votable;
use crate::script::keys;
use crate::script::keys::QuarantineKey;
use crate::store::LeaseHolder;

/// How long a request of an operator, or one that is only information, may take.
pub(crate) const OPERATOR_WITHIN: Duration = Duration::from_secs(2);

/// What the services of one client are: everything that ways, guards and primitives use of it.
pub(crate) struct Engine {
    pub(crate) ids: Ids,
    pub(crate) clock: Clock,
    pub(crate) drift: Drift,
    /// What the server's replies say of its clock.
    pub(crate) clock_watch: Arc<ClockWatch>,
    pub(crate) store: Executor,
    pub(crate) log: Arc<EventLog>,
    pub(crate) requests: Requests,
    pub(crate) strict: Option<Strict>,
    pub(crate) shared: SharedByTasks,
    pub(crate) totals: Totals,
    request_timeout: Option<Duration>,
    background: OnceLock<Result<Background, StoreError>>,
    /// The process that opened it.
    process: u32,
    closed: AtomicBool,
}

pub(crate) struct EngineSettings {
    pub(crate) id: ClientId,
    pub(crate) prefix: String,
    pub(crate) about: Process,
    pub(crate) drift: Drift,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) clock: Clock,
    pub(crate) store: Executor,
    pub(crate) strict: Option<Strict>,
}

impl Engine {
    pub(crate) fn new(settings: EngineSettings) -> Self {
        let (id, prefix, store) = (settings.id, settings.prefix, settings.store);
        Engine {
            log: Arc::new(EventLog::new(&prefix, &id, &store)),
            ids: Ids::new(id, prefix, settings.about),
            requests: Requests::new(&store, &settings.clock, settings.strict.is_some()),
            clock_watch: Arc::new(ClockWatch::of(store.is_majority() || store.is_cluster())),
            shared: SharedByTasks::default(),
            totals: Totals::default(),
            background: OnceLock::new(),
            process: std::process::id(),
            closed: AtomicBool::new(false),
            drift: settings.drift,
            request_timeout: settings.request_timeout,
            clock: settings.clock,
            store,
            strict: settings.strict,
        }
    }

    /// Returns the background thread, and starts it on first use. Refuses a forked process, which has no copy of it, and
    /// would count by the numbers of its parent.
    pub(crate) fn own_background(&self) -> Result<&Background, StoreError> {
        if self.process != std::process::id() {
            let text =
                "the client was opened before this process was forked: open another one here";
            return Err(StoreError::refused(ErrorKind::Unsupported, text));
        }
        self.background()
    }

    /// The same without that check, which is a system call: for what every acquisition does.
    pub(crate) fn background(&self) -> Result<&Background, StoreError> {
        self.background
            .get_or_init(|| {
                let background = Background::start(
                    &self.ids,
                    &self.store,
                    &self.clock,
                    self.request_timeout,
                    &self.clock_watch,
                    &self.log,
                )?;
                self.requests.watch(&background.handle);
                Ok(background)
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Polls the future on this thread, while the client's thread does what it waits for.
    ///
    /// A thread that could not start is an error of each operation that needs it, and none panics for want of a runtime, nor
    /// waits in a forked process for a thread that is not there.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self.own_background() {
            Ok(background) => background.handle.clone().block_on(future),
            Err(_) => thread::spare_runtime().block_on(future),
        }
    }

    pub(crate) fn started(&self) -> Option<&Background> {
        self.background
            .get()
            .and_then(|background| background.as_ref().ok())
    }

    /// Returns the cleanup queue. Its callers exist only after the thread was started.
    pub(crate) fn cleanup(&self) -> Cleanup {
        self.started()
            .map_or_else(|| Cleanup::new().0, |background| background.cleanup.clone())
    }

    /// Refuses new acquisitions from here on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Returns what another protocol uses of this client.
    pub(crate) fn connections(&self) -> Result<Connections, StoreError> {
        let background = self.background()?;
        Ok(Connections {
            store: self.store.clone(),
            thread_store: background.store.clone(),
            thread: background.handle.clone(),
            subscriptions: Arc::clone(&background.subscriptions),
            permits: Arc::clone(&self.shared.own_connections),
        })
    }

    pub(crate) fn request_timeout(&self, ttl: Ttl) -> Duration {
        renewal::request_timeout(self.request_timeout, ttl)
    }

    /// How long a request may take that no lease needs.
    pub(crate) fn operator_timeout(&self) -> Duration {
        let limit = self.request_timeout.unwrap_or(OPERATOR_WITHIN);
        limit.min(OPERATOR_WITHIN)
    }

    pub(crate) async fn ask<O: Votable>(
        &self,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply, StoreError> {
        self.ask_over(&self.store, operation, within).await
    }

    /// Runs an operation, and notes the server's time of the reply.
    pub(crate) async fn ask_over<O: Votable>(
        &self,
        store: &Executor,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply, StoreError> {
        let sent = self.clock.now();
        let answer = store.ask_hearing(operation, within, |_, _| {}).await?;
        if let Some(time_us) = answer.time_us {
            self.note_time(sent, self.clock.now(), time_us);
        }
        answer.reply
    }

    pub(crate) fn stop_renewal(&self, id: Id) {
        if let Some(background) = self.started() {
            background.renewal.remove(id);
        }
    }

    pub(crate) fn check_now(&self, id: Id) {
        if let Some(background) = self.started() {
            background.renewal.check_now(id);
        }
    }

    /// Notes the server's time. After a jump of the server's clock, the client verifies all its leases at once.
    ///
    /// 0 is none: the shortest replies do not say it.
    pub(crate) fn note_time(&self, sent: Moment, received: Moment, server_us: u64) {
        if server_us != 0
            && self.clock_watch.note(sent, received, server_us)
            && let Some(background) = self.started()
        {
            self.log.clock_jumped(&self.clock_watch, server_us);
            background.renewal.verify_all();
        }
    }

    /// Has the client's record written in the background, as long as the client is in use.
    pub(crate) fn announce(self: &Arc<Self>) {
        // Every grant calls this, and most have nothing to write.
        if let Some(background) = self.started().filter(|_| !self.ids.record.is_asked()) {
            let engine = Arc::downgrade(self);
            self.ids
                .record
                .announce(&background.handle, &background.store, move |asked| {
                    let engine = engine.upgrade();
                    engine.is_some_and(|it| (asked || it.is_used()) && !it.has_ended())
                });
        }
    }

    /// Returns true if the client holds or waits for a lock, or serves a schedule.
    fn is_used(&self) -> bool {
        let used = |background: &Background| {
            !background.renewal.is_empty() || background.notifier.has_waiters()
        };
        self.ids.record.serves_any() || self.started().is_some_and(used)
    }

    /// Returns true once the client is closed without a lease: nothing would delete its record then.
    pub(crate) fn has_ended(&self) -> bool {
        let holds = |background: &Background| !background.renewal.is_empty();
        self.is_closed() && !self.started().is_some_and(holds)
    }

    /// Writes the holder's note in the background.
    pub(crate) fn write_note(&self, HeldFor { held, ttl }: HeldFor<'_>, why: Option<&str>) {
        let (Some(text), Some(background)) = (why, self.started()) else {
            return;
        };
        let (store, held, text) = (background.store.clone(), held.clone(), text.to_owned());
        drop(background.handle.spawn(async move {
            if let Some(note) = Note::of(held.for_ttl(ttl), &text) {
                drop(store.ask(&note, OPERATOR_WITHIN).await); // the note is only information
            }
        }));
    }

    /// Deletes the note in the background.
    pub(crate) fn erase_note(&self, record: &LeaseRecord) {
        if record.why.is_some() {
            self.write_note(record.held.for_ttl(Ttl::DEFAULT), Some(""));
        }
    }

    /// Reads who is behind a client, by its own description.
    pub(crate) async fn who(&self, client: &str, within: Duration) -> Result<Process, StoreError> {
        let record = &keys::client_record(&self.ids.prefix, client);
        let client = client.to_owned();
        Ok(match self.ask(&Who { record }, within).await? {
            Some(process) => Process { client, ..process },
            None => Process::unknown(client),
        })
    }
}

impl Engine {
    /// Returns the quarantine key of this client in strict mode.
    pub(crate) fn gate(&self) -> Option<&Arc<QuarantineKey>> {
        self.strict.as_ref().map(|strict| &strict.gate)
    }

    /// Refuses what a majority of servers cannot have, before anything is sent.
    pub(crate) fn needs_one_server(
        &self,
        what: &str,
        reason: &'static str,
    ) -> Result<(), InvalidInput> {
        if !self.store.is_majority() {
            return Ok(());
        }
        let text = format!("a majority of servers has no {what}: {reason}; use one `redis://` URL");
        Err(InvalidInput::new(text).because(reason))
    }

    pub(crate) fn check_strict(&self, ttl: Ttl) -> Result<(), InvalidInput> {
        self.gate().map_or(Ok(()), |gate| gate.fits(ttl))
    }

    /// Returns the error of a wait that ended without a grant, by the latest reply.
    pub(crate) fn still_busy(
        &self,
        name: Name,
        waited: Duration,
        seen: Option<&Seen>,
    ) -> AcquireError {
        let quarantine = seen.and_then(|seen| seen.quarantine);
        if let (Some(why), Some(strict)) = (quarantine, &self.strict) {
            let remaining = strict.left(self.clock.now());
            return AcquireError::Quarantined {
                name,
                remaining,
                reason: why,
            };
        }
        let holder = seen.and_then(|seen| seen.holder.clone());
        AcquireError::TimedOut {
            name,
            waited,
            own: holder.as_deref() == Some(self.ids.client.as_str()),
            holder: holder.map(|client| Box::new(Process::unknown(client))),
            remaining: seen.and_then(|seen| seen.remaining),
            retries: 0,
        }
    }
}

debug_as!(Engine, it => { id: it.ids.client.as_str() });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    #[tokio::test]
    async fn a_forked_process_counts_nothing_by_a_client_of_its_parent() {
        let mut client = Client::open("mem:").unwrap();
        let state = Arc::get_mut(&mut client.state).unwrap();
        Arc::get_mut(&mut state.engine).unwrap().process = 0;
        let refused = client.counter("hits").add(1).await.unwrap_err().to_string();
        assert!(refused.contains("forked"), "{refused}");
    }
}
