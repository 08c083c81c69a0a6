//! The record of one lease, which its holder, the renewal task and every `lost()` share.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use leaselock_fence::{Fence, Name, Sequencer};
use tracing::Span;
use tracing::field::Empty;

use super::state::{LeaseMachine, NextStep};
use crate::base::error::{Lost, LostReason};
use crate::base::{Clock, Moment, Ttl, debug_as, fence, hold, rounded};
use crate::engine::services::log::EventLog;
use crate::engine::services::totals::of_client::{CountedHold, KindTotals};
use crate::engine::values::{CustomLock, Held, HeldFor, LockMode, LogEntry, LogEvent};

type Hook = Arc<dyn Fn(Moment) + Send + Sync>;

pub(crate) struct LeaseRecord {
    pub(crate) name: Name,
    pub(crate) held: Held,
    pub(crate) fence: Option<Fence>,
    /// The last fencing token that the grant reserved; 0 when it reserved none but its own.
    last_fence: AtomicU64,
    pub(crate) why: Option<String>,
    /// The protocol by which the lease was acquired, unless that is the native one.
    pub(crate) custom: Option<Arc<dyn CustomLock>>,
    pub(crate) clock: Clock,
    pub(crate) loss_signal: LossSignal,
    /// True if the acquisition waited in the queue.
    queued: AtomicBool,
    /// How the lease is counted, once its acquisition has ended.
    hold: OnceLock<Arc<CountedHold>>,
    /// True if listeners were shown the grant.
    is_told: AtomicBool,
    /// Where its loss is noted; without effect once the client is gone.
    log: Weak<EventLog>,
    /// What the followers of a leader read: the value of the latest campaign of its owner.
    pub(crate) proclaims: Mutex<Option<Arc<str>>>,
    core: Mutex<LeaseMachine>,
    hooks: Mutex<Vec<Hook>>,
}

impl LeaseRecord {
    pub(crate) fn new(
        name: Name,
        held: Held,
        fence: Option<Fence>,
        why: Option<String>,
        clock: Clock,
        core: LeaseMachine,
    ) -> Self {
        let (core, hooks) = (Mutex::new(core), Mutex::default());
        LeaseRecord {
            name,
            held,
            fence,
            last_fence: AtomicU64::new(0),
            why,
            custom: None,
            clock,
            loss_signal: LossSignal::default(),
            queued: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            hold: OnceLock::new(),
            log: Weak::new(),
            proclaims: Mutex::default(),
            core,
            hooks,
        }
    }

    /// The record with the protocol by which the lease was acquired (`None` for the native one), and where its loss is noted.
    pub(crate) fn of(self, custom: Option<Arc<dyn CustomLock>>, log: Weak<EventLog>) -> Self {
        LeaseRecord {
            custom,
            log,
            ..self
        }
    }

    /// Creates the record of the same lease for the next task of this client.
    pub(crate) fn passed_on(&self, fence: Option<Fence>, core: LeaseMachine) -> Self {
        let (name, held, clock) = (self.name.clone(), self.held.clone(), self.clock.clone());
        let next = LeaseRecord::new(name, held, fence, None, clock, core);
        let next = next.of(None, self.log.clone());
        if self.was_queued() {
            next.set_queued();
        }
        let last = self.last_fence.load(Ordering::Relaxed);
        next.last_fence.store(last, Ordering::Relaxed);
        next
    }

    /// Notes how many fencing tokens the grant reserved from this one on.
    pub(crate) fn set_range(&self, range: u64) {
        let last = self.fence.map_or(0, |first| first.get() + range - 1);
        self.last_fence.store(last, Ordering::Relaxed);
    }

    /// Returns the last fencing token that the grant reserved, which is the latest one as long as it holds alone.
    pub(crate) fn last_fence(&self) -> Option<Fence> {
        fence::of_reply(self.last_fence.load(Ordering::Relaxed)).or(self.fence)
    }

    pub(crate) fn set_queued(&self) {
        self.queued.store(true, Ordering::Relaxed);
    }

    pub(crate) fn was_queued(&self) -> bool {
        self.queued.load(Ordering::Relaxed)
    }

