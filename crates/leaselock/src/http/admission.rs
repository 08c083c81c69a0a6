//! What the layers have in common: a value for each request, the way to the service, and the answers without it.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;

use ::http::request::Parts;
use ::http::{HeaderMap, Request, Response, StatusCode};
use tower_service::Service;

/// What a layer does with a request when the store does not reply or refuses.
///
/// It is about the store alone. A request whose name or cost is out of range is never let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Answers 503 *Service Unavailable* (fail closed). No limit is exceeded.
    #[default]
    Refuse,
    /// Lets the request through (fail open). While the store is out of reach there is no limit.
    Admit,
}

impl OnError {
    pub(super) fn decide(self, error: &dyn fmt::Display) -> Result<(), Refusal> {
        tracing::warn!(%error, on_error = ?self, "a request's limit is not known");
        match self {
            OnError::Refuse => Err(StatusCode::SERVICE_UNAVAILABLE.into()),
            OnError::Admit => Ok(()),
        }
    }
}

/// A value for each request, by its method, its URI and its headers.
pub(super) struct PerRequest<T>(Arc<dyn Fn(&Parts) -> T + Send + Sync>);

impl<T> PerRequest<T> {
    pub(super) fn new(value_of: impl Fn(&Parts) -> T + Send + Sync + 'static) -> Self {
        PerRequest(Arc::new(value_of))
    }

    pub(super) fn of(&self, request: &Parts) -> T {
        (self.0)(request)
    }
}

impl<T> Clone for PerRequest<T> {
    fn clone(&self) -> Self {
        PerRequest(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for PerRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerRequest(..)")
    }
}

/// The answer to a request that does not reach the service.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    headers: HeaderMap,
}

impl From<StatusCode> for Refusal {
    fn from(status: StatusCode) -> Self {
        Refusal::new(status, HeaderMap::new())
    }
}

impl Refusal {
    pub(super) fn new(status: StatusCode, headers: HeaderMap) -> Self {
        Refusal { status, headers }
    }

    fn response<R: Default>(self) -> Response<R> {
        let mut response = Response::new(R::default());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

pub(super) type Answer<R, E> = Pin<Box<dyn Future<Output = Result<Response<R>, E>> + Send>>;

/// Calls the service when `admission` lets the request through, and then adds to the headers of its answer.
pub(super) fn serve<S, B, R, P>(
    service: &mut S,
    request: Request<B>,
    admission: impl Future<Output = Result<P, Refusal>> + Send + 'static,
    add: fn(P, &mut HeaderMap),
) -> Answer<R, S::Error>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Default,
    P: Send + 'static,
{
    // The clone may not be ready; the service that was polled is.
    let clone = service.clone();
    let mut service = mem::replace(service, clone);
    Box::pin(async move {
        let admitted = match admission.await {
            Ok(admitted) => admitted,
            Err(refusal) => return Ok(refusal.response()),
        };
        let mut response = service.call(request).await?;
        add(admitted, response.headers_mut());
        Ok(response)
    })
}
