//! The layer that refuses a late holder before the service does.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode};
use leaselock_fence::{Admission, FenceChecker, FenceRefused, Name, Sequencer};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tower_layer::Layer;

use crate::fence_stats::{Checks, FenceStats};
use crate::service::{Admit, LayeredService, Refusal};

/// The header of a request with the text of a [`Sequencer`].
pub const SEQUENCER: &str = "leaselock-sequencer";
/// The header of a 412 with the fencing token that the resource has seen.
pub const FENCE_SEEN: &str = "leaselock-fence-seen";

/// A layer of tower that admits the requests of the newest holder, and refuses those of a late one.
///
/// A holder sends its [`Sequencer`] in the header `Leaselock-Sequencer` with each request.
///
/// | the request | the answer |
/// |---|---|
/// | of the newest holder so far | that of the service, which finds the `Sequencer` in the request's extensions |
/// | of an earlier holder, or of another one with the same number | 412 *Precondition Failed*; `Leaselock-Fence-Seen` has the fencing token that the resource has seen |
/// | without the header | 428 *Precondition Required* |
/// | with a malformed header, or that of another name | 400 *Bad Request* |
///
/// Requests of one holder, and those of readers, run side by side.
///
/// It remembers in memory what it has seen of each name, for the life of the process: **after a restart, or in a second
/// process behind the same address, a late holder is admitted again.** Where that matters, the service also passes the
/// `Sequencer` on to the [checker](leaselock_fence) of what it writes to.
///
/// The service must have done its work when it returns the response: what it still does while the body is sent is not
/// covered.
///
/// # Waiting
/// The first request of a new holder waits until the service has answered the requests of the holder before it, so no
/// late work follows it. Later requests of that name wait behind it, late ones included. There is no time limit: put a
/// timeout layer inside this one.
///
/// # Cancel safety
/// When a client goes away while its request waits, nothing has changed.
///
/// # Examples
/// ```
/// use leaselock_fence::Name;
/// use leaselock_tower::FenceLayer;
///
/// // All that changes an account is guarded by the lock `account`; nothing else is.
/// let layer = FenceLayer::new(|request| {
///     let is_account = request.uri.path().starts_with("/account");
///     is_account.then(|| Name::new("account").ok()).flatten()
/// });
/// # drop(layer);
/// ```
#[derive(Debug, Clone)]
pub struct FenceLayer<F> {
    name_of: F,
    checkers: Arc<Checkers>,
}

/// A service behind a [`FenceLayer`].
pub type FenceService<F, S> = LayeredService<FenceLayer<F>, S>;

impl<F: Fn(&Parts) -> Option<Name>> FenceLayer<F> {
    /// Creates the layer. `name_of` returns the name of the lock that protects what the request is about.
    ///
    /// `None` stands for a request that needs no lock: it passes unchecked.
    pub fn new(name_of: F) -> Self {
        let checkers = Arc::default();
        FenceLayer { name_of, checkers }
    }
}

impl<F> FenceLayer<F> {
    /// Returns what the layer has admitted and refused until now, together with its clones and their services.
    ///
    /// # Examples
    /// ```
    /// # let name_of = |_: &http::request::Parts| None;
    /// use leaselock_tower::FenceLayer;
    ///
    /// let layer = FenceLayer::new(name_of); // keep it, or a clone, beside the service
    /// assert_eq!(layer.stats().checks["stale"], 0); // more: a late holder sent requests
    /// ```
    pub fn stats(&self) -> FenceStats {
        self.checkers.checks.stats()
    }
}

impl<F: Fn(&Parts) -> Option<Name> + Clone + 'static, S> Layer<S> for FenceLayer<F> {
    type Service = FenceService<F, S>;

    fn layer(&self, inner: S) -> FenceService<F, S> {
        LayeredService::new(self, inner)
    }
}

impl<F: Fn(&Parts) -> Option<Name> + Clone + 'static> Admit for FenceLayer<F> {
    /// The next holder waits until it is dropped.
    type Admitted = Option<OwnedRwLockReadGuard<FenceChecker>>;

    fn admit(
        &self,
        request: &mut Parts,
    ) -> impl Future<Output = Result<Self::Admitted, Refusal>> + Send + 'static + use<F> {
        let guarded = (self.name_of)(request).map(|name| (name, shown(&request.headers)));
        if let Some((_, Ok(shown))) = &guarded {
            request.extensions.insert(shown.clone());
        }
        let checkers = Arc::clone(&self.checkers);
        async move {
            let Some((name, shown)) = guarded else {
                return Ok(None);
            };
            Ok(Some(checkers.admit(name, &shown?).await?))
        }
    }
}

/// What the service has seen of each name.
///
/// Requests that are being served hold their checker for reading. To raise it is to write, which waits for them.
#[derive(Debug, Default)]
struct Checkers {
    of_names: Mutex<HashMap<Name, Arc<RwLock<FenceChecker>>>>,
    checks: Checks,
}

/// A checker that a request holds for reading, and how it admitted the request.
type Admitted = (OwnedRwLockReadGuard<FenceChecker>, Admission);

impl Checkers {
    async fn admit(
        &self,
        name: Name,
        shown: &Sequencer,
    ) -> Result<OwnedRwLockReadGuard<FenceChecker>, FenceRefused> {
        let checked = self.check(name, shown).await;
        self.checks.add(&checked);
        checked.map(|(reading, _)| reading)
    }

    async fn check(&self, name: Name, shown: &Sequencer) -> Result<Admitted, FenceRefused> {
        // What is shown for another name is refused before the name of the request is kept.
        let _admission = FenceChecker::new(name.clone()).admit(shown)?;
        let checker = {
            let mut checkers = self.of_names.lock().unwrap_or_else(PoisonError::into_inner);
            let checker = checkers.entry(name.clone());
            let checker = checker.or_insert_with(|| Arc::new(RwLock::new(FenceChecker::new(name))));
            Arc::clone(checker)
        };
        let reading = Arc::clone(&checker).read_owned().await;
        // A late request is refused at once, and does not wait for those that are being served.
        let mut present = FenceChecker::clone(&reading);
        if present.admit(shown)? == Admission::Known {
            return Ok((reading, Admission::Known));
        }
        drop(reading);
        let mut writing = checker.write_owned().await;
        let admission = writing.admit(shown)?; // in memory, there is nothing to store
        Ok((writing.downgrade(), admission))
    }
}

fn shown(headers: &HeaderMap) -> Result<Sequencer, StatusCode> {
    let mut values = headers.get_all(SEQUENCER).iter();
    let value = values.next().ok_or(StatusCode::PRECONDITION_REQUIRED)?;
    let text = value.to_str().map_err(|_| StatusCode::BAD_REQUEST)?;
    let shown = text.trim().parse().map_err(|_| StatusCode::BAD_REQUEST)?;
    match values.next() {
        None => Ok(shown),
        Some(_) => Err(StatusCode::BAD_REQUEST),
    }
}

impl From<FenceRefused> for Refusal {
    fn from(refused: FenceRefused) -> Self {
        use FenceRefused::{OtherOwner, Stale};
        match refused {
            Stale { seen, .. } | OtherOwner { seen, .. } => {
                let seen = (
                    HeaderName::from_static(FENCE_SEEN),
                    seen.fence().get().into(),
                );
                Refusal::new(
                    StatusCode::PRECONDITION_FAILED,
                    HeaderMap::from_iter([seen]),
                )
            }
            _ => StatusCode::BAD_REQUEST.into(), // of another name
        }
    }
}
