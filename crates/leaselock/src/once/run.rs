//! A run: how it begins, unless another one has the result, and how it ends.

use std::borrow::Cow;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use leaselock_fence::Name;

use super::calls::{AskedWork, Finish, NoRun, OnceTerms};
use super::error::{OnceError, too_large};
use super::handle::Once;
use super::state::{OnceResult, OnceState, RESULT_MAX};
use crate::client::run::until_lost;
use crate::engine::guard::lease::{Lease, LeaseView};
use crate::engine::guard::replicas::{Written, enough};
use crate::engine::shared_state::recorded_run::{begin, run_mode, unexpected_reply};
use crate::engine::values::log::LogEvent;
use crate::engine::ways::begin_run::CallNumbers;

/// Of a failure the record keeps its text, up to this length.
const MESSAGE_MAX: usize = 4096;

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
    /// A caller that hears no message asks when the run's lease would end and every 15 s. Without a subscription it asks
    /// once a second, every 2 s while that is pending; one whose connection has gone counts until the client notices.
    /// It fails after 2 s when the store never replied.
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
        let (calls, wait) = (&CallNumbers::default(), self.named.options.wait_policy());
        let (ask, acquiring) = (self.named.ask()?, self.named.acquiring(None, wait));
        match begin(acquiring, ask, asked, calls, wait).await? {
            Ok((lease, attempt)) => Ok(OnceStart::Run(lease.held_as(OnceRun { attempt, terms }))),
            Err(why) => self.told(name, why).map(OnceStart::Done),
        }
    }

    /// Returns what a caller is told for whom no run began, and counts it. The event log has crashes and runs given up.
    fn told(&self, name: Name, why: NoRun) -> Result<OnceResult, OnceError> {
        let engine = &self.named.state.engine;
        let runs = &engine.totals.nouns.runs;
        let log = |kind, fence, text, fact: String| {
            let event = || LogEvent::new(kind, text).of(&name, fence).fact(fact);
            engine.log.note(event);
        };
        // Each caller is counted by what it is told; errors of the store are counted elsewhere.
        let (counted_as, error) = match why {
            NoRun::Ended(OnceState::Done(result)) => {
                runs.add("replayed");
                return Ok(result);
            }
            NoRun::Ended(OnceState::Failed {
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
            NoRun::Ended(OnceState::Crashed { fence, attempt }) => {
                let text = format!("attempt {attempt} did not end");
                log("run_crashed", Some(fence), text, fence.to_string());
                let crashed = OnceError::Crashed {
                    name,
                    fence,
                    attempt,
                };
                ("crashed", crashed)
            }
            NoRun::Ended(OnceState::Absent | OnceState::Running { .. }) => {
                return Err(unexpected_reply(&name).into());
            }
            NoRun::GivenUp { attempts, message } => {
                let text = format!("after {attempts} attempts: {message}");
                log("run_given_up", None, text, format!("attempt {attempts}"));
                let given_up = OnceError::GivenUp {
                    name,
                    attempts,
                    message,
                };
                ("given_up", given_up)
            }
            NoRun::Differs => ("differs", OnceError::Mismatch { name }),
        };
        runs.add(counted_as);
        Err(error)
    }
}

/// A run that this client makes, as its [`Lease`] has it: it holds the name, and no other run begins meanwhile.
///
/// `finish` says how it ended. Dropping it gives the name back without a result: the run then counts as
/// crashed.
///
/// ```compile_fail,E0599
/// # async fn run(run: leaselock::Lease<leaselock::once::OnceRun>) -> Result<(), leaselock::ReleaseError> {
/// run.release().await // it ends by `finish` or `cancel`
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct OnceRun {
    pub(super) attempt: u32,
    pub(super) terms: Arc<OnceTerms>,
}

impl Lease<OnceRun> {
    /// Stores the result, or the text of an error, and gives the name back. All callers are told so from then on.
    ///
    /// # Waiting
    /// A store that does not reply is asked again, until the lease ends or its ttl has passed: the work is done, and a
    /// result that is lost would have it done again. Then for replicas, with [`min_replicas`](crate::once::Once::min_replicas).
    ///
    /// # Cancel safety
    /// When dropped, the result may be stored. If it is not, the run counts as crashed.
    ///
    /// # Errors
    /// [`OnceError::Failed`] when a failure was stored. [`OnceError::TooLarge`], [`OnceError::Stale`],
    /// [`OnceError::NotStored`] and [`OnceError::NotReplicated`] say what later callers find.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::once::OnceStart;
    ///
    /// if let OnceStart::Run(run) = client.once("charge/42").begin().await? {
    ///     run.finish(Ok(b"receipt 7".to_vec())).await?; // recorded: whoever asks later gets it
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn finish(
        self,
        outcome: Result<Vec<u8>, Box<dyn Error + Send + Sync>>,
    ) -> Result<OnceResult, OnceError> {
        let size = outcome.as_ref().map_or(0, Vec::len);
        let (name, run, fence) = (self.name().clone(), self.known().clone(), self.fence());
        let (kind, result) = match &outcome {
            Ok(_) if size > RESULT_MAX => ("kept", Cow::Owned(too_large(size).into_bytes())),
            Ok(value) => ("done", Cow::Borrowed(&value[..])),
            Err(error) if run.terms.keeps_failures => ("kept", shortened(error)),
            Err(error) => ("fail", shortened(error)),
        };
        let engine = Arc::clone(self.parts().0);
        let stored = self.store(&run, kind, &result).await;
        engine.totals.nouns.runs.add(match &stored {
            Ok(()) | Err(OnceError::NotReplicated { .. }) if kind == "done" => "ran",
            Ok(()) | Err(OnceError::NotReplicated { .. }) => "failed",
            Err(_) => "unrecorded",
        });
        stored?;
        match outcome {
            Ok(_) if size > RESULT_MAX => Err(OnceError::TooLarge { name, size }),
            Ok(value) => Ok(OnceResult {
                value,
                ran_here: true,
                fence,
                attempt: run.attempt,
            }),
            Err(error) => Err(OnceError::Failed {
                name,
                fence,
                attempt: run.attempt,
                message: error.to_string(),
                retry_in: (kind == "fail").then_some(run.terms.pause),
                source: Some(Arc::new(error)),
            }),
        }
    }

    /// Stores it, and ends the lease, which the same step gives back.
    async fn store(
        self,
        run: &OnceRun,
        kind: &'static str,
        result: &[u8],
    ) -> Result<(), OnceError> {
        let (engine, record, _) = self.parts();
        let (engine, record) = (Arc::clone(engine), Arc::clone(record));
        let engine = &*engine;
        let finish = &Finish {
            held: &record.held,
            kind,
            result,
            fence: self.fence(),
            attempt: run.attempt,
            terms: &run.terms,
        };
        // A failure that is not kept has another run begin, also when it is lost.
        let copies = run.terms.copies.filter(|_| kind != "fail");
        let within = engine.request_timeout(record.ttl());
        let request = || async move {
            Ok(match copies {
                Some(copies) => {
                    let (written, said) = Written::new(engine, finish, copies, within).await?;
                    (said, Some((written, copies)))
                }
                None => (engine.ask(finish, within).await?, None),
            })
        };
        let ended = self.end_by(request, |(said, _)| said.is_ok()).await;
        let name = record.name.clone();
        match ended {
            Ok((Ok(()), None)) => Ok(()),
            Ok((Ok(()), Some((written, copies)))) => {
                let confirmed = enough(written, copies).await;
                confirmed.map_err(|source| OnceError::NotReplicated { name, source })
            }
            Ok((Err(fence), _)) => Err(OnceError::Stale { name, fence }),
            Err(source) => Err(OnceError::NotStored { name, source }),
        }
    }
}

/// The text of a failure as it is kept, cut off between two characters.
fn shortened(error: &impl ToString) -> Cow<'static, [u8]> {
    let mut text = error.to_string();
    let cuts = 0..=text.len().min(MESSAGE_MAX);
    let end = cuts.rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    Cow::Owned(text.into_bytes())
}

run_mode! {
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::once::{OnceStart, OnceState};
    ///
    /// let sent = client.once("mail/42");
    /// if let OnceStart::Run(run) = sent.begin().await? {
    ///     run.cancel().await?; // there is no paper
    /// }
    /// assert_eq!(sent.state().await?, OnceState::Absent);
    /// # Ok(()) }
    /// ```
    OnceRun, OnceError
}
