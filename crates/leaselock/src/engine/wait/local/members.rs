//! What the task of a group tells its members: how the wait goes on, that it is over, or that a turn was missed.

use super::group::Waiter;
use super::group_task::{Driver, TURN_UNTAKEN, is_over};
use crate::base::error::{AcquireError, StoreError};
use crate::engine::grant::Seen;
use crate::engine::request::{OnWait, Waiting};
use crate::engine::wait::progress::Progress;
use crate::engine::wait::standing::NEVER_ANSWERED;

impl Driver {
    /// The one whose time is over and for whom the place was kept to the end.
    pub(super) fn last_to_give_up(&self, so_far: &Progress) -> Option<Waiter> {
        let now = self.now();
        let mut state = self.party.state();
        if is_over(&state, now, so_far.has_met_the_store()) {
            state.turns.leave(|_| true)
        } else {
            None
        }
    }

    /// Those whose time is over leave, as long as others stay for whom the place is kept.
    /// `trouble`: what the requests met, when none was ever answered.
    pub(super) fn end_of_time(&self, trouble: Option<&StoreError>) {
        loop {
            let (waiter, seen) = {
                let now = self.now();
                let mut state = self.party.state();
                let answered = trouble.is_none() || state.current.is_some();
                if !is_over(&state, now, answered) || (state.turns.len() == 1 && state.stands) {
                    return;
                }
                let ended = |waiter: &Waiter| {
                    waiter.end.is_some_and(|end| end <= now)
                        || !answered && waiter.start.plus(NEVER_ANSWERED) <= now
                };
                let Some(waiter) = state.turns.leave(ended) else {
                    return;
                };
                let seen = match (&state.current, &state.seen) {
                    (Some(_), _) => Seen::held_by(self.engine.id.as_str()),
                    (None, Some((seen, _))) => Some(seen.clone()),
                    (None, None) => None,
                };
                (waiter, seen)
            };
            let waited = self.now().saturating_since(waiter.start);
            let name = self.name.clone();
            waiter.seat.offer(Err(match trouble.cloned() {
                Some(source) => AcquireError::Store { name, source }, // what there may be is kept for others
                None => self.engine.still_busy(name, waited, seen.as_ref()),
            }));
        }
    }

    pub(super) fn everyone_fails(&self, error: &AcquireError) {
        let everyone = self.party.state().turns.leave_all();
        for waiter in everyone {
            waiter.seat.offer(Err(error.clone()));
        }
    }

    /// A task that does not come round for its turn goes to the end of the line.
    pub(super) fn skip_whoever_does_not_come(&self) {
        let now = self.now();
        let taken_back = {
            let mut state = self.party.state();
            let late = state
                .current
                .as_ref()
                .and_then(|current| current.whose.clone());
            let late = late.filter(|(_, since)| now >= since.plus(TURN_UNTAKEN));
            let offer = late
                .filter(|_| !state.turns.is_empty())
                .and_then(|(waiter, _)| {
                    let offer = waiter.seat.take_back()?;
                    Some((waiter, offer))
                });
            offer.map(|(waiter, offer)| {
                state.turns.join(waiter);
                offer
            })
        };
        drop(taken_back); // a lease that is dropped passes on
    }

    /// Those who want to be told, and how many of this process are before each.
    pub(super) fn ears(&self) -> Vec<(OnWait, u64)> {
        let state = self.party.state();
        let line = state.turns.line().zip(0_u64..);
        line.filter_map(|(waiter, behind)| Some((waiter.told.clone()?, behind)))
            .collect()
    }

    /// A poll has failed and is tried again.
    pub(super) fn tell_error(&self, so_far: &Progress, source: &StoreError) {
        for (told, behind) in self.ears() {
            let last = so_far.last().map(|(seen, place)| (seen, place + behind));
            told(&Waiting::failed(last, source));
        }
    }

    pub(super) fn tell(&self, seen: &Seen, position: u64) {
        self.party.state().seen = Some((seen.clone(), position));
        for (told, behind) in self.ears() {
            told(&Waiting::at(seen, position + behind));
        }
    }
}
