//! Standing in line: subscribe, get in, look when woken, leave.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Acquisition, Outcome};
use super::far;
use super::first_try::StartedWait;
use super::key_watch::{Foreign, may_mean_free};
use super::local::arrival::{Arrival, GroupMember, SoloWaiter};
use super::local::budget::{LOCAL_TURNS, Share};
use super::local::group::{Terms, Waiter};
use super::local::groups::LocalGroups;
use super::local::handoff::Handoff;
use super::notifier::Registration;
use super::progress::Progress;
use super::schedule;
use super::standing::{NEVER_ANSWERED, SHORTEST_REQUEST, Standing, owned};
use crate::base::clock::Moment;
use crate::base::error::{AcquireError, StoreError};
use crate::engine::calls::Cancel;
use crate::engine::cleanup::CleanupGuard;
use crate::engine::grant::Seen;
use crate::engine::lease::Lease;
use crate::engine::request::{Wait, Waiting};

/// How standing in line ended well.
pub(super) enum Ended {
    Granted(Lease),
    /// Others have come, and the place is theirs too.
    Joined(GroupMember),
}

/// Why a waiter goes on.
enum Nap {
    /// Others have come who are to share the place.
    Called,
    /// A message, or something that may have swallowed one.
    Woken,
    Look,
    /// The wait is over.
    Over,
}

/// A lease that is had without company goes to nobody else.
fn shared(lease: Lease, share: Share, company: Option<SoloWaiter>) -> Lease {
    match company {
        Some(alone) => alone.granted(lease, share),
        None => lease,
    }
}

async fn called(alone: Option<&SoloWaiter>) {
    match alone {
        Some(alone) => alone.called().await,
        None => std::future::pending().await,
    }
}

