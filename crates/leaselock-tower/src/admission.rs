//! What a program tells a layer: a value for each request, and what to do without the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;

use crate::service::Refusal;

/// What a layer does with a request when the store does not reply or refuses.
///
/// It is about the store alone. A request whose name or cost is out of range is never let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnError {
    /// Answers 503 *Service Unavailable* (fail closed). No limit is exceeded.
    #[default]
    Refuse,
    /// Lets the request through (fail open). While the store is out of reach there is no limit.
    Admit,
}

impl OnError {
    pub(super) fn decide(self, error: &dyn fmt::Display) -> Result<(), Refusal> {
        tracing::warn!(target: "leaselock", %error, on_error = ?self, "a request's limit is not known");
        match self {
            OnError::Refuse => Err(StatusCode::SERVICE_UNAVAILABLE.into()),
            OnError::Admit => Ok(()),
        }
    }
}

/// How long a request waits, and what becomes of it without the store.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terms {
    pub(crate) wait: Duration,
    pub(crate) on_error: OnError,
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
