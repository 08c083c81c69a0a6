//! Distributed locks as leases.
//!
//! Redis or Valkey holds the locks when there are many machines; a folder of small files holds them when there is one.
//! Every lock is a *lease*: it expires by itself, and its holder is notified before that. Each grant carries a number
//! (the fencing token) with which the protected resource can refuse a stale holder.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use std::time::Duration;
//!
//! let client = leaselock::Client::connect("mem:")?; // or redis://…, or file:
//! let mutex = client.mutex("invoices/2026-07").ttl(Duration::from_secs(30));
//!
//! let lease = mutex.acquire_within(Duration::from_secs(5)).await?; // renewed in the background
//! tokio::select! {
//!     () = async { /* the work; give lease.fence() to what it changes */ } => {}
//!     lost = lease.lost() => return Err(lost.into()), // stop: the lease is gone
//! }
//! lease.release().await?; // says whether it was still ours
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(unix))]
compile_error!("leaselock needs a Unix system; Linux is tested.");
#[cfg(not(any(feature = "redis", feature = "embedded")))]
compile_error!("leaselock needs a store: switch on the feature `redis`, `embedded` or both.");

pub(crate) mod base;
#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
pub(crate) mod engine;
#[cfg(feature = "redis")]
mod functions;
pub(crate) mod interop;
mod mutex;
pub(crate) mod quorum;
mod script;
mod store;

pub use crate::base::clock::{Clock, Moment};
pub use crate::base::error::Quarantine;
pub use crate::base::error::{
    AcquireError, BreakError, ErrorKind, ExtendError, InspectError, InvalidInput, Lost, LostReason,
    NotHeld, ReleaseError, StoreError,
};
pub use crate::base::error::{NodeVote, Vote};
pub use crate::base::fence::Fence;
pub use crate::base::name::Name;
pub use crate::base::ttl::{TTL, TTL_MAX, TTL_MIN};
pub use crate::client::builder::ClientBuilder;
pub use crate::client::detached::{DetachedLease, Handle};
pub use crate::client::inspect::{BreakOptions, BreakOutcome, Holder, Holding, Inspection, Waiter};
pub use crate::client::options::{DEFAULT_DRIFT_PPM, Options};
#[cfg(feature = "redis")]
pub use crate::client::quorum::{DEFAULT_LONGEST_TTL, Quorum, QuorumBuilder};
pub use crate::client::{AnyClient, Client, CloseReport, Stats};
pub use crate::engine::gate::StrictStatus;
pub use crate::engine::identity::Process;
pub use crate::engine::lease::loss::LossWatch;
pub use crate::engine::lease::{Lease, LeaseState, LeaseView};
pub use crate::engine::request::{
    DEFAULT_RETRY_DELAY, DEFAULT_RETRY_JITTER_PERCENT, Wait, Waiting,
};
pub use crate::interop::preset::Preset;
pub use crate::interop::protocol::{DEFAULT_LATENCY_GUARD, Protocol};
pub use crate::mutex::{Mutex, RunError, RunResult};
#[cfg(feature = "tls")]
pub use crate::store::redis::TlsOptions;
#[cfg(feature = "redis")]
pub use crate::store::redis::{FunctionsNode, LoadedFunctions};
pub use crate::store::report::{Finding, Guarantee, GuaranteeStatus, NodeReport, Report, Verdict};
/// The redis client library, in the version whose connections a program can hand in.
#[cfg(feature = "redis")]
pub use redis;

/// Every kind of lock.
#[cfg(feature = "redis")]
const KINDS: &[&engine::kind::Kind] = &[&mutex::MUTEX];

/// The pages whose code is compiled and run as doc tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[cfg(feature = "redis")]
    #[doc = include_str!("../README.md")]
    struct CratePage;
    #[doc = include_str!("../../../docs/mutex.md")]
    struct Mutex;
    #[doc = include_str!("../../../docs/coming-from.md")]
    struct ComingFrom;
    #[doc = include_str!("../../../docs/presets.md")]
    struct Presets;
    #[doc = include_str!("../../../docs/protocols.md")]
    struct Protocols;
    #[doc = include_str!("../../../docs/interop.md")]
    struct Interop;
    #[doc = include_str!("../../../docs/testing.md")]
    struct Testing;
    #[cfg(feature = "redis")]
    #[doc = include_str!("../../../docs/quorum.md")]
    struct Quorum;
}
