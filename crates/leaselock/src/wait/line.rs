//! Acquiring: at once, by retries, or in line.

use std::sync::Arc;
use std::time::Duration;

use crate::client::{Background, Inner};
use crate::clock::Moment;
use crate::error::{AcquireError, ErrorKind, StoreError};
use crate::fence::Fence;
use crate::keys::MutexKeys;
use crate::lease::Lease;
use crate::lease::core::Core;
use crate::lease::kept::Kept;
use crate::lease::reaper::{Debt, Owed};
use crate::mutex::steps::{Acquire, Acquired, Cancel, Seen};
use crate::name::Name;
use crate::options::{Options, Wait, Waiting};
use crate::token::Token;
use crate::ttl::Ttl;
use crate::wait::looks;
use crate::wait::wakeups::Place;

/// An acquisition that never had an answer is given up after this, even if the caller would wait for ever: waiting for
/// a holder is one thing, waiting for a server that was never there another.
const NEVER_ANSWERED: Duration = Duration::from_secs(2);
/// A lease that is handed over lasts this long at most until its waiter confirms it, so that a waiter that is frozen
/// costs the others seconds and not a long ttl.
const PASSED_MS: u64 = 5_000;

/// One acquisition of one name.
pub(crate) struct Acquisition<'a> {
    inner: &'a Arc<Inner>,
    background: &'a Background,
    name: &'a Name,
    keys: MutexKeys,
    options: &'a Options,
    ttl: Ttl,
    token: Token,
}

/// What one request came to.
enum Outcome {
    Granted(Lease),
    Waiting(Seen, u64),
    Busy(Seen),
}

impl<'a> Acquisition<'a> {
    pub(crate) fn new(
        inner: &'a Arc<Inner>,
        name: &'a Name,
        options: &'a Options,
    ) -> Result<Self, AcquireError> {
        let ttl = options.check()?;
        let keys = MutexKeys::new(&inner.prefix, name)?;
        let internal = |source| AcquireError::Store {
            name: name.clone(),
            source,
        };
        let background = inner.background().map_err(internal)?;
        let token = Token::random(&inner.id, options.fencing).map_err(|error| {
            internal(StoreError::refused(
                ErrorKind::Internal,
                format!("no random numbers: {error}"),
            ))
        })?;
        Ok(Acquisition {
            inner,
            background,
            name,
            keys,
            options,
            ttl,
            token,
        })
    }

    /// Follows the wait policy. `Ok(None)`: others held it to the end; with whom, in the second part.
    pub(crate) async fn run(self, wait: Wait) -> Result<Lease, AcquireError> {
        let start = self.inner.clock.now();
        match wait {
            Wait::No => self.retry(start, Some(0), Duration::ZERO, 0).await,
            Wait::Retries {
                count,
                delay,
                jitter_percent,
            } => self.retry(start, count, delay, jitter_percent).await,
            Wait::Within(limit) => self.stand_in_line(start, Some(start.plus(limit))).await,
            Wait::Forever => self.stand_in_line(start, None).await,
        }
    }

    /// Tries without a place in line. Each try has a token of its own.
    async fn retry(
        mut self,
        start: Moment,
        count: Option<u32>,
        delay: Duration,
        jitter_percent: u8,
    ) -> Result<Lease, AcquireError> {
        let mut left = count;
        loop {
            let debt = self.debt();
            let outcome = self.request(false, "").await;
            let error = match outcome {
                Ok(Outcome::Granted(lease)) => {
                    debt.settle();
                    return Ok(lease);
                }
                Ok(Outcome::Busy(seen) | Outcome::Waiting(seen, _)) => {
                    debt.settle();
                    self.still_busy(start, Some(seen))
                }
                Err(source) => self.failed(debt, source),
            };
            if left == Some(0) || !may_pass(&error) {
                return Err(error);
            }
            left = left.map(|left| left - 1);
            self.inner
                .clock
                .sleep(looks::jittered(delay, jitter_percent))
                .await;
            self.renew_token()?;
        }
    }

