//! The ticks of a schedule that this caller runs, one after the other.

use std::fmt;
use std::future::pending;
use std::time::{Duration, SystemTime};

use leaselock::cron::{Claim, Cron, CronError, CronRun, Overlap, TickState};
use leaselock::satellite::{LATE_MAX, Serving};
use leaselock::{AcquireError, ErrorKind, Lease, OperationError as _, StoreError};

use crate::claimed_tick::ClaimedTick;
use crate::plan::{CatchUp, Known, Plan};
use crate::schedule::Schedule;

/// Between two requests to a store that does not reply, and between two questions whether another host's run has crashed.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The store ignores a record that is further ahead of its clock (lua/cron.lua).
const AHEAD: Duration = Duration::from_secs(24 * 60 * 60);
/// A timer may stop while the machine is suspended, so no sleep is longer than this before the clock is read again.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Before a tick that is far the store is asked for its time once more, because our clock goes faster or slower.
const ASK_BEFORE: Duration = Duration::from_secs(30);
/// No server says that its clock was set forward, so no host goes longer without asking it for its time.
const LONGEST_UNASKED: Duration = Duration::from_secs(300);

/// What was said of the store since its latest answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    None,
    Fails,
    /// Its user has another password by now: only the caller can do something about it, also after an outage.
    RefusesLogin,
}

impl Trouble {
    fn of(error: &CronError) -> Trouble {
        match error.store_error().map(StoreError::kind) {
            Some(ErrorKind::Auth) => Trouble::RefusesLogin,
            _ => Trouble::Fails,
        }
    }
}

type OnError = Box<dyn Fn(&CronError) + Send + Sync>;

/// The runs of a [`Schedule`] that this caller makes.
///
/// Every host that has the same schedule calls [`run_until`](ScheduledRuns::run_until) or, to run the work in a process of
/// its own, [`next`](ScheduledRuns::next), and gets the ticks that are its own.
#[must_use = "nothing runs until `next` or `run_until` is called"]
pub struct ScheduledRuns {
    cron: Cron,
    schedule: Schedule,
    catch_up: CatchUp,
    /// `None` until the store has said what it knows.
    plan: Option<Plan>,
    /// Up to here every tick was run, left out or missed, as far as this caller knows.
    settled: Option<SystemTime>,
    /// Up to here missed ticks are counted.
    counted: Option<SystemTime>,
    /// The tick that is claimed next.
    claimed: Option<ClaimedTick>,
    on_error: Option<OnError>,
    trouble: Trouble,
    /// Once the first tick is waited for.
    serving: Option<Serving>,
}

impl Schedule {
    /// Returns the runs of this schedule under this name that this caller is to make.
    ///
    /// # Examples
    /// ```no_run
    /// use leaselock_cron::{CatchUp, Schedule};
    ///
    /// # async fn send_mails() {}
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let schedule: Schedule = "*/10 * * * *".parse()?;
    /// let mut runs = schedule.runs(client.cron("mails")).catch_up(CatchUp::Latest);
    /// loop {
    ///     let run = runs.next().await?;
    ///     send_mails().await; // stop when `run.lost()` resolves
    ///     run.finish().await?;
    /// }
    /// # }
    /// ```
    pub fn runs(&self, cron: Cron) -> ScheduledRuns {
        ScheduledRuns {
            cron: cron.in_order(true).described(&self.described()),
            schedule: self.clone(),
            catch_up: CatchUp::default(),
            plan: None,
            settled: None,
            counted: None,
            claimed: None,
            on_error: None,
            trouble: Trouble::None,
            serving: None,
        }
    }
}

impl ScheduledRuns {
    /// Sets what becomes of ticks that no host has begun in time; [`CatchUp::None`] by default.
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Sets what is called when the store begins to fail, and when it begins to refuse the login. It must not block.
    /// The requests are repeated in any case.
    pub fn on_error(mut self, callback: impl Fn(&CronError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Box::new(callback));
        self
    }

    /// Waits for the next tick that belongs to this caller, and begins its run.
    ///
    /// Call it while a run is on, too: the ticks that come meanwhile are then recorded as left out, or wait for its end
    /// ([`Cron::overlap`]).
    ///
    /// # Waiting
    /// Until there is such a tick, by the store's clock. For each tick it sends one request when the tick before is over,
    /// one at its time, and for a tick that is far away one every five minutes and 30 s before it.
    ///
    /// When another host has begun the tick, it asks once more a second later, because that host may take its claim back;
    /// with [`OnCrash::Again`](leaselock::options::OnCrash::Again) once a second while a host runs it and it may be run again. A store that does not reply is
    /// asked again every second.
    ///
    /// # Cancel safety
    /// Safe: no tick is lost, and a run that the caller does not get never began.
    ///
    /// # Errors
    /// [`CronError::Acquire`] for a name, an option or a tick that is out of its range. Nothing else ends the wait.
    pub async fn next(&mut self) -> Result<Lease<CronRun>, CronError> {
        if self.serving.is_none() {
            self.serving = Some(self.cron.serve()?);
        }
        loop {
            match self.step().await {
                Ok(run) => {
                    self.trouble = Trouble::None;
                    if let Some(run) = run {
                        return Ok(run);
                    }
                }
                Err(error @ CronError::Acquire(AcquireError::Invalid(_))) => return Err(error),
                Err(error) => {
                    let trouble = Trouble::of(&error);
                    if trouble > self.trouble {
                        self.trouble = trouble;
                        tracing::warn!(target: "leaselock", lock = self.cron.name(), %error, "no tick is claimed; retrying");
                        self.on_error.iter().for_each(|told| told(&error));
                    }
                    self.sleep(ASK_EVERY).await;
                }
            }
        }
    }

