//! Beginning a run, or getting the result of another one.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use leaselock_fence::Fence;

use super::calls::{Acquire, OnceReply, OnceTerms};
use super::error::OnceError;
use super::handle::{NOUN, Once};
use super::run::{OnceRun, OnceView};
use super::state::{OnceResult, OnceState};
use crate::base::error::{ErrorKind, StoreError};
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::client::run::until_lost;
use crate::engine::values::resource::Resource;
use crate::engine::ways::trying::{CallNumbers, Tries, Try};
use crate::engine::ways::way::Way;

/// What a caller begins with: a run of its own, or the result of another one.
#[derive(Debug)]
pub enum OnceStart {
    /// The caller does the work, and says how it ended by [`finish`](OnceRun::finish).
    Run(OnceRun),
    /// The work is done.
    Done(OnceResult),
}

impl Once {
    /// Runs `body`, unless the work is done, and returns the result of its one run.
    ///
    /// The body returns the result, at most 1 MiB, or an error, of which the text is kept. It is stopped when its run
    /// loses the lease.
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
    /// # let client = leaselock::Client::connect("mem:")?;
    /// use leaselock::OnceError;
    ///
    /// let report = client.once("report/2026-07").attempts(3);
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
        E: fmt::Display,
        F: FnOnce(OnceView) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let run = match Box::pin(self.begin()).await? {
            OnceStart::Done(result) => return Ok(result),
            OnceStart::Run(run) => run,
        };
        let ended = until_lost(run.lost(), body(run.view())).await?;
        let ended = ended.map(Into::into).map_err(|error| error.to_string());
        Box::pin(run.finish(ended)).await
    }

    /// Begins a run, or returns the result of another one: [`run`](Once::run) in two steps.
    ///
    /// # Waiting
    /// As [`run`](Once::run).
    ///
    /// # Cancel safety
    /// Safe: a run that the caller no longer awaits never began, and counts as no attempt.
    ///
    /// # Errors
    /// As [`run`](Once::run).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::connect("mem:")?;
    /// use leaselock::OnceStart;
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
        let (name, terms) = (self.named.name()?, Arc::new(terms));
        let mut ask = self.named.ask()?;
        let mut tries = OnceTries {
            ttl: self.named.options.check()?,
            terms: Arc::clone(&terms),
            after: None,
            calls: CallNumbers::default(),
        };
        let wait = self.named.options.patience();
        let name = name.clone();
        match Tries::new(&mut ask, &mut tries, NOUN, wait).run().await? {
            (Some(lease), OnceReply::Run { attempt }) => {
                Ok(OnceStart::Run(OnceRun::new(lease, attempt, terms)))
            }
            (_, OnceReply::GivenUp { attempts, message }) => Err(OnceError::GivenUp {
                name,
                attempts,
                message,
            }),
            (_, OnceReply::Ended(OnceState::Done(result))) => Ok(OnceStart::Done(result)),
            (
                _,
                OnceReply::Ended(OnceState::Failed {
                    fence,
                    attempt,
                    message,
                    retry_in,
                }),
            ) => Err(OnceError::Failed {
                name,
                fence,
                attempt,
                message,
                retry_in,
                ran_here: false,
            }),
            (_, OnceReply::Ended(OnceState::Crashed { fence, attempt })) => {
                Err(OnceError::Crashed {
                    name,
                    fence,
                    attempt,
                })
            }
            (_, OnceReply::Differs) => Err(OnceError::Differs { name }),
            (
                _,
                OnceReply::Run { .. }
                | OnceReply::Running { .. }
                | OnceReply::Busy
                | OnceReply::Ended(_),
            ) => {
                let message = "a reply that no version of this script gives";
                let source = StoreError::refused(ErrorKind::Malformed, message);
                Err(OnceError::Store { name, source })
            }
        }
    }
}

/// What a caller asks until it is told.
struct OnceTries {
    ttl: Ttl,
    terms: Arc<OnceTerms>,
    /// The run that it waits for, whose failure it shares.
    after: Option<Fence>,
    calls: CallNumbers,
}

impl Try for OnceTries {
    type Told = OnceReply;
    type Request = Acquire;

    fn request(&self, resource: &Resource, token: &Token) -> Acquire {
        Acquire {
            resource: resource.clone(),
            token: token.clone(),
            ttl: self.ttl,
            terms: Arc::clone(&self.terms),
            after: self.after,
            number: self.calls.next(token),
        }
    }

    fn is_watched(&mut self, told: &OnceReply) -> bool {
        let OnceReply::Running { fence } = told else {
            return false;
        };
        self.after = Some(*fence);
        true
    }
}
