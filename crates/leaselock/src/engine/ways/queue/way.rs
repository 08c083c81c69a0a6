//! Waiting in the queue, with an entry of its own: subscribe, enter, poll, leave.

use std::time::Duration;

use tokio::sync::Notify;

use super::entry;
use super::entry::{Foreign, QueueEntry, may_mean_free};
use super::poller::Poller;
use crate::base::error::{AcquireError, Link};
use crate::base::{Moment, StoreError};
use crate::engine::guard::lease::Lease;
use crate::engine::services::CleanupGuard;
use crate::engine::values::{Cancel, CancelAnswer, LogEvent, Seen};
use crate::engine::ways::ask::{Ask, Outcome};
use crate::engine::ways::deadlock::Detector;
use crate::engine::ways::first_try::StartedWait;
use crate::engine::ways::run::{
    AttemptReply, Attempts, Callers, Progress, Solo, WaitEnd, Wake, run,
};
use crate::engine::ways::schedule;
use crate::engine::ways::turn_budget::Share;

/// How a wait ended that others may take over.
pub(crate) enum QueueEnd {
    Granted(Lease, Share),
    /// The entry is theirs from now on.
    HandedOver(Box<(QueueEntry, Progress)>),
}

impl Ask<'_> {
    /// Waits in the queue until the lock is granted, the time is over, or `called` says that others take the entry over.
    /// `begun`: the first try, if it was made with others. `now`: the clock, if it was read just before. `range`: how many
    /// fencing tokens a grant reserves.
    pub(crate) async fn wait_in_queue(
        &self,
        begun: Option<Box<StartedWait>>,
        now: Option<Moment>,
        range: u64,
        called: Option<&Notify>,
    ) -> Result<QueueEnd, AcquireError> {
        let (ask, clock) = (self, &self.engine.clock);
        let now = now.unwrap_or_else(|| clock.now());
        let solo = Solo::in_queue(ask, called);
        let (guard, mut progress, pause) = match begun.map(|begun| *begun) {
            None => (ask.guard_from(now), Progress::default(), None),
            Some(begun) => (begun.guard, begun.progress, begun.pause),
        };
        if let Some(pause) = pause {
            let until = clock.now().plus(pause).min(solo.give_up_at);
            clock.sleep_until(until).await;
        }
        let fresh = pause.is_none().then_some(now);
        let poller = Poller::new(ask, None, range);
        let mut entry = QueueEntry::new(ask, guard);
        entry.ambiguous = progress.maybe_applied();
        let mut queued = Queued { poller, entry };
        let mut circle = None;
        let ended = {
            let waiting = run(clock, fresh, &mut progress, &solo, &mut queued);
            match detector(ask) {
                None => waiting.await,
                Some(mut detector) => tokio::select! {
                    biased;
                    ended = waiting => ended,
                    found = Box::pin(detector.run(&solo.polled)) => {
                        circle = Some(found);
                        WaitEnd::Over
                    }
                },
            }
        };
        // A grant may have come just before the circle was found.
        let ended = match ended {
            WaitEnd::Over if circle.is_some() => queued.received().map_or(ended, WaitEnd::Granted),
            ended => ended,
        };
        let failed = match ended {
            WaitEnd::Granted((lease, share)) => {
                return Ok(QueueEnd::Granted(queued.entry.granted(lease), share));
            }
            WaitEnd::HandedOver => {
                let mut entry = queued.entry;
                entry.reading = None; // the task of the group uses another connection
                return Ok(QueueEnd::HandedOver(Box::new((entry, progress))));
            }
            WaitEnd::Over => None,
            WaitEnd::Failed(source) => Some(source),
            WaitEnd::NoTime => {
                clock.sleep_until(solo.give_up_at).await; // not sooner than was asked for
                progress.error.clone()
            }
        };
        if let Some(source) = failed {
            return Err(queued.failed(source));
        }
        let within = solo.time_for_request(&progress);
        let within = within.unwrap_or_else(|| ask.within());
        let left = Box::pin(queued.leave(progress, within)).await;
        match (left, circle) {
            (Ok(lease), _) => Ok(QueueEnd::Granted(lease, Share::NONE)),
            (Err(unknown @ AcquireError::Unknown { .. }), circle) => {
                drop(circle.map(|circle| ask.deadlock(circle))); // the event log has it all the same
                Err(unknown)
            }
            (Err(_), Some(circle)) => Err(ask.deadlock(circle)),
            (Err(busy), None) => Err(busy),
        }
    }

    /// The same without others that take it over.
    pub(crate) async fn wait_alone(
        &self,
        begun: Option<Box<StartedWait>>,
    ) -> Result<Lease, AcquireError> {
        let now = begun.is_none().then_some(self.start); // after a first try the clock is read again
        match self.wait_in_queue(begun, now, 1, None).await? {
            QueueEnd::Granted(lease, _) => Ok(lease),
            QueueEnd::HandedOver(..) => Err(AcquireError::Closed), // not without a call
        }
    }

    /// The error for the victim of a deadlock, which the event log has too.
    fn deadlock(&self, circle: Vec<Link>) -> AcquireError {
        let deadlock = AcquireError::Deadlock {
            name: self.name.clone(),
            circle,
            way_out: None,
        };
        let event = || LogEvent::new("deadlock", deadlock.to_string()).of(self.name, None);
        self.engine.log.note(event);
        deadlock
    }
}

