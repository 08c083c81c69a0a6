//! The layer that limits how many at a time.

use std::future::Future;
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;
use leaselock::error::InvalidInput;
use leaselock::lease::Permits;
use leaselock::{AcquireError, Lease, Semaphore};
use tower_layer::Layer;

use crate::admission::{OnError, PerRequest, Terms};
use crate::service::{Admit, LayeredService, Refusal};

/// A layer of tower that lets so many requests run at a time, for all processes of a service together.
///
/// A request holds a permit until the service has returned its response, or its client has gone away. What the service
/// still does while the body is sent is not covered. The permit is given back in the background.
///
/// | the request | the answer |
/// |---|---|
/// | gets a permit | that of the service |
/// | gets none in time | 503 *Service Unavailable*; of a [`keyed`](SemaphoreLayer::keyed) layer 429 *Too Many Requests* |
/// | has a name that no semaphore can have | 400 *Bad Request* |
/// | the store does not reply | as [`on_error`](SemaphoreLayer::on_error) says; 503 *Service Unavailable* by default |
///
/// A permit that is lost does not stop its request. More requests may run than there are permits then, until that one is
/// done.
///
/// # Waiting
/// By default a request does not wait: it takes one request to the store. With [`wait`](SemaphoreLayer::wait) it waits in
/// the queue, in order of arrival.
///
/// # Cancel safety
/// When a client goes away, its request leaves the queue, or its permit is given back, in the background.
///
/// # Examples
/// ```
/// # #[derive(Clone)] struct Api;
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leaselock_tower::SemaphoreLayer;
/// use std::time::Duration;
/// use tower_layer::Layer;
///
/// # let client = leaselock::Client::open("mem:")?;
/// let slots = client.semaphore("reports", 4); // for all processes of the service
/// let service = SemaphoreLayer::new(slots)?.wait(Duration::from_secs(2)).layer(Api);
/// # drop(service);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a layer does nothing until it is around a service"]
pub struct SemaphoreLayer {
    semaphore: PerRequest<Option<Semaphore>>,
    terms: Terms,
    /// The answer when no permit is free.
    busy: StatusCode,
}

impl SemaphoreLayer {
    /// Creates a layer with one semaphore for all requests together. It answers 503 when no permit is free.
    ///
    /// # Errors
    /// [`InvalidInput`] says what the semaphore's name or options must be. Nothing is sent.
    pub fn new(semaphore: Semaphore) -> Result<Self, InvalidInput> {
        let semaphore = semaphore.validate()?;
        let mut layer = SemaphoreLayer::keyed(move |_| Some(semaphore.clone()));
        layer.busy = StatusCode::SERVICE_UNAVAILABLE;
        Ok(layer)
    }

    /// Creates a layer with a semaphore for each key: `semaphore_of` names that of a request, such as its user's. It
    /// answers 429 when no permit is free.
    ///
    /// `None` stands for a request without a limit: it passes. A semaphore that has no valid name is answered with 400.
    pub fn keyed(
        semaphore_of: impl Fn(&Parts) -> Option<Semaphore> + Send + Sync + 'static,
    ) -> Self {
        SemaphoreLayer {
            semaphore: PerRequest::new(semaphore_of),
            terms: Terms::default(),
            busy: StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// Sets how long a request waits for a permit; by default it does not. The semaphore's own `wait` has no effect here.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.terms.wait = limit;
        self
    }

    /// Sets what happens when the store does not reply; by default the request is refused.
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.terms.on_error = on_error;
        self
    }
}

/// Returns the permit; `None` when the request passes without one.
async fn admit(
    semaphore: Option<Semaphore>,
    terms: Terms,
    busy: StatusCode,
) -> Result<Option<Lease<Permits>>, Refusal> {
    let Some(semaphore) = semaphore else {
        return Ok(None);
    };
    let acquired = match terms.wait {
        Duration::ZERO => semaphore.try_acquire().await,
        limit => semaphore.acquire_within(limit).await.map(Some),
    };
    match acquired {
        Ok(Some(permit)) => Ok(Some(permit)),
        Ok(None) | Err(AcquireError::TimedOut { .. }) => Err(busy.into()),
        Err(AcquireError::Invalid(_)) => Err(StatusCode::BAD_REQUEST.into()),
        Err(error) => terms.on_error.decide(&error).map(|()| None),
    }
}

/// A service behind a [`SemaphoreLayer`].
pub type SemaphoreService<S> = LayeredService<SemaphoreLayer, S>;

impl<S> Layer<S> for SemaphoreLayer {
    type Service = SemaphoreService<S>;

    fn layer(&self, inner: S) -> SemaphoreService<S> {
        LayeredService::new(self, inner)
    }
}

impl Admit for SemaphoreLayer {
    /// Given back in the background, so that no response waits for the store.
    type Admitted = Option<Lease<Permits>>;

    fn admit(
        &self,
        request: &mut Parts,
    ) -> impl Future<Output = Result<Option<Lease<Permits>>, Refusal>> + Send + 'static + use<>
    {
        admit(self.semaphore.of(request), self.terms, self.busy)
    }
}