    fn renew_token(&mut self) -> Result<(), AcquireError> {
        self.token = Token::random(&self.inner.id, self.options.fencing).map_err(|error| {
            AcquireError::Store {
                name: self.name.clone(),
                source: StoreError::refused(
                    ErrorKind::Internal,
                    format!("no random numbers: {error}"),
                ),
            }
        })?;
        Ok(())
    }

    /// Gets in line and waits for a wake-up, a look or the end. Subscribes before getting in line, so that the first
    /// grant cannot be missed; a message is only a reason to look, and the look's answer decides.
    async fn stand_in_line(
        self,
        start: Moment,
        end: Option<Moment>,
    ) -> Result<Lease, AcquireError> {
        let mut debt = self.debt();
        let place = self.background.wakeups.place(&self.token);
        let mut answered: Option<Seen> = None;
        let mut failures = 0;
        loop {
            debt.lasts_until(self.ends_at_latest());
            let channel = self.channel(answered.is_some()).await;
            let pause = match self.request(true, &channel).await {
                Ok(Outcome::Granted(lease)) => {
                    debt.settle();
                    return Ok(lease);
                }
                Ok(Outcome::Waiting(seen, position)) => {
                    failures = 0;
                    self.tell(&seen, position);
                    let most = self.inner.store.capabilities().look_every;
                    let pause = looks::next_look(&seen, position, !channel.is_empty(), most);
                    answered = Some(seen);
                    pause
                }
                Ok(Outcome::Busy(seen)) => {
                    answered = Some(seen); // a script of another version; look again soon
                    looks::after_error(failures)
                }
                Err(source) => {
                    failures += 1;
                    let patient_until = start.plus(NEVER_ANSWERED);
                    let never_answered = answered.is_none() && end.is_none();
                    if !source.may_pass()
                        || (never_answered && self.inner.clock.now() >= patient_until)
                    {
                        return Err(self.failed(debt, source));
                    }
                    if answered.is_none() && end.is_some_and(|end| self.inner.clock.now() >= end) {
                        return Err(self.failed(debt, source));
                    }
                    looks::jittered(looks::after_error(failures), 50)
                }
            };
            if !self.nap(&place, pause, end).await {
                return Err(self.leave(debt, start, answered).await);
            }
        }
    }

    /// Where this client listens; empty while it cannot, and then there are only looks.
    async fn channel(&self, in_line: bool) -> String {
        let wakeups = &self.background.wakeups;
        let can = self.inner.store.capabilities().wakes;
        let listens = can
            && if in_line {
                wakeups.is_listening()
            } else {
                self.wait_for_wakeups().await
            };
        if listens {
            self.inner.channel.clone()
        } else {
            String::new()
        }
    }

    async fn wait_for_wakeups(&self) -> bool {
        let wakeups = &self.background.wakeups;
        wakeups.is_listening() || wakeups.ready(self.inner.request_timeout(self.ttl)).await
    }