/// Searches for a deadlock while an owner waits that holds something else.
fn detector(ask: &Ask<'_>) -> Option<Detector> {
    let owner = &ask.owner.as_ref()?.state;
    let digest = ask.held.token.digest();
    Detector::new(ask.engine, owner, ask.lock(), digest, ask.within())
}

/// How long a queue entry may be granted that could not be taken back.
const ENTRY_KEPT: Duration = Duration::from_secs(60);

/// Asks for the lock and enters the queue if it is held. The first request of a client that is not subscribed to
/// anything is a plain try: the client subscribes before it enters the queue, so that its grant cannot be missed.
pub(crate) struct Queued<'w, 'a> {
    pub(crate) poller: Poller<'w, 'a>,
    pub(crate) entry: QueueEntry,
}

impl Attempts for Queued<'_, '_> {
    type Granted = (Lease, Share);

    async fn ask<C: Callers>(
        &mut self,
        now: Moment,
        progress: &mut Progress,
        callers: &C,
    ) -> Result<AttemptReply<Self::Granted>, StoreError> {
        let (poller, entry) = (&self.poller, &mut self.entry);
        let ask = poller.ask;
        entry.guard.lasts_until(ask.ends_at_latest(now));
        let Some(within) = callers.time_for_request(progress) else {
            return Ok(AttemptReply::NoTime);
        };
        let is_there = progress.has_met_the_store();
        let channel = poller.channel(is_there, entry.in_queue, within);
        let (enters, channel) = channel.await;
        let along = poller.is_along(channel);
        entry.registration.set_along(along);
        if enters && !entry.in_queue {
            entry.registration.enters_queue();
        }
        // Only after an answer may it have waited for the channel.
        let (t0, within) = if progress.seen.is_some() {
            let within = callers.time_for_request(progress).unwrap_or(within);
            (ask.now(), within)
        } else {
            (now, within)
        };
        let seen = progress.seen.as_ref();
        let polled = poller.poll(entry, seen, enters, channel, t0, within);
        match polled.await {
            Ok(Outcome::Granted(lease, share)) => Ok(AttemptReply::Granted((lease, share))),
            Ok(Outcome::Waiting(seen, position, reading)) => {
                entry.registration.set_position(position);
                entry.guard.set_queued();
                callers.tell(&seen, position);
                let pause = ask.next_poll(&mut entry.foreign, &seen, position, channel);
                (entry.in_queue, entry.reading) = (true, Some(reading));
                progress.answered(seen, position);
                if poller.is_wrong_channel(channel) {
                    return Ok(AttemptReply::Again);
                }
                Ok(AttemptReply::NotYet(pause))
            }
            Ok(Outcome::Busy(seen)) => {
                let gated = schedule::behind_the_gate(&seen);
                if gated.is_some() {
                    callers.tell(&seen, 0);
                }
                progress.answered(seen, progress.position);
                match gated {
                    Some(pause) => Ok(AttemptReply::NotYet(pause)),
                    None if !enters => Ok(AttemptReply::Again), // now enter the queue
                    None => Ok(AttemptReply::NotYet(schedule::after_error(0))),
                }
            }
            Err(source) => {
                entry.ambiguous |= source.maybe_applied();
                Err(source)
            }
        }
    }

    async fn woken(&mut self) -> Wake {
        let (clock, entry) = (&self.poller.ask.engine.clock, &mut self.entry);
        tokio::select! {
            biased;
            () = entry.registration.woken() => Wake::Message,
            () = entry.foreign.calls(clock) => Wake::Poll,
            () = self.poller.subscription.woken() => Wake::Poll, // a message may have been missed
        }
    }

