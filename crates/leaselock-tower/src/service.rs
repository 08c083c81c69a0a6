//! The service behind a layer, and how a layer decides about a request.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use tower_service::Service;

/// A layer that answers some requests by itself.
pub trait Admit: Clone + 'static {
    /// What a request keeps until the service has returned its response.
    type Admitted: Send + 'static;

    /// Decides whether a request reaches the service.
    fn admit(
        &self,
        request: &mut Parts,
    ) -> impl Future<Output = Result<Self::Admitted, Refusal>> + Send + 'static + use<Self>;

    /// Takes back what the request kept, and adds to the headers of the service's response.
    fn answer(admitted: Self::Admitted, _headers: &mut HeaderMap) {
        drop(admitted);
    }
}

/// The answer to a request that does not reach the service.
#[derive(Debug)]
pub struct Refusal {
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

/// A service behind one of the layers of this crate, `L`.
#[derive(Debug, Clone)]
pub struct LayeredService<L, S> {
    layer: L,
    inner: S,
}

impl<L: Admit, S> LayeredService<L, S> {
    pub(super) fn new(layer: &L, inner: S) -> Self {
        let layer = layer.clone();
        LayeredService { layer, inner }
    }
}

impl<L, S, B, R> Service<Request<B>> for LayeredService<L, S>
where
    L: Admit,
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
        let admission = self.layer.admit(&mut parts);
        let request = Request::from_parts(parts, body);
        // The clone may not be ready; the service that was polled is.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            let admitted = match admission.await {
                Ok(admitted) => admitted,
                Err(refusal) => return Ok(refusal.response()),
            };
            let mut response = inner.call(request).await?;
            L::answer(admitted, response.headers_mut());
            Ok(response)
        })
    }
}