impl Acquisition<'_> {
    /// In line, together with those of this process who wait in the same way, or alone.
    pub(super) async fn wait_in_line(
        mut self,
        groups: &Arc<LocalGroups>,
        start: Moment,
        end: Option<Moment>,
        wait: Wait,
        mut begun: Option<Box<StartedWait>>,
    ) -> Result<Lease, AcquireError> {
        // After a first try the clock is read again.
        let mut fresh = begun.is_none().then_some(start);
        let Some(terms) = Terms::of(self.keys.kind, &self.request, wait) else {
            return match self.stand_in_line(start, end, fresh, None, begun).await? {
                Ended::Granted(lease) => Ok(lease),
                Ended::Joined(seated) => seated.wait().await?.ok_or(AcquireError::Closed),
            };
        };
        self.range = LOCAL_TURNS;
        loop {
            let (engine, key) = (self.engine, &self.keys.lock);
            let now = fresh.take();
            let waiter = || self.waiter(start, end);
            let arrival = groups.arrive(engine, self.name, key, terms, waiter);
            let seated = match arrival {
                Arrival::GroupMember(seated) => {
                    if let Some(begun) = begun.take() {
                        begun.give_up();
                    }
                    seated
                }
                Arrival::SoloWaiter(alone) => {
                    let (company, begun) = (Some(alone), begun.take());
                    match self.stand_in_line(start, end, now, company, begun).await? {
                        Ended::Granted(lease) => return Ok(lease),
                        Ended::Joined(seated) => seated,
                    }
                }
            };
            if let Some(lease) = seated.wait().await? {
                return Ok(lease);
            }
            self.renew_token()?; // the turn was over before we came round
        }
    }

    /// This task, as it is seated among others.
    fn waiter(&self, start: Moment, end: Option<Moment>) -> Waiter {
        Waiter {
            seat: Handoff::default(),
            start,
            end,
            max_hold: self.request.max_hold,
            told: self.request.on_wait.clone(),
        }
    }

    /// Gets in line and waits for a wake-up, a look or the end. `now` is for whoever has read the clock just before.
    /// The first request of a client that listens to nothing yet is a plain try; it subscribes before it gets in line,
    /// so that its grant cannot be missed. A message that leaves a doubt is only a reason to look, and the look's
    /// answer decides.
    pub(super) async fn stand_in_line(
        &mut self,
        start: Moment,
        end: Option<Moment>,
        now: Option<Moment>,
        mut company: Option<SoloWaiter>,
        begun: Option<Box<StartedWait>>,
    ) -> Result<Ended, AcquireError> {
        let clock = &self.engine.clock;
        let now = now.unwrap_or_else(|| clock.now());
        let mut fresh = Some(now);
        let (mut debt, mut so_far, pause) = match begun.map(|begun| *begun) {
            Some(begun) => (begun.debt, begun.so_far, begun.pause),
            None => (self.guard_from(now), Progress::default(), None),
        };
        let place = self.background.wakeups.place(&self.token);
        let longest = self.engine.request_timeout(self.request.ttl);
        // A bounded wait overshoots by one request, however many are made at its end.
        let last_moment = end.map(|end| end.plus(longest));
        let within = || {
            last_moment.map_or(longest, |last| {
                longest.min(last.saturating_since(self.engine.clock.now()))
            })
        };
        let patience = end.unwrap_or(start.plus(NEVER_ANSWERED));
        if let Some(pause) = pause {
            fresh = None;
            clock
                .sleep_until(clock.now().plus(pause).min(patience))
                .await;
        }
        loop {
            let now = fresh.take().unwrap_or_else(|| clock.now());
            debt.lasts_until(self.ends_at_latest(now));
            let (waits, channel) = self.channel(&so_far, within()).await;
            place.is_told_along(self.is_along(channel));
            if waits && !so_far.in_line {
                place.is_asked_for();
            }
            let time = match self.time_for_request(&so_far, within(), patience) {
                Ok(time) => time,
                Err(trouble) => {
                    self.engine.clock.sleep_until(patience).await; // not sooner than was asked for
                    return Err(self.failed(debt, trouble, so_far.owes()));
                }
            };
            // Only who has had an answer may have waited for the channel.
            let t0 = so_far.seen.as_ref().map_or(now, |_| clock.now());
            let pause = match self.poll(&mut so_far, waits, channel, t0, time).await {
                Ok(Outcome::Granted(lease, share)) => {
                    let lease = owned(lease, debt, &so_far);
                    return Ok(Ended::Granted(shared(lease, share, company)));
                }
                Ok(Outcome::Waiting(seen, position, reading)) => {
                    place.stands_at(position);
                    debt.stands_in_line();
                    self.tell(&seen, position);
                    let pause = self.next_poll(&mut so_far.foreign, &seen, position, channel);
                    so_far.stands(seen, position, reading);
                    if self.is_wrong_channel(channel) {
                        continue;
                    }
                    pause
                }
                Ok(Outcome::Busy(seen)) => {
                    let gated = schedule::behind_the_gate(&seen);
                    if gated.is_some() {
                        self.tell(&seen, 0);
                    }
                    so_far.answered(seen);
                    if let Some(pause) = gated {
                        pause
                    } else if !waits {
                        continue; // now get in line
                    } else {
                        schedule::after_error(0)
                    }
                }
                Err(source) => {
                    if !source.may_pass() {
                        return Err(self.failed(debt, source, so_far.owes()));
                    }
                    self.tell_error(so_far.last(), &source);
                    schedule::jittered(so_far.failed(&source), 50)
                }
            };
            // A store that never answered is waited for less long than a holder.
            let until = if so_far.has_met_the_store() {
                end
            } else {
                Some(patience)
            };
            let foreign = &mut so_far.foreign;
            let nap = self.nap(&place, pause, until, company.as_ref(), foreign);
            match nap.await {
                Nap::Woken => {
                    so_far.far = None; // what has changed is to be found out
                    if let Some((lease, share)) = self.granted(&place, &so_far) {
                        let lease = owned(lease, debt, &so_far);
                        return Ok(Ended::Granted(shared(lease, share, company)));
                    }
                }
                Nap::Look => {}
                Nap::Called => {
                    if let Some(alone) = company.take() {
                        so_far.reading = None; // whoever goes on uses another connection
                        let standing = Standing {
                            token: self.token.clone(),
                            debt,
                            place,
                            so_far,
                        };
                        let waiter = self.waiter(start, end);
                        return Ok(Ended::Joined(alone.joins(self.name, standing, waiter)));
                    }
                }
                Nap::Over => {
                    let within = within();
                    return Err(Box::pin(self.leave(debt, start, so_far, within)).await);
                }
            }
        }
    }

    /// How long to stay in line before looking again, for whoever listens to `channel`. First behind a holder of
    /// another library it hears of the lock from here on.
    pub(super) fn next_poll(
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
        foreign.looked(now, || {
            let news = store.news_of(&self.keys.lock)?;
            Some(self.background.bells.subscribe(&news, may_mean_free))
        });
        foreign.paced(pause, now)
    }

    /// The first request has its whole time, because it may need a connection first. While none was ever answered, the
    /// others end with the caller's patience; when that leaves no time for one, what the last one met is the answer.
    fn time_for_request(
        &self,
        so_far: &Progress,
        longest: Duration,
        patience: Moment,
    ) -> Result<Duration, StoreError> {
        let (false, Some(trouble)) = (so_far.has_met_the_store(), &so_far.trouble) else {
            return Ok(longest);
        };
        let left = patience.saturating_since(self.engine.clock.now());
        if left < SHORTEST_REQUEST {
            return Err(trouble.clone());
        }
        Ok(longest.min(left))
    }

    /// The lease, when the message that woke us brought one that needs no look.
    pub(super) fn granted(
        &self,
        place: &Registration,
        so_far: &Progress,
    ) -> Option<(Lease, Share)> {
        let (heard, reading) = (place.heard()?, so_far.reading.as_ref()?);
        match self.taken(reading, &heard) {
            Ok(granted) => Some(granted),
            Err(verify_soon) => {
                tracing::debug!(name = %self.name, ?verify_soon, "the grant is confirmed by a look");
                None
            }
        }
    }

    async fn nap(
        &self,
        place: &Registration,
        pause: Duration,
        end: Option<Moment>,
        alone: Option<&SoloWaiter>,
        foreign: &mut Foreign,
    ) -> Nap {
        let clock = &self.engine.clock;
        let look_at = clock.now().plus(pause);
        let until = end.map_or(look_at, |end| end.min(look_at));
        tokio::select! {
            biased;
            () = place.woken() => return Nap::Woken,
            () = called(alone) => return Nap::Called,
            () = foreign.calls(clock) => {} // unless the time is over
            () = self.ear.rung() => {} // something may have been missed
            () = clock.sleep_until(until) => {}
        }
        if end.is_some_and(|end| clock.now() >= end) {
            Nap::Over
        } else {
            Nap::Look
        }
    }

    pub(super) fn tell(&self, seen: &Seen, position: u64) {
        if let Some(told) = &self.request.on_wait {
            told(&Waiting::at(seen, position));
        }
    }

    /// A poll has failed and is tried again.
    pub(super) fn tell_error(&self, last: Option<(&Seen, u64)>, source: &StoreError) {
        if let Some(told) = &self.request.on_wait {
            told(&Waiting::failed(last, source));
        }
    }

    /// Out of line, and only then "busy": an entry that stayed could still be granted. Nor is it "busy" when nobody
    /// ever said so.
    pub(super) async fn leave(
        &self,
        debt: CleanupGuard,
        start: Moment,
        so_far: Progress,
        within: Duration,
    ) -> AcquireError {
        let cancel = Cancel {
            keys: &self.keys,
            token: &self.token,
            used: None,
        };
        let owes = so_far.owes();
        if let (None, false, Some(source)) = (&so_far.seen, owes, &so_far.trouble) {
            return self.failed(debt, source.clone(), false); // nothing of ours can be there
        }
        let store = self.lane.unwrap_or(&self.engine.store);
        match self.engine.ask_over(store, &cancel, within).await {
            Ok(_) => match so_far.trouble.filter(|_| so_far.seen.is_none()) {
                Some(source) => self.failed(debt, source, so_far.ambiguous),
                None => {
                    if !so_far.ambiguous {
                        debt.end(); // otherwise a late request is still to be undone
                    }
                    self.still_busy(start, so_far.seen)
                }
            },
            Err(source) => self.failed(debt, source, owes),
        }
    }
}
