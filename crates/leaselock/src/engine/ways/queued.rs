//! A queue entry, and the requests of its waiter: subscribe, enter the queue, poll, leave.

use std::time::Duration;

use super::attempt::{Acquisition, Outcome};
use super::far::{self, Far};
use super::key_watch::{Foreign, may_mean_free};
use super::patience::Patience;
use super::run::{Attempt, AttemptReply, Callers, Wake};
use super::schedule;
use super::turn_budget::Share;
use crate::base::clock::Moment;
use crate::base::error::{AcquireError, StoreError};
use crate::engine::guard::lease::Lease;
use crate::engine::services::cleanup::guard::CleanupGuard;
use crate::engine::services::wakeups::grant_deadline::ClockSample;
use crate::engine::services::wakeups::notifier::Registration;
use crate::engine::values::calls::Cancel;
use crate::engine::values::grant::{CancelAnswer, Seen};

/// A queue entry, or what may be one, with what its waiter knows of it. Another task can go on with it.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    pub(super) registration: Registration,
    pub(super) guard: CleanupGuard,
    /// True if an answer said that the entry is in the queue.
    pub(super) in_queue: bool,
    /// The clocks at the latest such answer.
    pub(super) reading: Option<ClockSample>,
    /// True if a request had no usable reply: it may have made the entry, or been granted.
    pub(super) ambiguous: bool,
    /// What to do about a holder of another library.
    pub(super) foreign: Foreign,
    /// The entry is far from the head of a queue in a folder.
    pub(super) far: Option<Far>,
}

impl QueueEntry {
    /// Registers for wake-ups. Nothing is sent.
    pub(super) fn new(acquisition: &Acquisition<'_>, guard: CleanupGuard) -> Self {
        QueueEntry {
            registration: acquisition.background.notifier.register(&acquisition.token),
            guard,
            in_queue: false,
            reading: None,
            ambiguous: false,
            foreign: Foreign::default(),
            far: None,
        }
    }

    /// True if something of this token may be on the store, whatever the latest request came to.
    pub(super) fn may_exist(&self) -> bool {
        self.in_queue || self.ambiguous
    }

    /// The entry is granted. From here on the lease has an owner, and only late requests may need a cleanup.
    pub(super) fn granted(self, mut lease: Lease) -> Lease {
        if self.ambiguous {
            lease.expect_late_requests();
        }
        if self.guard.settle() {
            lease.set_queued();
        }
        lease
    }
}

/// Asks for the lock and enters the queue if it is held. The first request of a client that is not subscribed to
/// anything is a plain try: the client subscribes before it enters the queue, so that its grant cannot be missed.
pub(super) struct Queued<'a, 'e> {
    pub(super) acquisition: &'a Acquisition<'e>,
    pub(super) entry: QueueEntry,
}

impl Attempt for Queued<'_, '_> {
    type Granted = (Lease, Share);