    /// A message that leaves a doubt is only a reason to poll, and the answer of the poll decides.
    fn received(&mut self) -> Option<Self::Granted> {
        self.entry.far = None; // the poll finds out what has changed
        let (received, reading) = (self.entry.registration.received()?, self.entry.reading?);
        let ask = self.poller.ask;
        let granted = ask.taken(&reading, &received, self.poller.over);
        granted
            .inspect_err(
                |doubt| tracing::debug!(target: "leaselock", lock = %ask.name, reason = ?doubt, "a poll confirms the grant"),
            )
            .ok()
    }
}

impl Ask<'_> {
    /// How long to stay in the queue before the next poll, for a waiter that listens to `channel`. First behind a holder
    /// of another library, the waiter watches the lock's key from here on.
    fn next_poll(
        &self,
        foreign: &mut Foreign,
        seen: &Seen,
        position: u64,
        channel: &str,
    ) -> Duration {
        let store = &self.engine.store;
        let most = entry::polls_at_least_each(store.capabilities().look_every, position);
        let can_be_woken = self.can_be_woken(&self.held.token, channel);
        let pause = schedule::next_poll(seen, position, can_be_woken, most);
        let pause = schedule::spread(pause, position);
        if position > 1 || seen.holder.is_some() {
            foreign.is_over();
            return pause;
        }
        let now = self.engine.clock.now();
        foreign.polled(now, || {
            let news = store.news_of(self.lock())?;
            Some(
                self.background
                    .subscriptions
                    .subscribe(&news, may_mean_free),
            )
        });
        foreign.paced(pause, now)
    }
}

impl Queued<'_, '_> {
    /// The error of a wait that ends with an error of the store.
    pub(crate) fn failed(self, source: StoreError) -> AcquireError {
        let may_exist = self.entry.may_exist();
        failed(self.poller.ask, self.entry.guard, source, may_exist)
    }

    /// Leaves the queue, and only then says "busy": an entry that stayed could still be granted. It is not "busy" either
    /// if no answer ever said so. The lease, when an upgrade was granted meanwhile.
    pub(crate) async fn leave(
        self,
        progress: Progress,
        within: Duration,
    ) -> Result<Lease, AcquireError> {
        let Queued { poller, entry } = self;
        let ask = poller.ask;
        let (may_exist, ambiguous) = (entry.may_exist(), entry.ambiguous);
        let guard = entry.guard;
        if let (None, false, Some(source)) = (&progress.seen, may_exist, &progress.error) {
            return Err(failed(ask, guard, source.clone(), false)); // nothing of ours can be there
        }
        let cancel = Cancel { held: &ask.held };
        let left = ask.engine.ask_over(poller.store(), &cancel, within);
        Err(match left.await {
            Ok(CancelAnswer::Upgraded) => {
                return upgraded(&poller, guard, within).await;
            }
            Ok(_) => match progress.error.filter(|_| progress.seen.is_none()) {
                Some(source) => failed(ask, guard, source, ambiguous),
                None => {
                    if !ambiguous {
                        guard.end(); // otherwise a late request is still to be undone
                    }
                    ask.still_busy(progress.seen)
                }
            },
            Err(source) => failed(ask, guard, source, may_exist),
        })
    }
}

/// Asks once more for an upgrade that was granted just when the wait for it ended.
async fn upgraded(
    poller: &Poller<'_, '_>,
    guard: CleanupGuard,
    within: Duration,
) -> Result<Lease, AcquireError> {
    let ask = poller.ask;
    match poller.request(false, "", ask.now(), within).await {
        Ok(Outcome::Granted(lease, _)) => {
            if guard.settle() {
                lease.set_queued();
            }
            Ok(lease)
        }
        Ok(Outcome::Waiting(seen, ..) | Outcome::Busy(seen)) => {
            guard.settle();
            Err(ask.still_busy(Some(seen)))
        }
        Err(source) => Err(failed(ask, guard, source, true)),
    }
}

/// As [`Ask::failed`], and a queue entry that could not be taken back may be granted for a while.
fn failed(ask: &Ask<'_>, guard: CleanupGuard, source: StoreError, may_exist: bool) -> AcquireError {
    let mut error = ask.failed(guard, source, may_exist);
    if let AcquireError::Unknown { clear_in, .. } = &mut error {
        *clear_in += ENTRY_KEPT;
    }
    error
}
