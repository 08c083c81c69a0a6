//! Waiting in the queue, with an entry of its own.

use tokio::sync::Notify;

use super::entry::QueueEntry;
use super::poller::Poller;
use super::queued::Queued;
use crate::base::Moment;
use crate::base::error::AcquireError;
use crate::engine::guard::lease::Lease;
use crate::engine::values::LogEvent;
use crate::engine::ways::ask::Ask;
use crate::engine::ways::deadlock::Detector;
use crate::engine::ways::first_try::StartedWait;
use crate::engine::ways::patience::Patience;
use crate::engine::ways::run::{Attempts, Callers, WaitEnd, run};
use crate::engine::ways::solo::Solo;
use crate::engine::ways::turn_budget::Share;

/// Waits in the queue until the lock is granted or the time is over.
pub(crate) struct Queue<'w, 'a> {
    ask: &'w Ask<'a>,
    start: Moment,
    end: Option<Moment>,
    /// The clock, if it was read just before.
    now: Option<Moment>,
    /// The first try, if it was made with others.
    begun: Option<Box<StartedWait>>,
    /// How many fencing tokens a grant reserves.
    range: u64,
}

/// How a wait ended that others may take over.
pub(crate) enum QueueEnd {
    Granted(Lease, Share),
    /// The entry is theirs from now on.
    HandedOver(Box<(QueueEntry, Patience)>),
}

impl<'w, 'a> Queue<'w, 'a> {
    pub(crate) fn new(
        ask: &'w Ask<'a>,
        start: Moment,
        end: Option<Moment>,
        begun: Option<Box<StartedWait>>,
    ) -> Self {
        Queue {
            ask,
            start,
            end,
            now: begun.is_none().then_some(start), // after a first try the clock is read again
            begun,
            range: 1,
        }
    }

    /// The same with a grant for several tasks, for one that comes again: `now` is `None` unless the clock was read just
    /// before.
    pub(crate) fn for_turns(mut self, range: u64, now: Option<Moment>) -> Self {
        (self.range, self.now) = (range, now);
        self
    }

    /// Waits until the lock is granted, the time is over, or `called` says that others take the entry over.
    pub(crate) async fn wait(self, called: Option<&Notify>) -> Result<QueueEnd, AcquireError> {
        let Queue { ask, start, .. } = self;
        let clock = &ask.engine.clock;
        let now = self.now.unwrap_or_else(|| clock.now());
        let solo = Solo::in_queue(ask, start, self.end, called);
        let (mut fresh, mut patience) = (Some(now), Patience::default());
        let entry = match self.begun.map(|begun| *begun) {
            None => QueueEntry::new(ask, ask.guard_from(now)),
            Some(begun) => {
                let ambiguous = begun.is_ambiguous();
                let mut entry = QueueEntry::new(ask, begun.guard);
                entry.ambiguous = ambiguous;
                patience = begun.patience;
                if let Some(pause) = begun.pause {
                    fresh = None;
                    let until = clock.now().plus(pause).min(solo.give_up_at);
                    clock.sleep_until(until).await;
                }
                entry
            }
        };
        let poller = Poller::new(ask, None, self.range);
        let mut queued = Queued { poller, entry };
        let mut circle = None;
        let ended = {
            let waiting = run(clock, fresh, &mut patience, &solo, &mut queued);
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
        let ended = match ended {
            WaitEnd::Over if circle.is_some() => queued.received().map_or(ended, WaitEnd::Granted),
            ended => ended,
        };
        let source = match ended {
            WaitEnd::Granted((lease, share)) => {
                return Ok(QueueEnd::Granted(queued.entry.granted(lease), share));
            }
            WaitEnd::HandedOver => {
                let mut entry = queued.entry;
                entry.reading = None; // the task of the group uses another connection
                return Ok(QueueEnd::HandedOver(Box::new((entry, patience))));
            }
            WaitEnd::Over => None,
            WaitEnd::Failed(source) => Some(source),
            WaitEnd::NoTime => {
                clock.sleep_until(solo.give_up_at).await; // not sooner than was asked for
                patience.error.clone()
            }
        };
        if let Some(source) = source {
            return Err(queued.failed(source));
        }
        let within = solo.time_for_request(&patience);
        let within = within.unwrap_or_else(|| ask.within());
        let left = Box::pin(queued.leave(start, patience, within)).await;
        match (left, circle) {
            (Ok(lease), _) => Ok(QueueEnd::Granted(lease, Share::NONE)),
            (Err(_), Some(circle)) => {
                let name = ask.name.clone();
                let deadlock = AcquireError::Deadlock {
                    name,
                    circle,
                    way_out: None,
                };
                let event = || LogEvent::new("deadlock", deadlock.to_string()).of(ask.name, None);
                ask.engine.log.note(event);
                Err(deadlock)
            }
            (Err(busy), None) => Err(busy),
        }
    }

    /// The same without others that take it over.
    pub(crate) async fn run(self) -> Result<Lease, AcquireError> {
        match self.wait(None).await? {
            QueueEnd::Granted(lease, _) => Ok(lease),
            QueueEnd::HandedOver(..) => Err(AcquireError::Closed), // not without a call
        }
    }
}

/// Searches for a deadlock while an owner waits that holds something else.
fn detector(ask: &Ask<'_>) -> Option<Detector> {
    let owner = &ask.owner.as_ref()?.state;
    let digest = ask.token.digest();
    Detector::new(ask.engine, owner, &ask.resource.lock, digest, ask.within())
}
