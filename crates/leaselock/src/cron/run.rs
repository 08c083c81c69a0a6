//! The run of a tick, and how it ends.

use std::sync::Arc;
use std::time::SystemTime;

use super::error::CronError;
use super::kind::FinishTick;
use super::tick::Tick;
use crate::engine::guard::lease::Lease;
use crate::engine::shared_state::recorded_run::run_mode;

/// The run of a tick, as its [`Lease`] has it: it holds the name, and no other run begins meanwhile.
///
/// `finish` says that the work is done. Dropping it gives the name back: the run then did not finish, and
/// counts as crashed.
#[derive(Debug, Clone)]
pub struct CronRun {
    pub(super) attempt: u32,
    pub(super) tick: Tick,
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
        let finish = FinishTick {
            resource: &record.resource,
            token: &record.token,
        };
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
        record.note("tick_failed", || {
            format!("{}: {why}", self.known().tick.in_words())
        });
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