    /// False when the wait is over.
    async fn nap(&self, place: &Place, pause: Duration, end: Option<Moment>) -> bool {
        let clock = &self.inner.clock;
        let look_at = clock
            .now()
            .plus(looks::jittered(pause, 2))
            .max(clock.now().plus(pause));
        let until = end.map_or(look_at, |end| end.min(look_at));
        tokio::select! {
            () = place.woken() => return true,
            () = clock.sleep_until(until) => {}
        }
        end.is_none_or(|end| clock.now() < end)
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

    /// Out of line, and only then "busy": an entry that stayed could still be granted.
    async fn leave(self, debt: Debt, start: Moment, answered: Option<Seen>) -> AcquireError {
        let cancel = Cancel {
            keys: &self.keys,
            token: &self.token,
        };
        match self
            .inner
            .ask(&cancel, self.inner.request_timeout(self.ttl))
            .await
        {
            Ok(_) => {
                debt.settle();
                self.still_busy(start, answered)
            }
            Err(source) => AcquireError::Unknown {
                name: self.name.clone(),
                clear_in: self.ttl.as_duration(),
                source,
            },
        }
    }

    /// One request. The caller owes the token until it knows better.
    async fn request(&self, waits: bool, channel: &str) -> Result<Outcome, StoreError> {
        let passed = if self.options.renewal {
            self.ttl.min(Ttl::whole_ms(PASSED_MS).unwrap_or(self.ttl))
        } else {
            self.ttl
        };
        let acquire = Acquire {
            keys: &self.keys,
            token: &self.token,
            ttl: self.ttl,
            passed,
            waits,
            priority: self.options.priority,
            channel,
            fencing: self.options.fencing,
        };
        self.inner.announce();
        let t0 = self.inner.clock.now();
        let answer = self
            .inner
            .ask(&acquire, self.inner.request_timeout(self.ttl))
            .await?;
        let now = self.inner.clock.now();
        let (Acquired::Granted { time_us, .. }
        | Acquired::Waiting {
            seen: Seen { time_us, .. },
            ..
        }
        | Acquired::Busy {
            seen: Seen { time_us, .. },
        }) = &answer;
        self.inner.note_time(t0, now, *time_us);
        match answer {
            Acquired::Granted { fence, .. } => self.granted(t0, now, fence),
            Acquired::Waiting { seen, place } => Ok(Outcome::Waiting(seen, place)),
            Acquired::Busy { seen } => Ok(Outcome::Busy(seen)),
        }
    }

    /// An answer that arrives after the deadline is no grant: the lease may be another's by now.
    fn granted(
        &self,
        t0: Moment,
        now: Moment,
        fence: Option<Fence>,
    ) -> Result<Outcome, StoreError> {
        let drift = self.inner.drift;
        if now >= drift.deadline(t0, self.ttl) {
            return Err(StoreError::unknown(
                ErrorKind::TimedOut,
                "the grant arrived after its own deadline",
            ));
        }
        if let Some(longest) = self.options.max_hold {
            self.inner.store.limit_session(t0.plus(longest));
        }
        let core = Core::granted(
            t0,
            now,
            self.ttl,
            drift,
            self.options.renewal,
            self.options.max_hold,
        );
        let kept = Arc::new(Kept::new(
            self.name.clone(),
            self.keys.clone(),
            self.token.clone(),
            fence,
            self.options.why.clone(),
            self.inner.clock.clone(),
            core,
        ));
        let id = self.background.keeper.keep(Arc::clone(&kept));
        let lease = Lease::new(Arc::clone(self.inner), kept, id);
        self.inner.leave_note(
            &self.keys,
            &self.token,
            self.options.why.as_deref(),
            self.ttl,
        );
        Ok(Outcome::Granted(lease))
    }

    fn debt(&self) -> Debt {
        let (keys, token) = (self.keys.clone(), self.token.clone());
        let owed = Owed::acquisition(keys, token, self.ends_at_latest());
        Debt::new(self.background.reaper.clone(), owed)
    }

    /// When a grant of a request that leaves now has ended by itself.
    fn ends_at_latest(&self) -> Moment {
        self.inner.clock.now().plus(self.ttl.as_duration())
    }

    /// What is surely not there is not owed; the rest is cleaned up behind the caller's back.
    fn failed(&self, debt: Debt, source: StoreError) -> AcquireError {
        let name = self.name.clone();
        if source.maybe_applied() {
            drop(debt);
            return AcquireError::Unknown {
                name,
                clear_in: self.ttl.as_duration(),
                source,
            };
        }
        debt.settle();
        AcquireError::Store { name, source }
    }

    fn still_busy(&self, start: Moment, seen: Option<Seen>) -> AcquireError {
        let waited = self.inner.clock.now().saturating_since(start);
        AcquireError::StillBusy {
            name: self.name.clone(),
            waited,
            holder: seen.and_then(|seen| seen.holder),
        }
    }
}

fn may_pass(error: &AcquireError) -> bool {
    match error {
        AcquireError::StillBusy { .. } => true,
        AcquireError::Unknown { source, .. } | AcquireError::Store { source, .. } => {
            source.may_pass()
        }
        AcquireError::Invalid(_) | AcquireError::Closed => false,
    }
}
