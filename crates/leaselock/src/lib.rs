//! Distributed locks as leases.
//!
//! Redis or Valkey carries the locks when there are many machines; a folder of small files carries them when there is
//! one. Every lock is a *lease*: it ends by itself, its holder is told before it ends, and each grant carries a number
//! (the fencing token) with which the protected resource can turn a stale holder away.
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

#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
mod clock;
mod combine;
mod damage;
mod doctor;
mod error;
mod fence;
#[cfg(feature = "redis")]
mod functions;
mod inspect;
mod keys;
mod lease;
mod mutex;
mod name;
mod options;
mod preset;
mod protocol;
#[cfg(feature = "redis")]
mod quorum;
mod script;
mod skew;
mod store;
mod strict;
mod token;
mod ttl;
mod unseen;
mod votes;
mod wait;

pub use client::builder::ClientBuilder;
pub use client::record::Process;
pub use client::{Client, Closed, Stats};
pub use clock::{Clock, Moment};
pub use doctor::{Check, Fit, Kept, NodeReport, Promise, Report};
pub use error::{
    AcquireError, BreakError, ErrorKind, ExtendError, InspectError, InvalidInput, Lost, LostReason,
    NotHeld, ReleaseError, StoreError,
};
pub use fence::Fence;
pub use inspect::{BreakTerms, Broken, Holder, Holding, InLine, Inspection};
pub use lease::handle::{DetachedLease, Handle};
pub use lease::losing::Losing;
pub use lease::{Held, Lease, LeaseState};
pub use mutex::{Mutex, Ran, RunError};
pub use name::Name;
pub use options::{DRIFT_PPM, Options, RETRY_DELAY, RETRY_JITTER_PERCENT, TTL, Wait, Waiting};
pub use preset::Preset;
pub use protocol::{LATENCY_GUARD, Protocol};
#[cfg(feature = "redis")]
pub use quorum::{LONGEST_TTL, Quorum, QuorumBuilder};
/// The redis client library in the version that connections are handed in from.
#[cfg(feature = "redis")]
pub use redis;
#[cfg(feature = "tls")]
pub use store::redis::TlsOptions;
#[cfg(feature = "redis")]
pub use store::redis::{FunctionsNode, LoadedFunctions};
pub use strict::{Quarantine, StrictStatus};
pub use ttl::{TTL_MAX, TTL_MIN};
pub use votes::{NodeVote, Vote};

/// The pages whose code is compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
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
