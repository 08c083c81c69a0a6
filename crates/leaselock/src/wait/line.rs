//! Standing in line: subscribe, get in, look when woken, leave.

use std::time::Duration;

use crate::clock::Moment;
use crate::error::{AcquireError, StoreError};
use crate::lease::Lease;
use crate::lease::reaper::Debt;
use crate::mutex::steps::{Cancel, Seen};
use crate::options::Waiting;
use crate::wait::acquisition::{Acquisition, Outcome};
use crate::wait::looks;
use crate::wait::reckoning::Reading;
use crate::wait::wakeups::Place;

/// An acquisition that never had an answer is given up after this, even if the caller would wait for ever: waiting for
/// a holder is one thing, waiting for a server that was never there another.
const NEVER_ANSWERED: Duration = Duration::from_secs(2);
/// With less time a request would only hide the true trouble behind one of time.
const SHORTEST_REQUEST: Duration = Duration::from_millis(100);

/// What a wait has come to so far.
#[derive(Default)]
struct SoFar {
    /// The latest answer.
    seen: Option<Seen>,
    /// When it was given, if it said that we stand in line.
    reading: Option<Reading>,
    in_line: bool,
    /// Failures since the latest answer.
    failures: u32,
    /// A request had no usable answer: it may have put us in line, or granted.
    ambiguous: bool,
    /// What the latest request failed with.
    trouble: Option<StoreError>,
}

impl SoFar {
    fn answered(&mut self, seen: Seen) {
        self.seen = Some(seen);
        self.failures = 0;
        self.trouble = None;
    }

    /// How long to pause before the next try.
    fn failed(&mut self, source: &StoreError) -> Duration {
        self.ambiguous |= source.maybe_applied();
        self.trouble = Some(source.clone());
        self.failures += 1;
        looks::after_error(self.failures)
    }

    /// Something of ours may be on the server, whatever the latest request came to.
    fn owes(&self) -> bool {
        self.in_line || self.ambiguous
    }
}

/// Why a waiter goes on.
enum Nap {
    /// A message, or something that may have swallowed one.
    Woken,
    Look,
    /// The wait is over.
    Over,
}

/// From here on the lease has an owner, and nothing is owed but what late requests may do.
fn owned(mut lease: Lease, debt: Debt, so_far: &SoFar) -> Lease {
    if so_far.ambiguous {
        lease.expect_late_requests();
    }
    debt.settle();
    lease
}

