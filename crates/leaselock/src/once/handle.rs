//! The handle of work that runs once.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::calls::{AskedWork, Forget, InspectRun, ONCE, OnceTerms};
use super::error::OnceError;
use super::state::OnceState;
use crate::base::hex::hex;
use crate::base::{InvalidInput, span};
use crate::client::Client;
use crate::client::named::Named;
use crate::engine::shared_state::noun::name_and_validate;
use crate::engine::shared_state::recorded_run::{OnCrash, run_setters};
use crate::engine::values::kind::Resource;
use crate::engine::values::request::{Copies, Wait, Waiting};
use crate::engine::ways::begin_run::RunTerms;

/// How long a result is kept by default.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest and the longest time for which a result is kept.
const KEPT_MIN: Duration = Duration::from_secs(1);
const KEPT_MAX: Duration = DAY.saturating_mul(30);
/// A request without a fingerprint.
const NO_FINGERPRINT: &str = "-";
/// So many bytes of a hash tell requests apart.
const FINGERPRINT_BYTES: usize = 16;

/// Work that runs once for a key. Every caller gets the result of that run, now and until the result is not kept any
/// more.
///
/// One caller runs the work, and the others wait for its result. The run holds the [`Mutex`](crate::Mutex) of that name,
/// which is renewed, and the record of its result lies beside it. A run that crashed is followed by another, or by none
/// ([`on_crash`](Once::on_crash)).
///
/// A key that a user has chosen may be no [name](crate::Name): [`Name::escaped`](crate::Name::escaped) makes one of it.
///
/// Not on a majority of servers, which vote on a holder and not on a record.
///
/// # Examples
/// ```
/// use leaselock::options::OnCrash;
///
/// # async fn charge(_: leaselock::Fence) -> std::io::Result<&'static str> { Ok("receipt 7") }
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// let charged = client
///     .once("charge/42")
///     .fingerprint("42,00 EUR from card 7")
///     .on_crash(OnCrash::Refuse)
///     .keep_failures(true); // nobody is charged twice, while the store keeps the record
/// let receipt = charged.run(|run| async move { charge(run.fence()).await }).await?;
/// let again = charged.run(|run| async move { charge(run.fence()).await }).await?;
/// assert_eq!(receipt.value, again.value);
/// assert!(receipt.ran_here && !again.ran_here);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "work does nothing until it is run"]
pub struct Once {
    pub(crate) named: Named,
    /// Without the channel.
    terms: OnceTerms,
}

impl Client {
    /// Returns the work of this key, with the client's default options. The first operation reports a bad key.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let sent = client.once("mail/42");
    /// sent.run(|_| async { Ok::<_, std::io::Error>("sent") }).await?;
    /// # Ok(()) }
    /// ```
    pub fn once(&self, key: impl Into<String>) -> Once {
        let mut named = Named::new(&self.state, &ONCE, key.into());
        let copies = named.options.copies.take(); // of the result, and not of the grant
        Once {
            named,
            terms: OnceTerms {
                copies,
                fingerprint: NO_FINGERPRINT.to_owned(),
                kept: DAY,
                pause: Duration::ZERO,
                attempts: None,
                on_crash: OnCrash::Again,
                keeps_failures: false,
                channel: String::new(),
            },
        }
    }
}

impl Once {
    run_setters!();