    /// Returns what the holder shows to a protected resource; `None` without fencing.
    pub(crate) fn sequencer(&self) -> Option<Sequencer> {
        let mode = LockMode::of(&self.held.resource);
        mode.sequencer(&self.name, self.fence?, &self.held.token.owner_id())
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, LeaseMachine> {
        hold(&self.core)
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.core().ttl()
    }

    pub(crate) fn held_for(&self) -> HeldFor<'_> {
        self.held.for_ttl(self.ttl())
    }

    /// Takes the next step of the state machine, and sets the loss signal before it returns a loss.
    pub(crate) fn step(&self, now: Moment) -> NextStep {
        let step = self.core().step(now);
        if let NextStep::Lost(reason) = step {
            self.lose(reason, now);
        }
        step
    }

    /// Tells all who wait for the loss, and notes it for the event log after that.
    fn lose(&self, reason: LostReason, now: Moment) {
        self.loss_signal.set(self.loss(reason));
        self.count_end(reason, now);
        if reason != LostReason::Released {
            let (lock, fence) = (&self.name, self.fence.map(Fence::get));
            tracing::warn!(target: "leaselock", %lock, fence, %reason, "lease lost");
        }
        let is_ours = matches!(reason, LostReason::Released | LostReason::MaxHoldReached);
        if is_ours {
            if self.is_told.load(Ordering::Relaxed)
                && let Some(log) = self.log.upgrade()
            {
                log.tell(|| self.event("released", reason.to_string()));
            }
            return;
        }
        self.note("lost", || match self.core().trouble() {
            Some(error) => format!("{reason}; before that: {error}"),
            None => reason.to_string(),
        });
    }

    /// Notes an event of this lease for the event log.
    pub(crate) fn note(&self, kind: &'static str, text: impl FnOnce() -> String) {
        if let Some(log) = self.log.upgrade() {
            log.note(|| self.event(kind, text()));
        }
    }

    fn event(&self, kind: &'static str, text: String) -> LogEvent {
        LogEvent::new(kind, text).of(&self.name, self.fence)
    }

    /// Notes a renewal that is confirmed now with less than a third of its time left: the next one may be too late.
    pub(crate) fn note_late_renewal(&self, now: Moment) {
        let core = self.core();
        let left = core.deadline().saturating_since(now);
        let whole = left + core.unconfirmed_for(now);
        let is_late = core
            .headroom(now)
            .is_some_and(|share| share < 1_000_000 / 3);
        if is_late && core.lost().is_none() {
            drop(core);
            let (left, whole) = (rounded(left), rounded(whole));
            self.note("renewal_late", || {
                format!("confirmed with {left} of {whole} left")
            });
        }
    }

    /// Returns what the event log knows of who broke the lease, if that may have ended it.
    pub(crate) async fn broken_by(&self) -> Option<LogEntry> {
        let reason = self.core().lost()?;
        let (broken, gone) = (LostReason::Broken, LostReason::KeyMissing);
        if ![broken, gone, LostReason::TakenOver].contains(&reason) {
            return None;
        }
        let log = self.log.upgrade()?;
        let fences = [self.fence, self.last_fence()];
        let is_shared = self.held.resource.mode.is_some();
        log.breaker(&self.name, fences, is_shared).await
    }

    pub(crate) fn loss(&self, reason: LostReason) -> Lost {
        let lost = Lost::new(self.name.clone(), self.fence, reason);
        if reason == LostReason::Released {
            return lost; // the store has no part in it, and each local hand-over calls this
        }
        let (now, core) = (self.clock.now(), self.core());
        lost.after(core.trouble().cloned(), core.unconfirmed_for(now))
    }

    /// Returns the loss, judged by the clock and not only by what the renewal task has noticed.
    pub(crate) fn lost_by_now(&self) -> Option<Lost> {
        self.lost_by(self.clock.now())
    }

    /// The same by the clock as it was read just now: reading it costs as much as the rest.
    pub(crate) fn lost_by(&self, now: Moment) -> Option<Lost> {
        if let Some(lost) = self.loss_signal.get() {
            return Some(lost.clone());
        }
        let core = self.core();
        let (deadline, mut lost) = (core.deadline(), core.lost());
        drop(core);
        if now >= deadline {
            self.step(now);
            lost = self.core().lost();
        }
        let reason = lost?;
        let told = self.loss_signal.get().cloned();
        Some(told.unwrap_or_else(|| self.loss(reason)))
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self.lost_by_now() {
            Some(_) => Duration::ZERO,
            None => {
                let deadline = self.core().deadline();
                self.clock.left(deadline)
            }
        }
    }

