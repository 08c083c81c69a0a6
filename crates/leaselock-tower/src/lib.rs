//! Layers of tower for HTTP services: how often and how many at a time, for all processes of a service together, and
//! which holder of a lock.
//!
//! | a layer | stands on | lets a request through | answers by itself |
//! |---|---|---|---|
//! | [`LimiterLayer`] | a `Limiter` of `leaselock` | so often in a period | 429 *Too Many Requests*, with `Retry-After` |
//! | [`SemaphoreLayer`] | a `Semaphore` of `leaselock` | so many at a time | 503 *Service Unavailable*; 429 when each client has its own |
//! | [`FenceLayer`] | a [fence checker](leaselock_fence) | of the newest holder of a lock | 412, 428 |
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
//! use leaselock::limiter::Rate;
//! use leaselock_tower::{LimiterLayer, SemaphoreLayer};
//! use tower_layer::Layer;
//!
//! # let client = leaselock::Client::open("mem:")?;
//! let rate = client.limiter("api", Rate::per_second(100));
//! let slots = client.semaphore("api-slots", 10);
//! let service = LimiterLayer::new(rate)?.layer(Api);
//! let service = SemaphoreLayer::new(slots)?.layer(service); // outside
//! # drop(service);
//! # Ok(()) }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "limits")]
mod admission;
mod fence;
mod fence_stats;
#[cfg(feature = "limits")]
mod limiter;
#[cfg(feature = "limits")]
mod rate_limit_fields;
#[cfg(feature = "limits")]
mod semaphore;
mod service;

#[cfg(feature = "limits")]
pub use crate::admission::OnError;
pub use crate::fence::{FENCE_SEEN, FenceLayer, FenceService, SEQUENCER};
pub use crate::fence_stats::FenceStats;
#[cfg(feature = "limits")]
pub use crate::limiter::{LimiterLayer, LimiterService};
#[cfg(feature = "limits")]
pub use crate::semaphore::{SemaphoreLayer, SemaphoreService};
pub use crate::service::LayeredService;

#[cfg(all(doctest, feature = "limits"))]
#[doc = include_str!("../README.md")]
struct Readme;
