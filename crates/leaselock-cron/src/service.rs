//! A service that runs a body at the ticks of a schedule.

use std::fmt;
use std::future::pending;
use std::pin::{Pin, pin};
use std::time::SystemTime;

use leaselock::cron::{CronError, CronRun};
use leaselock::{Fence, Lease, LeaseView};

use crate::scheduled_runs::ScheduledRuns;

/// The run of a tick, as its body sees it. Clones are cheap and `'static`, and keep no lease alive.
#[derive(Debug, Clone)]
pub struct TickView {
    tick: SystemTime,
    lease: LeaseView<CronRun>,
}

impl TickView {
    /// Returns when the run was due.
    pub fn tick(&self) -> SystemTime {
        self.tick
    }

    /// Returns the fencing token of the run, larger than that of every earlier run.
    ///
    /// Pass it to what the body writes to, so that a resource can refuse a run that was replaced.
    pub fn fence(&self) -> Fence {
        self.lease.fence()
    }

    /// Returns the number of the run of this tick, from 1. With more than 1, an earlier run did not finish, and may have
    /// done the work in part; only with [`OnCrash::Again`](leaselock::options::OnCrash::Again).
    pub fn attempt(&self) -> u32 {
        self.lease.attempt()
    }

    /// Returns the lease under which the body runs.
    pub fn lease(&self) -> &LeaseView<CronRun> {
        &self.lease
    }
}

impl ScheduledRuns {
    /// Runs `body` at the ticks of the schedule: of all hosts that do so under this name, one runs each tick.
    ///
    /// A body that returns an error has run: the tick is over, the error is logged, and the next tick comes as usual. A
    /// body whose run loses its lease is stopped, and did not finish.
    ///
    /// # Waiting
    /// Until `stop` completes: no other run begins then, and the one that is on is awaited. It never ends by itself: a
    /// store that does not reply is asked again every second.
    ///
    /// # Cancel safety
    /// A body that is dropped did not finish. Let `stop` complete instead.
    ///
    /// # Errors
    /// [`CronError::Acquire`] for a name, an option or a tick that is out of its range.
    ///
    /// # Examples
    /// ```
    /// use leaselock_cron::Schedule;
    ///
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let (stop, stopped) = tokio::sync::oneshot::channel::<()>(); // or a signal
    /// # let mut stop = Some(stop);
    /// let every_second: Schedule = "* * * * * *".parse()?;
    /// let stopped = async { drop(stopped.await) };
    /// every_second.runs(client.cron("report")).run_until(stopped, |run| {
    ///     println!("the report of {:?}, attempt {}", run.tick(), run.attempt());
    /// #   drop(stop.take());
    ///     async { Ok::<(), std::io::Error>(()) }
    /// }).await?;
    /// # Ok(()) }
    /// ```
    pub async fn run_until<S, F, Fut, E>(mut self, stop: S, mut body: F) -> Result<(), CronError>
    where
        S: Future<Output = ()>,
        F: FnMut(TickView) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let mut stop = pin!(stop);
        let mut running = None;
        loop {
            let run = tokio::select! {
                biased;
                () = &mut stop => break,
                () = ended(&mut running) => {
                    running = None;
                    continue;
                }
                run = self.next() => run?,
            };
            // The name was free, so the run before has lost its lease.
            ended_if_any(&mut running).await;
            let view = TickView {
                tick: run.tick(),
                lease: run.view(),
            };
            running = Some(Box::pin(attend(run, body(view))));
        }
        ended_if_any(&mut running).await;
        Ok(())
    }
}

/// Never completes without a run.
async fn ended<R: Future<Output = ()>>(running: &mut Option<Pin<Box<R>>>) {
    match running {
        Some(run) => run.as_mut().await,
        None => pending().await,
    }
}

async fn ended_if_any<R: Future<Output = ()>>(running: &mut Option<Pin<Box<R>>>) {
    if let Some(run) = running.take() {
        run.await;
    }
}

/// Runs the body until its end or the loss of the lease, and records the end.
async fn attend<E: fmt::Display>(run: Lease<CronRun>, body: impl Future<Output = Result<(), E>>) {
    let name = run.name().clone();
    let outcome = {
        let body = pin!(body);
        tokio::select! {
            biased;
            lost = run.lost() => Err(lost),
            outcome = body => Ok(outcome),
        }
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(lost) => {
            tracing::warn!(target: "leaselock", lock = %name, error = %lost, "the run of a tick was stopped");
            return;
        }
    };
    if let Err(error) = outcome {
        tracing::warn!(target: "leaselock", lock = %name, %error, "the run of a tick failed");
        run.log_failure(&error.to_string());
    }
    if let Err(error) = run.finish().await {
        tracing::warn!(target: "leaselock", lock = %name, %error, "the end of a run is not recorded");
    }
}