    /// Claims the next tick, and sleeps if it is not due. `None`: there is more to do.
    async fn step(&mut self) -> Result<Option<Lease<CronRun>>, CronError> {
        let plan = match self.plan.take() {
            Some(plan) => plan,
            None => self.look().await?,
        };
        let plan = self.plan.insert(plan);
        let (tick, cron) = match plan.missed.front() {
            // The run of one must not leave out the next. So late, none is promised to come again.
            Some(missed) => {
                let cron = self.cron.clone().in_order(false);
                (*missed, cron.start_within(LATE_MAX).overlap(Overlap::Wait))
            }
            None => match self.schedule.next_after(plan.after) {
                Some(tick) => (tick, self.cron.clone()),
                None => pending().await,
            },
        };
        let after = plan.after;
        let calls = self.claimed(tick).calls.clone();
        match Box::pin(cron.claim_in_call(tick, calls)).await? {
            Claim::Run(run) => {
                match run.tick() == tick {
                    true => self.settle(tick),
                    false => self.claimed = None, // an earlier one came first
                }
                return Ok(Some(run));
            }
            Claim::Early { wait } if clock_went_back(wait, tick, after) => {
                (self.plan, self.settled) = (None, None);
            }
            Claim::Early { wait } => self.sleep(until_next_look(wait)).await,
            Claim::Running { .. } if self.cron.runs_again() => self.sleep(ASK_EVERY).await,
            Claim::Missed { .. } if cron.lateness() < LATE_MAX => {
                self.counted = Some(tick);
                self.settled = self.plan.take().map(|plan| plan.after);
            }
            Claim::Running { .. } => match self.may_be_taken_back_for(tick) {
                Some(rest) => self.sleep(rest).await,
                None => self.settle(tick),
            },
            _ => self.settle(tick), // it is over, or left out
        }
        Ok(None)
    }

    /// Asks the store what it knows, and decides what is to be done.
    async fn look(&mut self) -> Result<Plan, CronError> {
        let state = self.cron.state().await?;
        let latest = state.known_until().max(self.settled);
        let is_open = match state.state {
            None | Some(TickState::Done) => false,
            Some(TickState::Running) => state.latest > self.settled, // its claim may be taken back
            Some(_) => self.cron.runs_again(),                       // it has crashed
        };
        let known = Known {
            latest,
            open: state.latest.filter(|_| is_open),
            now: state.now,
        };
        let late = self.cron.lateness();
        let plan = Plan::new(&self.schedule, known, late, self.catch_up);
        if let Some(missed) = plan.left_out.filter(|_| plan.left_out > self.counted) {
            self.cron.note_missed(missed);
            self.counted = Some(missed);
        }
        Ok(plan)
    }

    fn claimed(&mut self, tick: SystemTime) -> &mut ClaimedTick {
        let same = self.claimed.take().filter(|claimed| claimed.is(tick));
        self.claimed
            .insert(same.unwrap_or_else(|| ClaimedTick::new(tick)))
    }

    /// For how long another host may still take its claim back: it was stopped meanwhile, cannot start the work, or has
    /// too few replicas. The next tick is not kept waiting.
    fn may_be_taken_back_for(&mut self, tick: SystemTime) -> Option<Duration> {
        let usual = ASK_EVERY + self.cron.wait_for_replicas();
        let next = self.schedule.next_after(tick);
        let until_next = next.and_then(|next| next.duration_since(tick).ok());
        let usual = until_next.map_or(usual, |until_next| usual.min(until_next / 2));
        let now = self.cron.clock().now();
        self.claimed(tick).may_be_taken_back_for(usual, now)
    }

    fn settle(&mut self, tick: SystemTime) {
        self.claimed = None;
        if let Some(plan) = &mut self.plan {
            match plan.missed.front() == Some(&tick) {
                true => drop(plan.missed.pop_front()),
                false => plan.after = tick,
            }
        }
    }

    async fn sleep(&self, time: Duration) {
        let clock = self.cron.clock();
        let until = clock.now().plus(time);
        while clock.now() < until {
            let longest = clock.now().plus(LONGEST_SLEEP);
            clock.sleep_until(until.min(longest)).await;
        }
    }
}

/// True if the store's clock was ahead when it was asked what is to be done, and was corrected since: the tick is further
/// away than any that the answer led to.
fn clock_went_back(wait: Duration, tick: SystemTime, after: SystemTime) -> bool {
    wait > tick.duration_since(after).unwrap_or_default() + AHEAD
}

/// Until the tick, or until the store is asked once more.
fn until_next_look(wait: Duration) -> Duration {
    match wait > ASK_BEFORE * 2 {
        true => (wait - ASK_BEFORE).min(LONGEST_UNASKED),
        false => wait,
    }
}

impl fmt::Debug for ScheduledRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduledRuns")
            .field("cron", &self.cron)
            .field("schedule", &self.schedule)
            .field("catch_up", &self.catch_up)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_waits_for_a_far_tick_asks_every_five_minutes_and_half_a_minute_before_it() {
        let look = |wait| until_next_look(Duration::from_secs(wait)).as_secs();
        assert_eq!([30, 60].map(look), [30, 60], "the tick itself");
        assert_eq!([61, 330].map(look), [31, 300]);
        assert_eq!([331, 24 * 3600].map(look), [300, 300]);
    }
}
