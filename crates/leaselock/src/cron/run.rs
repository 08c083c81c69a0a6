//! The guard of a tick's run.

use std::sync::Arc;
use std::time::SystemTime;

use super::error::CronError;
use super::kind::FINISH_TICK;
use super::tick::Tick;
use crate::base::Token;
use crate::engine::guard::lease::Lease;
use crate::engine::shared_state::attempt::Attempt;
use crate::engine::shared_state::recorded_run::run_methods;
use crate::engine::values::operation::operation;
use crate::engine::values::resource::Resource;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinishedTick {
    Done,
    /// The latest tick that has begun since; `None` when the record is gone.
    Stale {
        latest: Option<Tick>,
    },
}

operation! {
    /// Records that a run has finished, and gives the name back. Runs `cron/finish`.
    pub(super) struct FinishTick<'a> {
        resource: &'a Resource,
        token: &'a Token,
    }
    script resource.script(&FINISH_TICK);
    fn encode(call) {
        resource.write_keys(call);
        call.arg(token);
    }
    fn decode(answer) -> FinishedTick {
        "done" => FinishedTick::Done,
        "stale" => FinishedTick::Stale { latest: Tick::from_answer(answer, 0)? },
    }
}

/// The run of a tick: it holds the name, and no other run begins meanwhile.
///
/// Dropping it gives the name back: the run then did not finish, and counts as crashed.
#[derive(Debug)]
#[must_use = "a run that is dropped did not finish"]
pub struct CronRun {
    lease: Lease<Attempt>,
    tick: Tick,
}

impl CronRun {
    pub(super) fn new(lease: Lease, tick: Tick, attempt: u32) -> Self {
        let lease = lease.held_as(Attempt { number: attempt });
        CronRun { lease, tick }
    }

    /// Returns the tick: when the run was due, to the microsecond.
    pub fn tick(&self) -> SystemTime {
        self.tick.time()
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
        let (engine, record, _) = self.lease.parts();
        let (engine, record) = (Arc::clone(engine), Arc::clone(record));
        let finish = FinishTick {
            resource: &record.resource,
            token: &record.token,
        };
        let within = engine.request_timeout(record.ttl());
        let request = || engine.ask(&finish, within);
        let ended = self
            .lease
            .end_by(request, |said| *said == FinishedTick::Done);
        let name = record.name.clone();
        let ended = ended.await;
        engine.totals.nouns.ticks.add(match &ended {
            Ok(FinishedTick::Done) => "run",
            Ok(FinishedTick::Stale { .. }) => "stale",
            Err(_) => "unrecorded",
        });
        match ended {
            Ok(FinishedTick::Done) => Ok(()),
            Ok(FinishedTick::Stale { latest }) => Err(CronError::Stale {
                name,
                latest: latest.map(Tick::time),
            }),
            Err(source) => Err(CronError::NotConfirmed { name, source }),
        }
    }

    /// Notes for the event log that the work failed. The run has ended all the same.
    #[doc(hidden)]
    pub fn log_failure(&self, why: &str) {
        let (_, record, _) = self.lease.parts();
        record.note("tick_failed", || format!("{}: {why}", self.tick.in_words()));
    }
}

run_methods! {
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