impl Acquisition<'_> {
    /// Gets in line and waits for a wake-up, a look or the end. The first request of a client that listens to nothing
    /// yet is a plain try; it subscribes before it gets in line, so that its grant cannot be missed. A message that
    /// leaves a doubt is only a reason to look, and the look's answer decides.
    pub(super) async fn stand_in_line(
        self,
        start: Moment,
        end: Option<Moment>,
    ) -> Result<Lease, AcquireError> {
        let mut debt = self.debt();
        let place = self.background.wakeups.place(&self.token);
        let mut so_far = SoFar::default();
        let longest = self.inner.request_timeout(self.ttl);
        // A bounded wait overshoots by one request, however many are made at its end.
        let last_moment = end.map(|end| end.plus(longest));
        let within = || {
            last_moment.map_or(longest, |last| {
                longest.min(last.saturating_since(self.inner.clock.now()))
            })
        };
        let patience = end.unwrap_or(start.plus(NEVER_ANSWERED));
        loop {
            debt.lasts_until(self.ends_at_latest());
            let (waits, channel) = self.channel(&so_far, within()).await;
            if waits && !so_far.in_line {
                place.is_asked_for();
            }
            let time = match self.time_for_request(&so_far, within(), patience) {
                Ok(time) => time,
                Err(trouble) => {
                    self.inner.clock.sleep_until(patience).await; // not sooner than was asked for
                    return Err(self.failed(debt, trouble, so_far.owes()));
                }
            };
            let pause = match self.request(waits, &channel, time).await {
                Ok(Outcome::Granted(lease)) => return Ok(owned(lease, debt, &so_far)),
                Ok(Outcome::Waiting(seen, position, reading)) => {
                    place.stands_at(position);
                    self.tell(&seen, position);
                    let most = self.inner.store.capabilities().look_every;
                    let pause = looks::next_look(&seen, position, !channel.is_empty(), most);
                    so_far.answered(seen);
                    so_far.in_line = true;
                    so_far.reading = Some(reading);
                    looks::spread(pause, position)
                }
                Ok(Outcome::Busy(seen)) => {
                    so_far.answered(seen);
                    if !waits {
                        continue; // now get in line
                    }
                    looks::after_error(0)
                }
                Err(source) => {
                    if !source.may_pass() {
                        return Err(self.failed(debt, source, so_far.owes()));
                    }
                    looks::jittered(so_far.failed(&source), 50)
                }
            };
            // A store that never answered is waited for less long than a holder.
            let until = if so_far.seen.is_none() {
                Some(patience)
            } else {
                end
            };
            match self.nap(&place, pause, until).await {
                Nap::Woken => {
                    if let Some(lease) = self.granted(&place, &so_far) {
                        return Ok(owned(lease, debt, &so_far));
                    }
                }
                Nap::Look => {}
                Nap::Over => {
                    let within = within();
                    return Err(self.leave(debt, start, so_far, within).await);
                }
            }
        }
    }

    /// The first request has its whole time, because it may need a connection first. While none was ever answered, the
    /// others end with the caller's patience; when that leaves no time for one, what the last one met is the answer.
    fn time_for_request(
        &self,
        so_far: &SoFar,
        longest: Duration,
        patience: Moment,
    ) -> Result<Duration, StoreError> {
        let (None, Some(trouble)) = (&so_far.seen, &so_far.trouble) else {
            return Ok(longest);
        };
        let left = patience.saturating_since(self.inner.clock.now());
        if left < SHORTEST_REQUEST {
            return Err(trouble.clone());
        }
        Ok(longest.min(left))
    }

    /// Whether to get in line with the next request, and where this client listens: nowhere (an empty channel) while
    /// it cannot, and then there are only looks.
    async fn channel(&self, so_far: &SoFar, within: Duration) -> (bool, String) {
        let wakeups = &self.background.wakeups;
        if !self.inner.store.capabilities().wakes {
            return (true, String::new());
        }
        let alive = so_far.seen.is_some();
        let listens =
            wakeups.is_listening() || (alive && !so_far.in_line && wakeups.ready(within).await);
        let channel = if listens {
            self.inner.channel.clone()
        } else {
            String::new()
        };
        (listens || alive, channel)
    }

    /// The lease, when the message that woke us brought one that needs no look.
    fn granted(&self, place: &Place, so_far: &SoFar) -> Option<Lease> {
        let (heard, reading) = (place.heard()?, so_far.reading.as_ref()?);
        match self.taken(reading, &heard) {
            Ok(lease) => Some(lease),
            Err(doubt) => {
                tracing::debug!(name = %self.name, ?doubt, "the grant is confirmed by a look");
                None
            }
        }
    }

    async fn nap(&self, place: &Place, pause: Duration, end: Option<Moment>) -> Nap {
        let clock = &self.inner.clock;
        let look_at = clock.now().plus(pause);
        let until = end.map_or(look_at, |end| end.min(look_at));
        tokio::select! {
            biased;
            () = place.woken() => return Nap::Woken,
            () = clock.sleep_until(until) => {}
        }
        if end.is_some_and(|end| clock.now() >= end) {
            Nap::Over
        } else {
            Nap::Look
        }
    }

    fn tell(&self, seen: &Seen, position: u64) {
        if let Some(told) = &self.options.on_wait {
            told(&Waiting {
                place: usize::try_from(position).unwrap_or(usize::MAX),
                holder_client: seen.holder.clone(),
                remaining: seen.remaining,
            });
        }
    }

    /// Out of line, and only then "busy": an entry that stayed could still be granted. Nor is it "busy" when nobody
    /// ever said so.
    async fn leave(
        self,
        debt: Debt,
        start: Moment,
        so_far: SoFar,
        within: Duration,
    ) -> AcquireError {
        let cancel = Cancel {
            keys: &self.keys,
            token: &self.token,
        };
        let owes = so_far.owes();
        if let (None, false, Some(source)) = (&so_far.seen, owes, &so_far.trouble) {
            return self.failed(debt, source.clone(), false); // nothing of ours can be there
        }
        match self.inner.ask(&cancel, within).await {
            Ok(_) => match so_far.trouble.filter(|_| so_far.seen.is_none()) {
                Some(source) => self.failed(debt, source, so_far.ambiguous),
                None => {
                    if !so_far.ambiguous {
                        debt.settle(); // otherwise a late request is still to be undone
                    }
                    self.still_busy(start, so_far.seen)
                }
            },
            Err(source) => self.failed(debt, source, owes),
        }
    }
}
