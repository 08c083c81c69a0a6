//! Layers of tower for HTTP services: how often and how many at a time, for all processes of a service together, and
//! which holder of a lock.
//!
//! | a layer | stands on | lets a request through | answers by itself |
//! |---|---|---|---|
//! | [`LimiterLayer`] | a [`Limiter`](crate::Limiter) | so often in a period | 429 *Too Many Requests*, with `Retry-After` |
//! | [`SemaphoreLayer`] | a [`Semaphore`](crate::Semaphore) | so many at a time | 503 *Service Unavailable*; 429 when each client has its own |
//! | [`FenceLayer`] | a [fence checker](crate::fence_checker) | of the newest holder of a lock | 412, 428 |
//!
//! A service with both limits has the semaphore outside and the limiter inside: the permit comes first, and the rate is
//! used while the permit is held. The other way round a request would use up a part of the rate and then be refused.
//!
//! Answers have no body, and nothing of the store or of the name of a lock.
//!
//! # Examples
//! ```
//! # #[derive(Clone)] struct Api;
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leaselock::http::{LimiterLayer, SemaphoreLayer};
//! use std::time::Duration;
//! use tower_layer::Layer;
//!
//! # let client = leaselock::Client::connect("mem:")?;
//! let rate = client.limiter("api").rate(100, Duration::from_secs(1));
//! let slots = client.semaphore("api-slots", 10);
//! let service = LimiterLayer::new(rate)?.layer(Api);
//! let service = SemaphoreLayer::new(slots)?.layer(service); // outside
//! # drop(service);
//! # Ok(()) }
//! ```

mod admission;
mod fence_checker;
mod limiter;
mod rate_limit_fields;
mod semaphore;
mod service;

pub use self::admission::OnError;
pub use self::fence_checker::{FENCE_SEEN, FenceLayer, FenceService, SEQUENCER};
pub use self::limiter::{LimiterLayer, LimiterService};
pub use self::semaphore::{SemaphoreLayer, SemaphoreService};
pub use self::service::LayeredService;
