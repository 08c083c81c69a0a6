//! A run, and how it ends.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;

use super::calls::{Finish, OnceTerms};
use super::error::{OnceError, too_large};
use super::state::{OnceResult, RESULT_MAX};
use crate::engine::guard::lease::Lease;
use crate::engine::guard::replicas::Written;
use crate::engine::guard::replicas::confirm::enough;
use crate::engine::shared_state::recorded_run::run_mode;

/// Of a failure the record keeps its text, up to this length.
const MESSAGE_MAX: usize = 4096;

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
        let (name, terms) = (self.name().clone(), Arc::clone(&self.known().terms));
        let (kind, result) = match &outcome {
            Ok(_) if size > RESULT_MAX => ("kept", Cow::Owned(too_large(size).into_bytes())),
            Ok(value) => ("done", Cow::Borrowed(&value[..])),
            Err(error) if terms.keeps_failures => ("kept", shortened(error)),
            Err(error) => ("fail", shortened(error)),
        };
        let (fence, attempt) = (self.fence(), self.attempt());
        let retry_in = (kind == "fail").then_some(terms.pause);
        let engine = Arc::clone(self.parts().0);
        let stored = self.store(&terms, kind, &result).await;
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
                attempt,
            }),
            Err(error) => Err(OnceError::Failed {
                name,
                fence,
                attempt,
                message: error.to_string(),
                retry_in,
                source: Some(Arc::new(error)),
            }),
        }
    }

    /// Stores it, and ends the lease, which the same step gives back.
    async fn store(
        self,
        terms: &OnceTerms,
        kind: &'static str,
        result: &[u8],
    ) -> Result<(), OnceError> {
        let (engine, record, _) = self.parts();
        let (engine, record) = (Arc::clone(engine), Arc::clone(record));
        let engine = &*engine;
        let finish = &Finish {
            resource: &record.resource,
            token: &record.token,
            kind,
            result,
            fence: self.fence(),
            attempt: self.attempt(),
            terms,
        };
        // A failure that is not kept has another run begin, also when it is lost.
        let copies = terms.copies.filter(|_| kind != "fail");
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
    let mut end = text.len().min(MESSAGE_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
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