    pub(crate) fn unconfirmed_for(&self) -> Duration {
        let now = self.clock.now();
        self.core().unconfirmed_for(now)
    }

    /// Ends the lease for a reason from outside the state machine. True if it had not ended before.
    pub(crate) fn end(&self, reason: LostReason, now: Moment) -> bool {
        let first = self.core().end(reason);
        if first {
            self.lose(reason, now);
        }
        first
    }

    /// Counts the lease from now on, and shows its grant to listeners; one that an owner shares is counted already.
    pub(crate) fn count(&self, log: &EventLog, hold: impl FnOnce(u32) -> Arc<CountedHold>) {
        let mut is_first = false;
        let hold = self.hold.get_or_init(|| {
            is_first = true;
            hold(LockMode::of(&self.held.resource).permits())
        });
        if is_first {
            log.tell(|| {
                self.is_told.store(true, Ordering::Relaxed);
                self.event("granted", hold.totals.kind.to_owned())
            });
        }
        let lost = self.core().lost(); // it may have ended before it was counted
        if let Some(reason) = lost {
            self.count_end(reason, self.clock.now());
        }
    }

    pub(crate) fn counted(&self) -> Option<&Arc<CountedHold>> {
        self.hold.get()
    }

    /// Returns the span of the hold; none before it is counted.
    pub(crate) fn span(&self) -> Span {
        let span = |totals: &KindTotals| {
            tracing::debug_span!(
                target: "leaselock", "hold", lock = %self.name, kind = totals.kind, class = &*totals.class,
                fence = self.fence.map(Fence::get), held_ms = Empty, outcome = Empty,
            )
        };
        let hold = self.counted();
        hold.map_or_else(Span::none, |hold| hold.span(span))
    }

    fn count_end(&self, reason: LostReason, now: Moment) {
        if let Some(hold) = self.hold.get() {
            hold.end(now, reason);
        }
    }

    /// Ends the lease because a renewal was refused, unless the lease is being changed.
    pub(crate) fn refused(&self, now: Moment, reason: LostReason) {
        let is_over = self.core().refused(now);
        if is_over {
            self.end(reason, now);
        }
    }

    /// Adds a hook, and calls it with the present deadline.
    pub(crate) fn add_hook(&self, hook: Hook) {
        hold(&self.hooks).push(Arc::clone(&hook));
        let deadline = self.core().deadline();
        hook(deadline);
    }

    /// Calls the hooks with the present deadline. A panic of one is logged: other leases depend on the thread that calls it.
    ///
    /// Not to be called under a lock that a hook may take, such as that of an owner.
    pub(crate) fn tell_hook(&self) {
        let hooks = hold(&self.hooks).clone();
        for hook in hooks {
            let deadline = self.core().deadline();
            if catch_unwind(AssertUnwindSafe(|| hook(deadline))).is_err() {
                tracing::error!(target: "leaselock", lock = %self.name, "a hook panicked");
            }
        }
    }
}

debug_as!(LeaseRecord, it => { name: it.name, fence: it.fence, lost: it.loss_signal.get() });

/// A signal that is set once and wakes all tasks that wait for it.
#[derive(Debug, Default)]
pub(crate) struct LossSignal {
    lost: OnceLock<Lost>,
    wakers: Mutex<Wakers>,
}

#[derive(Debug, Default)]
pub(super) struct Wakers {
    pub(super) next: u64,
    /// Most leases have no waiting task, and an empty map takes no memory.
    pub(super) waiting: BTreeMap<u64, Waker>,
}

impl LossSignal {
    pub(crate) fn get(&self) -> Option<&Lost> {
        self.lost.get()
    }

    /// Sets the loss; the first one stays.
    pub(crate) fn set(&self, lost: Lost) {
        let first = self.lost.set(lost).is_ok();
        if first {
            let waiting = std::mem::take(&mut self.lock().waiting);
            waiting.into_values().for_each(Waker::wake);
        }
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Wakers> {
        hold(&self.wakers)
    }
}

#[cfg(test)]
mod tests;