    /// Sets how long a caller waits while another one runs; for ever by default. [`Wait::Poll`] is refused.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.named.options.wait = Some(wait);
        self
    }

    /// Sets a callback for every poll while a caller waits. It must not block.
    pub fn on_wait(mut self, callback: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.named.options.on_wait = Some(Arc::new(callback));
        self
    }

    /// Sets how long a result is kept after its run: 1 s to 30 days, a day by default.
    ///
    /// A run that crashed is remembered for so long too, and for seven days at least.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let day = std::time::Duration::from_secs(86_400);
    /// let charge = client.once("charge/42").keep_for(30 * day); // as long as a caller may repeat the request
    /// charge.validate()?;
    /// # Ok(()) }
    /// ```
    pub fn keep_for(mut self, kept: Duration) -> Self {
        self.terms.kept = kept;
        self
    }

    /// Sets what the request says, of which a hash is kept. A caller with another request under the same key is refused.
    ///
    /// Without it any two requests of a key count as the same.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::once::OnceError;
    ///
    /// let charge = |cents: &str| client.once("charge/42").fingerprint(cents);
    /// let done = async || Ok::<_, std::io::Error>(b"receipt 7");
    /// charge("1000").run(|_| done()).await?;
    /// let other = charge("9999").run(|_| done()).await.unwrap_err();
    /// assert!(matches!(other, OnceError::Mismatch { .. })); // the same key for another request
    /// # Ok(()) }
    /// ```
    pub fn fingerprint(mut self, request: impl AsRef<[u8]>) -> Self {
        let hash = Sha256::digest(request.as_ref());
        self.terms.fingerprint = hex(&hash[..FINGERPRINT_BYTES]);
        self
    }

    /// Sets how many runs may begin, those that crash included; any number by default.
    pub fn max_attempts(mut self, most: u32) -> Self {
        self.terms.attempts = Some(most);
        self
    }

    /// Sets whether another run may begin after one that crashed: [`OnCrash::Again`] by default.
    pub fn on_crash(mut self, then: OnCrash) -> Self {
        self.terms.on_crash = then;
        self
    }

    /// Sets for how long no other run begins after a failure; none by default. At most 30 days.
    pub fn retry_after(mut self, pause: Duration) -> Self {
        self.terms.pause = pause;
        self
    }

    /// Sets whether a failure is kept as a result is, so that no other run begins; `false` by default.
    pub fn keep_failures(mut self, keep: bool) -> Self {
        self.terms.keeps_failures = keep;
        self
    }

    /// Requires that `count` replicas confirm the result within `timeout`, before [`run`](Once::run) or
    /// `finish` of the [run](crate::once::OnceRun) returns it; or a failure that is kept. Beginning a run is not confirmed.
    ///
    /// At least one replica; the timeout is from 1 ms to less than the ttl. With too few the error is
    /// [`OnceError::NotReplicated`]: the result is stored all the same. This narrows what a failover can lose and does not
    /// close it, because a replica without the result may be promoted. Only where
    /// [`Mutex::min_replicas`](crate::Mutex::min_replicas) is possible.
    pub fn min_replicas(mut self, count: u32, timeout: Duration) -> Self {
        self.terms.copies = Some(Copies::new(count, None, timeout));
        self
    }

    /// Requires that the server and `replicas` replicas have the result on disk, as
    /// [`Mutex::fsynced`](crate::Mutex::fsynced); replaces [`min_replicas`](Self::min_replicas).
    pub fn fsynced(mut self, replicas: u32, timeout: Duration) -> Self {
        self.terms.copies = Some(Copies::new(replicas, Some(true), timeout));
        self
    }

    name_and_validate!(named, terms, "key", ": the key or an option.");

    /// Refuses what the work cannot have, and returns what every request says of it.
    pub(super) fn terms(&self) -> Result<(Resource, OnceTerms), InvalidInput> {
        let options = &self.named.options;
        let (kept, pause) = (self.terms.kept, self.terms.pause);
        let wrong = if !(KEPT_MIN..=KEPT_MAX).contains(&kept) {
            let kept = span(kept);
            format!("a result is kept for 1 s to 30 days, and not {kept}")
        } else if pause > kept {
            let (pause, kept) = (span(pause), span(kept));
            format!(
                "a pause of {pause} outlasts the record of the failure, which is kept for {kept}"
            )
        } else if self.terms.attempts == Some(0) {
            "0 attempts allow no run: allow at least one".to_owned()
        } else if let Wait::Poll { .. } = options.wait_policy() {
            "a caller waits for the result, and retries nothing: use `Wait::Timeout`, `Forever` or `Never`".to_owned()
        } else {
            let (resource, channel) = self.named.of_run(AskedWork::NOUN)?;
            if let Some(copies) = self.terms.copies {
                copies.check(options.length())?;
                self.named.state.engine.check_replicas()?;
            }
            let terms = self.terms.clone();
            return Ok((resource, OnceTerms { channel, ..terms }));
        };
        Err(InvalidInput::new(wrong))
    }

    /// Returns what is known of the latest run, by one request of two seconds at most. Another caller's request, and so its
    /// fingerprint, does not matter.
    ///
    /// # Errors
    /// [`OnceError::Acquire`] for a bad key or option, [`OnceError::Store`] when the store did not reply.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// use leaselock::once::OnceState;
    ///
    /// let sent = client.once("mail/42");
    /// assert_eq!(sent.state().await?, OnceState::Absent);
    /// sent.run(|_| async { Ok::<_, std::io::Error>("sent") }).await?;
    /// assert!(matches!(sent.state().await?, OnceState::Done(result) if result.value == b"sent"));
    /// # Ok(()) }
    /// ```
    pub async fn state(&self) -> Result<OnceState, OnceError> {
        let (resource, _) = &self.terms()?;
        self.named.request(&InspectRun { resource }).await
    }

    /// Forgets the latest run and its result, so that the next caller runs. Returns true if there was one. One request of
    /// two seconds at most.
    ///
    /// # Cancel safety
    /// When dropped, the run may be forgotten; to forget it again does no harm.
    ///
    /// # Errors
    /// [`OnceError::Running`] when a run holds the name; nothing was changed. Otherwise as [`state`](Once::state).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let sent = client.once("mail/42");
    /// sent.run(|_| async { Ok::<_, std::io::Error>("sent") }).await?;
    /// assert!(sent.forget().await?);
    /// assert!(!sent.forget().await?);
    /// # Ok(()) }
    /// ```
    pub async fn forget(&self) -> Result<bool, OnceError> {
        let (resource, _) = &self.terms()?;
        let forgotten: Result<_, OnceError> = self.named.request(&Forget { resource }).await;
        let name = self.named.name()?.clone();
        forgotten?.map_err(|fence| OnceError::Running { name, fence })
    }
}
