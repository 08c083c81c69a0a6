//! Claiming a tick.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::calls::{AskedTick, CronReply};
use super::error::CronError;
use super::handle::Cron;
use super::run::CronRun;
use super::state::Claim;
use super::tick::Tick;
use crate::engine::guard::replicas::confirm::{GiveBack, confirmed};
use crate::engine::shared_state::recorded_run::{begin, unexpected_reply};
use crate::engine::values::log::LogEvent;
use crate::engine::values::request::Wait;
use crate::engine::ways::trying::CallNumbers;

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
        let (tick, terms) = (Tick::new(tick)?, Arc::new(self.terms()?.1));
        let asked = AskedTick { tick, terms };
        let (ask, acquiring) = (self.named.ask()?, self.named.acquiring(None));
        let wait = Wait::Timeout(self.lateness() + LAST_REQUEST);
        let (lease, told) = begin(acquiring, ask, asked, &calls, wait).await?;
        let lease = match (lease, self.named.options.copies) {
            (Some(lease), Some(copies)) => {
                Some(Box::pin(confirmed(lease, copies, GiveBack::Undo)).await?) // seldom
            }
            (lease, _) => lease,
        };
        match (told, lease) {
            (CronReply::Run { attempt, tick }, Some(lease)) => {
                Ok(Claim::Run(lease.held_as(CronRun { attempt, tick })))
            }
            (CronReply::NoRun(why), None) => {
                let ticks = &self.named.state.engine.totals.nouns.ticks;
                match &why {
                    Claim::Over => ticks.add("over"),
                    Claim::Overlap { .. } => {
                        ticks.add("overlap");
                        self.log_tick("tick_left_out", tick, "another run held the name");
                    }
                    Claim::Missed { .. } => {
                        ticks.add("missed");
                        self.log_missed(tick.time());
                    }
                    Claim::Run(_) | Claim::Early { .. } | Claim::Running { .. } => {}
                }
                Ok(why)
            }
            (
                CronReply::Run { .. } | CronReply::NoRun(_) | CronReply::Behind | CronReply::Busy,
                _,
            ) => {
                let (name, source) = (self.named.name()?.clone(), unexpected_reply());
                Err(CronError::Store { name, source })
            }
        }
    }

    /// Notes what became of a tick; all hosts see it.
    fn log_tick(&self, kind: &'static str, tick: Tick, what: &str) {
        let log = &self.named.state.engine.log;
        if let Ok(name) = self.named.name() {
            let text = format!("{}: {what}", tick.in_words());
            log.note(|| LogEvent::new(kind, text).of(name, None).fact(tick.0));
        }
    }

    /// Notes a tick that was due when no host was up, or none that was in time, and that is not run any more.
    #[doc(hidden)]
    pub fn log_missed(&self, tick: SystemTime) {
        if let Ok(tick) = Tick::new(tick) {
            self.log_tick("tick_missed", tick, "no host began it in time");
        }
    }
}
