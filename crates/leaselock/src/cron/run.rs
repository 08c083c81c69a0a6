//! Claiming a tick, and ending its run.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::calls::{AskedTick, FinishTick};
use super::error::CronError;
use super::handle::Cron;
use super::state::{Claim, CronRun, Tick};
use crate::engine::guard::lease::Lease;
use crate::engine::guard::replicas::{GiveBack, confirmed};
use crate::engine::shared_state::recorded_run::{begin, run_mode};
use crate::engine::values::log::LogEvent;
use crate::engine::values::request::Wait;
use crate::engine::ways::begin_run::CallNumbers;

/// What claims of one caller for one tick have in common: their requests are numbered together.
#[derive(Debug, Clone, Default)]
pub struct TickCalls(Arc<CallNumbers>);

/// How much longer than the lateness a claim may take: its last request says that the tick is missed.
const LAST_REQUEST: Duration = Duration::from_secs(2);

impl Cron {
    /// Claims a tick: of all callers with the same instant, one gets the run. The time is rounded down to microseconds.
    ///
    /// Whether the tick is due is for the store's clock to say, never for the caller's. So a scheduler claims its next
    /// tick at any time, sleeps as long as [`Claim::Early`] says, and claims it again.
    ///
    /// # Waiting
    /// One request, within the request timeout. With [`Overlap::Wait`](crate::cron::Overlap) it waits while the name is held,
    /// in no queue, until the tick may no longer [start](Cron::start_within): a message says when a run ends; otherwise it asks when the
    /// lease would end, and now and then. In strict mode it waits for the end of a quarantine, as long. It fails after
    /// 2 s when the store never replied.
    ///
    /// # Cancel safety
    /// Safe: a claim that the caller no longer awaits is taken back in the background, as if the tick had never begun.
    ///
    /// # Errors
    /// [`CronError::Acquire`]: the tick was not claimed. A tick before 1970 or after 2255 is refused. When too few
    /// [replicas](Cron::min_replicas) have the claim, it is taken back.
    ///
    /// # Examples
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use leaselock::cron::Claim;
    ///
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let tick = SystemTime::now() + Duration::from_secs(3600);
    /// match client.cron("nightly").claim(tick).await? {
    ///     Claim::Run(run) => run.finish().await?, // … after the work, which stops when `run.lost()` resolves
    ///     Claim::Early { wait } => assert!(wait <= Duration::from_secs(3600)), // sleep, and claim it again
    ///     Claim::Running { .. } | Claim::Over => {} // another host's
    ///     _ => {}                                   // left out
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn claim(&self, tick: SystemTime) -> Result<Claim, CronError> {
        self.claim_in_call(tick, TickCalls::default()).await
    }

    /// The same. A caller that goes on with the calls of a claim that it has dropped gets the tick which that one got.
    #[doc(hidden)]
    pub async fn claim_in_call(
        &self,
        tick: SystemTime,
        TickCalls(calls): TickCalls,
    ) -> Result<Claim, CronError> {
        let nouns = &self.named.state.engine.totals.nouns;
        let (tick, terms) = (Tick::new(tick)?, Arc::new(self.terms()?.1));
        let asked = AskedTick { tick, terms };
        let wait = Wait::Timeout(self.lateness() + LAST_REQUEST);
        let (ask, acquiring) = (self.named.ask()?, self.named.acquiring(None, wait));
        let why = match begin(acquiring, ask, asked, &calls, wait).await? {
            Ok((mut lease, run)) => {
                if let Some(copies) = self.named.options.copies {
                    lease = Box::pin(confirmed(lease, copies, GiveBack::Undo)).await?; // seldom
                }
                let began_us = lease.parts().1.fence.map_or(0, leaselock_fence::Fence::get);
                nouns.delays.add(began_us.saturating_sub(tick.0));
                return Ok(Claim::Run(lease.held_as(run)));
            }
            Err(why) => why,
        };
        match &why {
            Claim::Over => nouns.ticks.add("over"),
            Claim::Overlap { .. } => {
                nouns.ticks.add("overlap");
                self.log_tick("tick_left_out", tick, "another run held the name");
            }
            Claim::Missed { .. } => self.note_missed(tick.time()),
            Claim::Run(_) | Claim::Early { .. } | Claim::Running { .. } => {}
        }
        Ok(why)
    }

