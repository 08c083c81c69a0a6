//! Beginning a run, or getting the result of another one.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use super::calls::{AskedWork, OnceReply};
use super::error::OnceError;
use super::handle::Once;
use super::run::OnceRun;
use super::state::{OnceResult, OnceState};
use crate::client::run::until_lost;
use crate::engine::guard::lease::{Lease, LeaseView};
use crate::engine::shared_state::recorded_run::{begin, unexpected_reply};
use crate::engine::values::log::LogEvent;
use crate::engine::ways::trying::CallNumbers;

/// What a caller begins with: a run of its own, or the result of another one.
#[derive(Debug)]
#[must_use = "a run that is dropped counts as crashed"]
pub enum OnceStart {
    /// The caller does the work, and says how it ended by `finish`.
    Run(Lease<OnceRun>),
    /// The work is done.
    Done(OnceResult),
}

impl Once {
    /// Runs `body`, unless the work is done, and returns the result of its one run.
    ///
    /// The body returns the result, at most 1 MiB, or an error, of which the text is kept: any error type, a text, or
    /// `anyhow::Error`. It is stopped when its run loses the lease.
    ///
    /// # Waiting
    /// For the run of another caller, as [`wait`](Once::wait) says, in no queue: a message tells all of them the result.
    /// A caller that hears no message asks when the run's lease would end and every 15 s, or once a second where messages
    /// do not arrive. It fails after 2 s when the store never replied.
    ///
    /// # Cancel safety
    /// A caller that waits leaves nothing behind. A body that is dropped counts as crashed.
    ///
    /// # Errors
    /// [`OnceError`]: every variant says whether the body ran, and what later callers find.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::once::OnceError;
    ///
    /// let report = client.once("report/2026-07").max_attempts(3);
    /// let ran = report.run(|run| async move {
    ///     match run.attempt() {
    ///         1 => Err("no paper"), // the next caller runs again
    ///         _ => Ok("printed"),
    ///     }
    /// });
    /// assert!(matches!(ran.await, Err(OnceError::Failed { attempt: 1, .. })));
    /// let ran = report.run(|_| async { Ok::<_, &str>("printed") }).await?;
    /// assert_eq!((ran.value.as_slice(), ran.attempt), (&b"printed"[..], 2));
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E, F, Fut>(&self, body: F) -> Result<OnceResult, OnceError>
    where
        T: Into<Vec<u8>>,
        E: Into<Box<dyn Error + Send + Sync>>,
        F: FnOnce(LeaseView<OnceRun>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let run = match Box::pin(self.begin()).await? {
            OnceStart::Done(result) => return Ok(result),
            OnceStart::Run(run) => run,
        };
        let ended = until_lost(run.lost(), body(run.view())).await?;
        let ended = ended.map(Into::into).map_err(Into::into);
        Box::pin(run.finish(ended)).await
    }

    /// Begins a run, or returns the result of another one: [`run`](Once::run) in two steps, which waits and fails alike.
    ///
    /// # Cancel safety
    /// Safe: a run that the caller no longer awaits never began, and counts as no attempt.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::once::OnceStart;
    ///
    /// let result = match client.once("mail/42").begin().await? {
    ///     OnceStart::Done(result) => result,
    ///     OnceStart::Run(run) => {
    ///         // … the work; it stops when `run.lost()` resolves
    ///         run.finish(Ok(b"sent".to_vec())).await?
    ///     }
    /// };
    /// assert_eq!(result.value, b"sent");
    /// # Ok(()) }
    /// ```
    pub async fn begin(&self) -> Result<OnceStart, OnceError> {
        let (_, terms) = self.terms()?;
        let (name, terms) = (self.named.name()?.clone(), Arc::new(terms));
        let asked = AskedWork {
            terms: Arc::clone(&terms),
            after: None,
        };
        let (calls, wait) = (&CallNumbers::default(), self.named.options.patience());
        let (ask, acquiring) = (self.named.ask()?, self.named.acquiring(None));
        let (lease, told) = begin(acquiring, ask, asked, calls, wait).await?;
        if let (Some(lease), OnceReply::Run { attempt }) = (lease, &told) {
            let attempt = *attempt;
            return Ok(OnceStart::Run(lease.held_as(OnceRun { attempt, terms })));
        }
        let engine = &self.named.state.engine;
        let runs = &engine.totals.nouns.runs;
        let log = |kind, fence, text, fact: String| {
            let event = || LogEvent::new(kind, text).of(&name, fence).fact(fact);
            engine.log.note(event);
        };
        // Each caller is counted by what it is told; errors of the store are counted elsewhere.
        let (counted_as, error) = match told {
            OnceReply::Ended(OnceState::Done(result)) => {
                runs.add("replayed");
                return Ok(OnceStart::Done(result));
            }
            OnceReply::Ended(OnceState::Failed {
                fence,
                attempt,
                message,
                retry_in,
            }) => {
                let failed = OnceError::Failed {
                    name,
                    fence,
                    attempt,
                    message,
                    retry_in,
                    source: None,
                };
                ("failed", failed)
            }
            OnceReply::Ended(OnceState::Crashed { fence, attempt }) => {
                let text = format!("attempt {attempt} did not end");
                log("run_crashed", Some(fence), text, fence.to_string());
                let crashed = OnceError::Crashed {
                    name,
                    fence,
                    attempt,
                };
                ("crashed", crashed)
            }
            OnceReply::GivenUp { attempts, message } => {
                let text = format!("after {attempts} attempts: {message}");
                log("run_given_up", None, text, format!("attempt {attempts}"));
                let given_up = OnceError::GivenUp {
                    name,
                    attempts,
                    message,
                };
                ("given_up", given_up)
            }
            OnceReply::Differs => ("differs", OnceError::Mismatch { name }),
            OnceReply::Run { .. }
            | OnceReply::Running { .. }
            | OnceReply::Busy
            | OnceReply::Ended(_) => {
                let source = unexpected_reply();
                return Err(OnceError::Store { name, source });
            }
        };
        runs.add(counted_as);
        Err(error)
    }
}