    async fn ask<C: Callers>(
        &mut self,
        now: Moment,
        patience: &mut Patience,
        callers: &C,
    ) -> Result<AttemptReply<Self::Granted>, StoreError> {
        let (acquisition, entry) = (self.acquisition, &mut self.entry);
        entry.guard.lasts_until(acquisition.ends_at_latest(now));
        let Some(within) = callers.time_for_request(patience) else {
            return Ok(AttemptReply::NoTime);
        };
        let is_there = patience.has_met_the_store();
        let channel = acquisition.channel(is_there, entry.in_queue, within);
        let (enters, channel) = channel.await;
        let along = acquisition.is_along(channel);
        entry.registration.set_along(along);
        if enters && !entry.in_queue {
            entry.registration.enters_queue();
        }
        // Only after an answer may it have waited for the channel.
        let (t0, within) = if patience.seen.is_some() {
            let within = callers.time_for_request(patience).unwrap_or(within);
            (acquisition.now(), within)
        } else {
            (now, within)
        };
        let seen = patience.seen.as_ref();
        let polled = acquisition.poll(entry, seen, enters, channel, t0, within);
        match polled.await {
            Ok(Outcome::Granted(lease, share)) => Ok(AttemptReply::Granted((lease, share))),
            Ok(Outcome::Waiting(seen, position, reading)) => {
                entry.registration.set_position(position);
                entry.guard.set_queued();
                callers.tell(&seen, position);
                let pause = acquisition.next_poll(&mut entry.foreign, &seen, position, channel);
                (entry.in_queue, entry.reading) = (true, Some(reading));
                patience.answered(seen, position);
                if acquisition.is_wrong_channel(channel) {
                    return Ok(AttemptReply::Again);
                }
                Ok(AttemptReply::NotYet(pause))
            }
            Ok(Outcome::Busy(seen)) => {
                let gated = schedule::behind_the_gate(&seen);
                if gated.is_some() {
                    callers.tell(&seen, 0);
                }
                patience.answered(seen, patience.position);
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
        let (clock, entry) = (&self.acquisition.engine.clock, &mut self.entry);
        tokio::select! {
            biased;
            () = entry.registration.woken() => Wake::Message,
            () = entry.foreign.calls(clock) => Wake::Poll,
            () = self.acquisition.subscription.woken() => Wake::Poll, // a message may have been missed
        }
    }

    /// A message that leaves a doubt is only a reason to poll, and the answer of the poll decides.
    fn received(&mut self) -> Option<Self::Granted> {
        self.entry.far = None; // the poll finds out what has changed
        let (received, reading) = (self.entry.registration.received()?, self.entry.reading?);
        let name = &self.acquisition.name;
        let granted = self.acquisition.taken(&reading, &received);
        granted
            .inspect_err(|doubt| tracing::debug!(lock = %name, ?doubt, "a poll confirms the grant"))
            .ok()
    }
}

impl Acquisition<'_> {
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
        let most = far::polls_at_least_each(store.capabilities().look_every, position);
        let can_be_woken = self.can_be_woken(&self.token, channel);
        let pause = schedule::next_poll(seen, position, can_be_woken, most);
        let pause = schedule::spread(pause, position);
        if position > 1 || seen.holder.is_some() {
            foreign.is_over();
            return pause;
        }
        let now = self.engine.clock.now();
        foreign.polled(now, || {
            let news = store.news_of(&self.resource.lock)?;
            Some(
                self.background
                    .subscriptions
                    .subscribe(&news, may_mean_free),
            )
        });
        foreign.paced(pause, now)
    }

    /// Leaves the queue, and only then says "busy": an entry that stayed could still be granted. It is not "busy" either
    /// if no answer ever said so. The lease, when an upgrade was granted meanwhile.
    pub(super) async fn leave(
        &self,
        entry: QueueEntry,
        start: Moment,
        patience: Patience,
        within: Duration,
    ) -> Result<Lease, AcquireError> {
        let (may_exist, ambiguous) = (entry.may_exist(), entry.ambiguous);
        let guard = entry.guard;
        if let (None, false, Some(source)) = (&patience.seen, may_exist, &patience.error) {
            return Err(self.failed(guard, source.clone(), false)); // nothing of ours can be there
        }
        let cancel = Cancel {
            resource: &self.resource,
            token: &self.token,
        };
        let store = self.connection.unwrap_or(&self.engine.store);
        Err(match self.engine.ask_over(store, &cancel, within).await {
            Ok(CancelAnswer::Upgraded) => return self.upgraded(guard, start, within).await,
            Ok(_) => match patience.error.filter(|_| patience.seen.is_none()) {
                Some(source) => self.failed(guard, source, ambiguous),
                None => {
                    if !ambiguous {
                        guard.end(); // otherwise a late request is still to be undone
                    }
                    self.still_busy(start, patience.seen)
                }
            },
            Err(source) => self.failed(guard, source, may_exist),
        })
    }

    /// Asks once more for an upgrade that was granted just when the wait for it ended.
    async fn upgraded(
        &self,
        guard: CleanupGuard,
        start: Moment,
        within: Duration,
    ) -> Result<Lease, AcquireError> {
        match self.request(false, "", self.now(), within).await {
            Ok(Outcome::Granted(lease, _)) => {
                if guard.settle() {
                    lease.set_queued();
                }
                Ok(lease)
            }
            Ok(Outcome::Waiting(seen, ..) | Outcome::Busy(seen)) => {
                guard.settle();
                Err(self.still_busy(start, Some(seen)))
            }
            Err(source) => Err(self.failed(guard, source, true)),
        }
    }
}