    /// Notes what became of a tick; all hosts see it.
    fn log_tick(&self, kind: &'static str, tick: Tick, what: &str) {
        let log = &self.named.state.engine.log;
        if let Ok(name) = self.named.name() {
            let text = format!("{}: {what}", tick.in_words());
            log.note(|| LogEvent::new(kind, text).of(name, None).fact(tick.0));
        }
    }

    /// Counts and notes a tick that was due when no host was up, or none that was in time, and that is not run any more.
    #[doc(hidden)]
    pub fn note_missed(&self, tick: SystemTime) {
        self.named.state.engine.totals.nouns.ticks.add("missed");
        if let Ok(tick) = Tick::new(tick) {
            self.log_tick("tick_missed", tick, "no host began it in time");
        }
    }
}

impl Lease<CronRun> {
    /// Returns the tick: when the run was due, to the microsecond.
    pub fn tick(&self) -> SystemTime {
        self.known().tick.time()
    }

    /// Records that the work is done, and gives the name back. No other run of the tick follows.
    ///
    /// A run that has lost its lease is still recorded as finished, unless another run of the name has begun since.
    ///
    /// # Waiting
    /// A store that does not reply is asked again, until the lease ends or its ttl has passed.
    ///
    /// # Cancel safety
    /// When dropped, the end may be recorded. If it is not, the run counts as crashed.
    ///
    /// # Errors
    /// [`CronError::Stale`] and [`CronError::NotConfirmed`] say what the record is then. Nothing is held.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # async fn clean_up(_: leaselock::Fence) {}
    /// use leaselock::cron::{Claim, TickState};
    ///
    /// let nightly = client.cron("nightly");
    /// let now = nightly.state().await?.now;
    /// if let Claim::Run(run) = nightly.claim(now).await? {
    ///     tokio::select! {
    ///         () = clean_up(run.fence()) => run.finish().await?,
    ///         lost = run.lost() => return Err(lost.into()), // stop: another run may begin
    ///     }
    /// }
    /// let known = nightly.state().await?;
    /// assert_eq!((known.latest, known.state), (Some(now), Some(TickState::Done)));
    /// # Ok(()) }
    /// ```
    pub async fn finish(self) -> Result<(), CronError> {
        let (engine, record, _) = self.parts();
        let (engine, record) = (Arc::clone(engine), Arc::clone(record));
        let finish = FinishTick { held: &record.held };
        let within = engine.request_timeout(record.ttl());
        let ended = self.end_by(|| engine.ask(&finish, within), Result::is_ok);
        let (counted_as, ended) = match (ended.await, record.name.clone()) {
            (Ok(Ok(())), _) => ("run", Ok(())),
            (Ok(Err(latest)), name) => {
                let latest = latest.map(Tick::time);
                ("stale", Err(CronError::Stale { name, latest }))
            }
            (Err(source), name) => ("unrecorded", Err(CronError::NotConfirmed { name, source })),
        };
        engine.totals.nouns.ticks.add(counted_as);
        ended
    }

    /// Notes for the event log that the work failed. The run has ended all the same.
    #[doc(hidden)]
    pub fn log_failure(&self, why: &str) {
        let (_, record, _) = self.parts();
        let text = || format!("{}: {why}", self.known().tick.in_words());
        record.note("tick_failed", text);
    }
}

run_mode! {
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::cron::Claim;
    ///
    /// let nightly = client.cron("nightly");
    /// let now = nightly.state().await?.now;
    /// if let Claim::Run(run) = nightly.claim(now).await? {
    ///     run.cancel().await?; // the command is not installed here
    /// }
    /// assert!(nightly.state().await?.latest.is_none());
    /// # Ok(()) }
    /// ```
    CronRun, CronError
}
