//! One poll of a waiter in the queue: the whole request, or as little of it as will do. See [`Far`].

use std::time::Duration;

use super::attempt::{Acquisition, Outcome};
use super::far::{Far, NEAR, NEAR_IN_LARGE, near};
use super::queued::QueueEntry;
use crate::base::clock::Moment;
use crate::base::error::StoreError;
use crate::engine::services::wakeups::grant_deadline::ClockSample;
use crate::engine::values::grant::Seen;
use crate::engine::values::position::{Position, PositionReply};

fn is_near_in_most(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Waiting(_, position, _) if *position <= NEAR)
}

impl Acquisition<'_> {
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
        // One that enters near the head is near in all but the largest files, and its next poll finds that out: asking
        // now would cost each of a few waiters who come back all the time.
        if entry.in_queue || !is_near_in_most(&outcome) {
            entry.far = self.far(&outcome);
        }
        Ok(outcome)
    }

    fn far(&self, outcome: &Outcome) -> Option<Far> {
        let Outcome::Waiting(_, position, reading) = outcome else {
            return None;
        };
        if *position <= NEAR_IN_LARGE {
            return None;
        }
        let traffic = self.engine.store.traffic(&self.resource.lock)?;
        if *position <= near(traffic) {
            return None;
        }
        Some(Far {
            position: *position,
            commits: traffic.commits,
            at: reading.received,
        })
    }

    /// The latest answer, while a new one would hardly say anything else.
    fn as_before(&self, far: Far, entry: &QueueEntry, seen: Option<&Seen>) -> Option<Outcome> {
        let (reading, mut seen) = (entry.reading?, seen.cloned()?);
        let now = self.engine.clock.now();
        let traffic = self.engine.store.traffic(&self.resource.lock)?;
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
        let era = self.era();
        let store = self.connection.unwrap_or(&self.engine.store);
        let acquire = self.asks(true, channel);
        let Some(position) = Position::of(&acquire) else {
            return Ok(None);
        };
        let PositionReply::Waiting { seen, position } = store.ask_one(&position, within).await?
        else {
            return Ok(None);
        };
        let received = self.engine.clock.now();
        self.engine.note_time(t0, received, seen.time_us);
        let reading = ClockSample {
            sent: t0,
            received,
            server_us: seen.time_us,
            era: era.answered_over(self.era().connection),
        };
        Ok(Some(Outcome::Waiting(seen, position, reading)))
    }
}
