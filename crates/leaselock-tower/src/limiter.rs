//! The layer that limits how often.

use std::future::Future;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use leaselock::error::InvalidInput;
use leaselock::limiter::{Limiter, LimiterError};
use leaselock::satellite::Taken;

use tower_layer::Layer;

use crate::admission::{OnError, PerRequest, Terms};
use crate::rate_limit_fields::{fields, limit_with, limit_without, seconds};
use crate::service::{Admit, LayeredService, Refusal};

/// A layer of tower that lets requests through at a rate, for all processes of a service together.
///
/// | the request | the answer |
/// |---|---|
/// | is within the rate | that of the service |
/// | is not | 429 *Too Many Requests*; `Retry-After` has whole seconds, rounded up |
/// | has a name or a cost that no limiter can have | 400 *Bad Request* |
/// | the store does not reply | as [`on_error`](LimiterLayer::on_error) says; 503 *Service Unavailable* by default |
///
/// The first two have the fields `RateLimit-Policy`, with each rate of the limiter, and `RateLimit`, with the rate that
/// allows the fewest requests: how many now (`r`), and in how many seconds a whole burst (`t`). After 429 it is the rate
/// that allows the request last. A rate is called by its period, as `"60s"`. The fields are those of
/// draft-ietf-httpapi-ratelimit-headers-11.
///
/// # Waiting
/// A request is never kept waiting by another one. It takes one request to the store, of two seconds at most. With
/// [`wait`](LimiterLayer::wait) it also waits for its moment, in order of arrival.
///
/// # Cancel safety
/// When a client goes away while its request waits, the moment is given back, as by
/// [`acquire_many_within`](Limiter::acquire_many_within).
///
/// # Examples
/// ```
/// # #[derive(Clone)] struct Api;
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leaselock::limiter::Rate;
/// use leaselock_tower::{LimiterLayer, OnError};
/// use tower_layer::Layer;
///
/// # let client = leaselock::Client::open("mem:")?;
/// let per_user = LimiterLayer::keyed(move |request| {
///     let user = request.headers.get("x-user")?.to_str().ok()?; // set by the proxy that knows the user
///     Some(client.limiter(format!("user:{user}"), Rate::per_minute(100)))
/// })
/// .cost(|request| if request.uri.path() == "/report" { 10 } else { 1 })
/// .on_error(OnError::Admit);
/// let service = per_user.layer(Api);
/// # drop(service);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a layer does nothing until it is around a service"]
pub struct LimiterLayer {
    limiter: PerRequest<Option<Limiter>>,
    cost: PerRequest<u32>,
    terms: Terms,
}

impl LimiterLayer {
    /// Creates a layer with one limiter for all requests together.
    ///
    /// # Errors
    /// [`InvalidInput`] says what the limiter's name or rate must be. Nothing is sent.
    pub fn new(limiter: Limiter) -> Result<Self, InvalidInput> {
        let limiter = limiter.validate()?;
        Ok(LimiterLayer::keyed(move |_| Some(limiter.clone())))
    }

    /// Creates a layer with a limiter for each key: `limiter_of` names that of a request, such as its user's.
    ///
    /// `None` stands for a request without a limit: it passes. A limiter that has no valid name or rate is answered with
    /// 400, so [`validate`](Limiter::validate) one when the program starts, and make a name of what a client sends by
    /// [`Name::escaped`](leaselock_fence::Name::escaped).
    pub fn keyed(limiter_of: impl Fn(&Parts) -> Option<Limiter> + Send + Sync + 'static) -> Self {
        LimiterLayer {
            limiter: PerRequest::new(limiter_of),
            cost: PerRequest::new(|_| 1),
            terms: Terms::default(),
        }
    }

    /// Sets how many permits a request uses; 1 by default. A request that uses none passes.
    pub fn cost(mut self, cost_of: impl Fn(&Parts) -> u32 + Send + Sync + 'static) -> Self {
        self.cost = PerRequest::new(cost_of);
        self
    }

    /// Sets how long a request waits for its moment; by default it does not. One whose moment is later is refused at once.
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

/// Returns the fields of the service's answer; none when the request passes without a limit.
async fn admit(limiter: Option<Limiter>, cost: u32, terms: Terms) -> Result<HeaderMap, Refusal> {
    let Some(limiter) = limiter.filter(|_| cost > 0) else {
        return Ok(HeaderMap::new());
    };
    let rates = limiter.rates();
    match limiter.take(cost, terms.wait).await {
        Ok(Taken::Allowed { left, rate }) => {
            let limit = rates.get(rate).map(|rate| limit_with(rate, left));
            Ok(fields(rates, limit))
        }
        Ok(Taken::Limited { wait_us, rate } | Taken::Reserved { wait_us, rate }) => {
            let retry_after_s = seconds(Duration::from_micros(wait_us));
            let limit = rates.get(rate);
            let limit = limit.map(|rate| limit_without(rate, retry_after_s));
            let mut headers = fields(rates, limit);
            headers.insert(RETRY_AFTER, retry_after_s.into());
            Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, headers))
        }
        Err(LimiterError::Invalid(_)) => Err(StatusCode::BAD_REQUEST.into()),
        Err(error) => terms.on_error.decide(&error).map(|()| HeaderMap::new()),
    }
}

/// A service behind a [`LimiterLayer`].
pub type LimiterService<S> = LayeredService<LimiterLayer, S>;

impl<S> Layer<S> for LimiterLayer {
    type Service = LimiterService<S>;

    fn layer(&self, inner: S) -> LimiterService<S> {
        LayeredService::new(self, inner)
    }
}

impl Admit for LimiterLayer {
    /// The fields of the response.
    type Admitted = HeaderMap;

    fn admit(
        &self,
        request: &mut Parts,
    ) -> impl Future<Output = Result<HeaderMap, Refusal>> + Send + 'static + use<> {
        let (limiter, cost) = (self.limiter.of(request), self.cost.of(request));
        admit(limiter, cost, self.terms)
    }

    fn answer(fields: HeaderMap, headers: &mut HeaderMap) {
        for (name, value) in &fields {
            headers.append(name, value.clone());
        }
    }
}
