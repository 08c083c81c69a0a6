//! The fence checker of an HTTP service: a layer of tower, which answers a late holder before the service does.
//!
//! A holder sends its [`Sequencer`] in the header `Leaselock-Sequencer` with each request.
//!
//! | the request | the answer |
//! |---|---|
//! | of the newest holder so far | that of the service, which finds the `Sequencer` in the request's extensions |
//! | of an earlier holder, or of another one with the same number | 412 *Precondition Failed*; `Leaselock-Fence-Seen` has the fencing token that the resource has seen |
//! | without the header | 428 *Precondition Required* |
//! | with a malformed header, or that of another name | 400 *Bad Request* |

use std::collections::HashMap;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use ::http::request::Parts;
use ::http::{HeaderMap, Request, Response, StatusCode};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tower_layer::Layer;
use tower_service::Service;

use super::checker::{Admission, FenceChecker, FenceRefused};
use crate::base::name::Name;
use crate::base::sequencer::Sequencer;
use crate::base::sync::hold;

/// The header of a request with the text of a [`Sequencer`].
pub const SEQUENCER: &str = "leaselock-sequencer";
/// The header of a 412 with the fencing token that the resource has seen.
pub const FENCE_SEEN: &str = "leaselock-fence-seen";

/// A layer of tower that admits the requests of the newest holder, and refuses those of a late one.
///
/// A request of the next holder waits until the service has answered those of the holder before it, so no late work
/// follows it. Requests of one holder, and those of readers, run side by side.
///
/// It remembers in memory what it has seen of each name, for the life of the process: **after a restart, or in a second
/// process behind the same address, a late holder is admitted again.** Where that matters, the service also passes the
/// `Sequencer` on to the [checker](super) of what it writes to. The service must have done its work when it returns the
/// response: what it still does while the body is sent is not covered.
///
/// # Examples
/// ```
/// use leaselock::Name;
/// use leaselock::fence_checker::http::FenceLayer;
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
#[derive(Debug, Clone)]
pub struct FenceService<F, S> {
    layer: FenceLayer<F>,
    inner: S,
}

impl<F: Fn(&Parts) -> Option<Name>> FenceLayer<F> {
    /// Creates the layer. `name_of` returns the name of the lock that protects what the request is about.
    ///
    /// `None` stands for a request that needs no lock: it passes unchecked.
    pub fn new(name_of: F) -> Self {
        let checkers = Arc::default();
        FenceLayer { name_of, checkers }
    }
}

impl<F: Clone, S> Layer<S> for FenceLayer<F> {
    type Service = FenceService<F, S>;

    fn layer(&self, inner: S) -> FenceService<F, S> {
        let layer = self.clone();
        FenceService { layer, inner }
    }
}

impl<F, S, B, R> Service<Request<B>> for FenceService<F, S>
where
    F: Fn(&Parts) -> Option<Name>,
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let guarded = (self.layer.name_of)(&parts).map(|name| (name, shown(&parts.headers)));
        // The clone may not be ready; the service that was polled is.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let checkers = Arc::clone(&self.layer.checkers);
        Box::pin(async move {
            let mut admitted = None;
            if let Some((name, shown)) = guarded {
                match checkers.admit(name, shown).await {
                    Ok((guard, shown)) => {
                        admitted = Some(guard);
                        parts.extensions.insert(shown);
                    }
                    Err(refused) => return Ok(refused.response()),
                }
            }
            let response = inner.call(Request::from_parts(parts, body)).await;
            drop(admitted);
            response
        })
    }
}

/// What the service has seen of each name.
///
/// Requests that are being served hold their checker for reading. To raise it is to write, which waits for them.
#[derive(Debug, Default)]
struct Checkers(Mutex<HashMap<Name, Arc<RwLock<FenceChecker>>>>);

impl Checkers {
    async fn admit(
        &self,
        name: Name,
        shown: Result<Sequencer, Refused>,
    ) -> Result<(OwnedRwLockReadGuard<FenceChecker>, Sequencer), Refused> {
        let shown = shown?;
        let checker = {
            let mut checkers = hold(&self.0);
            let checker = checkers.entry(name.clone());
            let checker = checker.or_insert_with(|| Arc::new(RwLock::new(FenceChecker::new(name))));
            Arc::clone(checker)
        };
        let reading = Arc::clone(&checker).read_owned().await;
        // A late request is refused at once, and does not wait for those that are being served.
        let mut present = FenceChecker::clone(&reading);
        match present.admit(&shown).map_err(Refused::Fence)? {
            Admission::Known => return Ok((reading, shown)),
            Admission::Raised => drop(reading),
        }
        let mut writing = checker.write_owned().await;
        let _admission = writing.admit(&shown).map_err(Refused::Fence)?; // in memory, there is nothing to store
        Ok((writing.downgrade(), shown))
    }
}

/// Why a request does not reach the service.
enum Refused {
    Missing,
    Malformed,
    Fence(FenceRefused),
}

fn shown(headers: &HeaderMap) -> Result<Sequencer, Refused> {
    let mut values = headers.get_all(SEQUENCER).iter();
    let value = values.next().ok_or(Refused::Missing)?;
    let text = value.to_str().map_err(|_| Refused::Malformed)?;
    let shown = text.trim().parse().map_err(|_| Refused::Malformed)?;
    match values.next() {
        None => Ok(shown),
        Some(_) => Err(Refused::Malformed),
    }
}

impl Refused {
    fn response<R: Default>(self) -> Response<R> {
        let mut response = Response::new(R::default());
        *response.status_mut() = match &self {
            Refused::Missing => StatusCode::PRECONDITION_REQUIRED,
            Refused::Malformed | Refused::Fence(FenceRefused::OtherName { .. }) => {
                StatusCode::BAD_REQUEST
            }
            Refused::Fence(_) => StatusCode::PRECONDITION_FAILED,
        };
        use FenceRefused::{OtherOwner, Stale};
        if let Refused::Fence(Stale { seen, .. } | OtherOwner { seen, .. }) = self {
            let headers = response.headers_mut();
            headers.insert(FENCE_SEEN, seen.fence().get().into());
        }
        response
    }
}
