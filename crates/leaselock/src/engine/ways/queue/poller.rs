//! The requests of a waiter in the queue: each poll is the whole request, or as little of it as will do. See [`Far`].

use std::time::Duration;

use super::entry::QueueEntry;
use super::far::{Far, NEAR, SOON};
use crate::base::{Moment, StoreError};
use crate::engine::services::{ClockSample, NodeSubscription};
use crate::engine::values::Seen;
use crate::engine::values::calls_optional::{Position, PositionReply};
use crate::engine::ways::ask::Ask;
use crate::engine::ways::outcome::Outcome;
use crate::quorum::executor::Executor;

/// Over which connection a waiter in the queue polls, and where it listens.
pub(crate) struct Poller<'w, 'a> {
    pub(crate) ask: &'w Ask<'a>,
    /// The connection of the client's thread. `None`: requests go over the user's own, by themselves or with others.
    pub(super) over: Option<&'w Executor>,
    /// How many fencing tokens a grant reserves after a wait.
    range: u64,
    /// Where it listens, if that depends on the node of the lock.
    pub(super) subscription: NodeSubscription,
}

fn may_soon_be_next(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Waiting(_, position, _) if *position <= SOON)
}

impl<'w, 'a> Poller<'w, 'a> {
    pub(crate) fn new(ask: &'w Ask<'a>, over: Option<&'w Executor>, range: u64) -> Self {
        Poller {
            ask,
            over,
            range,
            subscription: NodeSubscription::default(),
        }
    }

    /// The store, over the connection of the polls.
    pub(super) fn store(&self) -> &Executor {
        self.over.unwrap_or(&self.ask.engine.store)
    }

    /// Makes a request of a waiter, or as little of it as will do.
    pub(super) async fn poll(
        &self,
        entry: &mut QueueEntry,
        seen: Option<&Seen>,
        enters: bool,
        channel: &str,
        t0: Moment,
        within: Duration,
    ) -> Result<Outcome, StoreError> {
        let far = entry.far.filter(|_| enters && !channel.is_empty());
        if let Some(far) = far {
            if let Some(outcome) = self.as_before(far, entry, seen) {
                return Ok(outcome);
            }
            if let Some(outcome) = Box::pin(self.position(channel, t0, within)).await? {
                entry.far = self.far(&outcome);
                return Ok(outcome);
            }
        }
        entry.far = None;
        let outcome = self.request(enters, channel, t0, within).await?;
        // One that enters near the head finds out with its next poll how often the file was written: asking now would
        // cost each of a few waiters who come back all the time.
        if entry.in_queue || !may_soon_be_next(&outcome) {
            entry.far = self.far(&outcome);
        }
        Ok(outcome)
    }

    pub(super) async fn request(
        &self,
        waits: bool,
        channel: &str,
        t0: Moment,
        within: Duration,
    ) -> Result<Outcome, StoreError> {
        let call = self.ask.acquire_call(waits, channel, self.range);
        self.ask.request(&call, self.over, t0, within).await
    }

    fn far(&self, outcome: &Outcome) -> Option<Far> {
        let Outcome::Waiting(_, position, reading) = outcome else {
            return None;
        };
        if *position <= NEAR {
            return None;
        }
        let traffic = self.ask.engine.store.traffic(&self.ask.resource.lock)?;
        Some(Far {
            position: *position,
            commits: traffic.commits,
            at: reading.received,
        })
    }

    /// The latest answer, while a new one would hardly say anything else.
    fn as_before(&self, far: Far, entry: &QueueEntry, seen: Option<&Seen>) -> Option<Outcome> {
        let (reading, mut seen) = (entry.reading?, seen.cloned()?);
        let now = self.ask.now();
        let traffic = self.ask.engine.store.traffic(&self.ask.resource.lock)?;
        if !far.may_rest(now, traffic) {
            return None;
        }
        let since = now.saturating_since(reading.received);
        seen.remaining = seen.remaining.map(|rest| rest.saturating_sub(since));
        Some(Outcome::Waiting(seen, far.position, reading))
    }

    async fn position(
        &self,
        channel: &str,
        t0: Moment,
        within: Duration,
    ) -> Result<Option<Outcome>, StoreError> {
        let era = self.ask.era(self.over);
        let acquire = self.ask.acquire_call(true, channel, self.range);
        let Some(position) = Position::of(&acquire) else {
            return Ok(None);
        };
        let PositionReply::Waiting { seen, position } =
            self.store().ask_one(&position, within).await?
        else {
            return Ok(None);
        };
        let received = self.ask.now();
        self.ask.engine.note_time(t0, received, seen.time_us);
        let reading = ClockSample {
            sent: t0,
            received,
            server_us: seen.time_us,
            era: era.answered_over(self.ask.era(self.over).connection),
        };
        Ok(Some(Outcome::Waiting(seen, position, reading)))
    }
}
