//! Stands in line for all tasks of a party, on the client's own thread.

use std::sync::Arc;
use std::time::Duration;

use super::budget::{LOCAL_TURNS, Wanted};
use super::group::{LocalGroup, State};
use crate::base::clock::Moment;
use crate::base::error::StoreError;
use crate::base::name::Name;
use crate::engine::core::Engine;
use crate::engine::grant::Seen;
use crate::engine::request::AcquireRequest;
use crate::engine::resource::Resource;
use crate::engine::wait::attempt::{Acquisition, Outcome};
use crate::engine::wait::node_subscription::NodeSubscription;
use crate::engine::wait::progress::Progress;
use crate::engine::wait::schedule;
use crate::engine::wait::standing::{NEVER_ANSWERED, SHORTEST_REQUEST, Standing, owned};

/// Whoever stands by itself gives its place up at once when it comes round; if it does not, there are two places.
const CALL_WITHIN: Duration = Duration::from_millis(50);
/// A task that has not come round for its turn by then is skipped, so that it holds up nobody.
pub(super) const TURN_UNTAKEN: Duration = Duration::from_secs(1);

/// Runs until the party is empty.
pub(crate) fn start(engine: &Arc<Engine>, party: &Arc<LocalGroup>, name: &Name) {
    let Ok(background) = engine.background() else {
        return; // whoever acquires has started it
    };
    let driver = Driver {
        engine: Arc::clone(engine),
        party: Arc::clone(party),
        name: name.clone(),
        request: AcquireRequest {
            ttl: party.terms.ttl,
            priority: party.terms.priority,
            renews: true,
            fences: party.terms.fencing,
            max_hold: None,
            why: None,
            on_wait: None,
            copies: None,
            custom: None,
        },
    };
    drop(background.handle.spawn(driver.run()));
}

/// The next place is to be taken, and nobody has begun to.
pub(crate) fn is_wanted(state: &State, now: Moment) -> bool {
    !state.stands && state.turns.place_wanted(now) == Wanted::Now
}

/// What the requests met, when none was ever answered.
fn never_answered(so_far: &Progress) -> Option<&StoreError> {
    let trouble = so_far.trouble.as_ref();
    trouble.filter(|_| !so_far.has_met_the_store())
}

/// Somebody's time is over.
pub(super) fn is_over(state: &State, now: Moment, answered: bool) -> bool {
    let end = state.next_end(answered, NEVER_ANSWERED);
    end.is_some_and(|end| end <= now)
}

pub(super) struct Driver {
    pub(super) engine: Arc<Engine>,
    pub(super) party: Arc<LocalGroup>,
    pub(super) name: Name,
    request: AcquireRequest,
}

/// Why standing in line is interrupted.
enum Nap {
    Woken,
    Look,
    /// Somebody has come or gone, or a time is over.
    Changed,
}

impl Driver {
    async fn run(self) {
        while self.wait_until_wanted().await {
            let left = self.party.state().left.take();
            let lock = Arc::clone(&self.party.key);
            let keys = Resource::at(self.party.terms.kind, lock, self.engine.gate());
            let request = self.request.clone();
            let acquisition = Acquisition::new(&self.engine, &self.name, keys, request);
            match acquisition {
                Ok(acquisition) => self.stand(acquisition, left).await,
                Err(error) => self.everyone_fails(&error),
            }
            self.party.state().stands = false;
        }
        self.party.tidy();
    }

    pub(super) fn now(&self) -> Moment {
        self.engine.clock.now()
    }

    /// False when nobody is left. True: a place is wanted.
    async fn wait_until_wanted(&self) -> bool {
        let call_until = self.now().plus(CALL_WITHIN);
        loop {
            let changed = self.party.changed.notified();
            let again_at = {
                let now = self.now();
                let mut state = self.party.state();
                if state.alone && now < call_until {
                    self.party.called.notify_one();
                    call_until
                } else if state.turns.is_empty() {
                    state.driven = false;
                    state.round_at = None;
                    let left = state.left.take();
                    drop(state);
                    drop(left); // goes out of line in the background
                    return false;
                } else if state.left.is_some() {
                    state.stands = true;
                    return true;
                } else {
                    match state.turns.place_wanted(now) {
                        Wanted::Now => {
                            state.stands = true;
                            return true;
                        }
                        Wanted::At(at) => at,
                        Wanted::Never => now.plus(TURN_UNTAKEN),
                    }
                }
            };
            let until = self.round(again_at, true);
            tokio::select! {
                () = changed => {}
                () = self.engine.clock.sleep_until(until) => {}
            }
            self.end_of_time(None);
            self.skip_whoever_does_not_come();
        }
    }

    /// Stands in line with one token, until it is granted or nobody wants it any more.
    async fn stand(&self, mut acquisition: Acquisition<'_>, left: Option<Standing>) {
        let background = acquisition.background;
        acquisition.lane = Some(&background.store);
        acquisition.range = LOCAL_TURNS;
        acquisition.lines_up = true;
        let Standing {
            token,
            mut debt,
            place,
            mut so_far,
        } = left.unwrap_or_else(|| Standing {
            token: acquisition.token.clone(),
            debt: acquisition.guard_from(self.now()),
            place: background.wakeups.place(&acquisition.token),
            so_far: Progress::after(self.latest_answer()),
        });
        acquisition.token = token;
        loop {
            debt.lasts_until(acquisition.ends_at_latest(self.now()));
            let within = self.time_for_request(&acquisition, &so_far);
            let (waits, channel) = acquisition.channel(&so_far, within).await;
            place.is_told_along(false);
            if waits && !so_far.in_line {
                place.is_asked_for();
            }
            let now = self.now();
            let pause = match acquisition
                .poll(&mut so_far, waits, channel, now, within)
                .await
            {
                Ok(Outcome::Granted(lease, share)) => {
                    let lease = owned(lease, debt, &so_far);
                    drop(self.party.granted(&self.engine, lease, share));
                    return;
                }
                Ok(Outcome::Waiting(seen, position, reading)) => {
                    place.stands_at(position);
                    debt.stands_in_line();
                    self.tell(&seen, position);
                    let foreign = &mut so_far.foreign;
                    let pause = acquisition.next_poll(foreign, &seen, position, channel);
                    so_far.stands(seen, position, reading);
                    if acquisition.node_changed() {
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
                Err(source) if !source.may_pass() => {
                    let error = acquisition.failed(debt, source, so_far.owes());
                    self.everyone_fails(&error);
                    return;
                }
                Err(source) => {
                    self.tell_error(&so_far, &source);
                    schedule::jittered(so_far.failed(&source), 50)
                }
            };
            let look_at = self.now().plus(pause);
            loop {
                let nap = self.nap(&place, &acquisition.ear, look_at, &mut so_far);
                match nap.await {
                    Nap::Look => break,
                    Nap::Woken => match acquisition.granted(&place, &so_far) {
                        Some((lease, share)) => {
                            let lease = owned(lease, debt, &so_far);
                            drop(self.party.granted(&self.engine, lease, share));
                            return;
                        }
                        None => {
                            so_far.far = None; // what has changed is to be found out
                            break;
                        }
                    },
                    Nap::Changed => {}
                }
                if !self.is_wanted(look_at, &so_far) {
                    let within = self.time_for_request(&acquisition, &so_far);
                    let last = self.last_to_give_up(&so_far);
                    let start = last.as_ref().map_or(self.now(), |waiter| waiter.start);
                    let error = acquisition.leave(debt, start, so_far, within).await;
                    if let Some(waiter) = last {
                        waiter.seat.offer(Err(error));
                    }
                    return;
                }
            }
        }
    }

    /// What an earlier place was told: a store that has answered once is not given up like one that never did.
    fn latest_answer(&self) -> Option<Seen> {
        let state = self.party.state();
        state.seen.as_ref().map(|(seen, _)| seen.clone())
    }

    /// Whether anybody still waits. Those whose time is over go, except for the last: out of line first, and only then
    /// "busy". While a lease passes from task to task the place is kept until the next look, because they come back.
    fn is_wanted(&self, look_at: Moment, so_far: &Progress) -> bool {
        self.end_of_time(never_answered(so_far));
        self.skip_whoever_does_not_come();
        let now = self.now();
        let state = self.party.state();
        if state.turns.is_empty() {
            return state.current.is_some() && now < look_at;
        }
        let only = state.turns.len() == 1;
        !(only && is_over(&state, now, so_far.has_met_the_store()))
    }

    /// A bounded wait overshoots by one request, however many are made at its end; while none was ever answered, those
    /// after the first end with the patience of whoever waits longest.
    fn time_for_request(&self, acquisition: &Acquisition<'_>, so_far: &Progress) -> Duration {
        let longest = self.engine.request_timeout(acquisition.request.ttl);
        let state = self.party.state();
        let now = self.now();
        let never = never_answered(so_far).is_some();
        let forever = state.turns.line().any(|waiter| waiter.end.is_none());
        match state.latest_end(NEVER_ANSWERED) {
            Some(end) if never => longest.min(end.saturating_since(now).max(SHORTEST_REQUEST)),
            Some(end) if !forever => longest.min(end.plus(longest).saturating_since(now)),
            _ => longest,
        }
    }

    /// When to come round again, which whoever joins may read.
    fn round(&self, at: Moment, answered: bool) -> Moment {
        let now = self.now();
        let mut state = self.party.state();
        let end = state.next_end(answered, NEVER_ANSWERED);
        let check = state.current.as_ref().map(|_| now.plus(TURN_UNTAKEN));
        let until = [end, check].into_iter().flatten().fold(at, Moment::min);
        state.round_at = Some(until);
        until
    }

    async fn nap(
        &self,
        place: &crate::engine::wait::notifier::Registration,
        ear: &NodeSubscription,
        look_at: Moment,
        so_far: &mut Progress,
    ) -> Nap {
        let until = self.round(look_at, so_far.has_met_the_store());
        tokio::select! {
            biased;
            () = place.woken() => Nap::Woken,
            () = self.party.changed.notified() => Nap::Changed,
            () = so_far.foreign.calls(&self.engine.clock) => Nap::Look,
            () = ear.rung() => Nap::Look,
            () = self.engine.clock.sleep_until(until) => {
                if self.now() < look_at { Nap::Changed } else { Nap::Look }
            }
        }
    }
}
