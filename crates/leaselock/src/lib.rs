//! Distributed locks as leases.
//!
//! Redis or Valkey holds the locks of many machines; a folder of small files holds those of one machine. A lock is a
//! *lease*: it expires unless its holder renews it, and the client renews it in the background. The holder is notified
//! before it expires. Each grant has a fencing token, with which the protected resource can refuse a stale holder.
//!
//! ```
//! use std::time::Duration;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = leaselock::Client::open("mem:")?; // or redis://…, or file:
//!     let mutex = client.mutex("invoices/2026-07").ttl(Duration::from_secs(30));
//!
//!     // Queues, renews the lease in the background, and drops the work when the lease is lost.
//!     mutex.run(|lease| settle_invoices(lease.sequencer())).await?;
//!
//!     let lease = mutex.acquire_within(Duration::from_secs(5)).await?; // or step by step
//!     lease.check()?; // between two steps of work: stop when the lease is gone
//!     lease.release().await?; // says whether it was ours to the end
//!     Ok(())
//! }
//!
//! async fn settle_invoices(sequencer: Option<leaselock::Sequencer>) -> std::io::Result<()> {
//!     println!("the resource refuses an older sequencer than {sequencer:?}");
//!     Ok(())
//! }
//! ```
//!
//! # Which type do I need?
//! | | |
//! |---|---|
//! | [`Client`] | a store, or a majority of independent servers: it makes locks, inspects and breaks them |
//! | [`Mutex`] | the lock of one name, with its [options] |
//! | [`RwLock`] | many readers of one name, or one writer |
//! | [`Semaphore`] | a limited number of permits of one name |
//! | [`MultiLock`](multilock::MultiLock) | the locks of several names under one lease, in any order without deadlock |
//! | [`Lease`] | a lock that is held, in one of the [modes](lease); dropping it releases it in the background |
//! | [`Owner`] | a line of work that may acquire again what it holds |
//! | [`Election`](election::Election) | who leads, its term, and followers that see it |
//! | [`Once`](once::Once) | work that runs once for a key; all callers get its result |
//! | [`Cron`](cron::Cron) | ticks of a schedule, each of which one of several hosts runs |
//! | [`Latch`](latch::Latch), [`Barrier`](barrier::Barrier) | parties that wait for each other |
//! | [`Limiter`](limiter::Limiter) | so many permits in a period, for all clients together |
//! | [`Counter`](counter::Counter) | a number that counts each change exactly once |
//! | [`LossWatch`] | a future that resolves when the lease is lost |
//! | [`AcquireError`] | each variant says what you hold after it |
//!
//! What a client makes of a name has no state, but a `Barrier` its generation: clone, share, keep it. Setters return it.
//!
//! Programs without async call the same methods through [`Client::block_on`].
//!
//! # Guarantees
//! | | |
//! |---|---|
//! | a lease ends | for its holder no later than at its deadline, which is counted from before the request was sent |
//! | a late grant | one whose reply arrives after its deadline is given back and not used |
//! | a fencing token | is larger than every earlier one of this name, unless the store and its clock went back; readers that hold together have one |
//! | what a dropped future left behind | is cleaned up in the background |
//!
//! No lock can stop a write that is in flight already. Only a resource that compares [fencing tokens](Fence) can.
//!
//! # Choosing a store
//! | URL | locks exclude | on a restart |
//! |---|---|---|
//! | `redis://`, `rediss://`, `redis+unix://` | all clients of this server | as its persistence keeps them; see [`strict`](ClientBuilder::strict) |
//! | `redis+sentinel://`, `redis+cluster://` | all clients of the primary | a failover may lose a grant; see [`min_replicas`](Mutex::min_replicas) |
//! | an odd number from three, separated by spaces | all clients of a majority | a restarted server stays out of votes |
//! | `file:`, `file:///folder` | all processes of this machine that use the folder | leases end with their process |
//! | `mem:name` | all clients of this process that use the name; `mem:` is private | for tests |
//!
//! # Waiting
//! Waiters queue on the store, FIFO within a [priority](Mutex::priority). A release and the next grant are one atomic
//! step, and one message wakes the waiter. [`Wait`] has the other policies. A held lock is busy for its holder too, unless an
//! [`Owner`] acquires it again.
//!
//! # Cancellation
//! Every future can be dropped; its *Cancel safety* section, or that of the method to which it refers, says what may have
//! happened then. One that has neither only reads. A dropped acquisition leaves the queue in the background.
//! [`Client::close`] waits for such cleanup.
//!
//! # Testing
//! `mem:` needs no server, and [`Clock::manual`](clock::Clock::manual) lets a lease expire when the test says so.
//!
//! # Crate features
//! | | default | |
//! |---|---|---|
//! | `redis` | yes | locks on Redis or Valkey |
//! | `embedded` | yes | locks in a folder or in memory; compiles Lua with a C compiler |
//! | `tls` | | `rediss://` |
//! | `redis-connection` | | a client or a connection of redis-rs that the program hands in; `interop::redis`, which follows redis-rs |
//! | `serde` | | what [`inspect`] and [`report`] have is `Serialize`: times as `…_unix_ms`, lengths of time as `…_ms`; [`Name`], [`Fence`], [`Sequencer`], [`Wait`] and [`Rate`](limiter::Rate) are `Deserialize` too; [`Once::run_json`](once::Once::run_json) |

#![cfg_attr(docsrs, feature(doc_cfg))]
// What one store, or a connection that is handed in, alone needs is compiled without it too, so that no switch stands above
// `store/`. With all features on, these lints judge every line.
#![cfg_attr(
    not(all(feature = "redis-connection", feature = "embedded")),
    allow(
        dead_code,
        unreachable_code,
        unreachable_pub,
        unused_imports,
        unused_variables
    )
)]

#[cfg(not(unix))]
compile_error!("leaselock needs a Unix system; Linux is tested.");
#[cfg(not(any(feature = "redis", feature = "embedded")))]
compile_error!("leaselock needs a store: switch on the feature `redis`, `embedded` or both.");

mod attach;
pub mod barrier;
pub(crate) mod base;
mod client;
pub mod counter;
pub mod cron;
pub mod election;
pub(crate) mod engine;
#[cfg(feature = "redis")]
mod functions;
pub mod interop;
#[cfg(feature = "serde")]
mod json;
#[cfg(all(test, feature = "serde", feature = "redis"))]
mod json_tests;
pub mod latch;
pub mod limiter;
pub mod multilock;
mod mutex;
pub mod once;
pub(crate) mod quorum;
pub mod rwlock;
mod script;
#[cfg(all(test, feature = "redis", feature = "embedded"))]
mod script_tests;
pub mod semaphore;
mod store;

pub use crate::base::error::{
    AcquireError, ErrorKind, LeaseError, Lost, LostReason, OperationError, ReleaseError, StoreError,
};
pub use crate::client::Client;
pub use crate::client::builder::ClientBuilder;
pub use crate::client::run::RunError;
pub use crate::engine::guard::lease::{Lease, LeaseView};
pub use crate::engine::guard::owner::Owner;
pub use crate::engine::services::lease::loss::LossWatch;
pub use crate::engine::values::request::Wait;
pub use crate::mutex::Mutex;
pub use crate::rwlock::lock::RwLock;
pub use crate::semaphore::lock::Semaphore;
pub use leaselock_fence::{Fence, Name, Sequencer};

/// How a lease is held, as the parameter of [`Lease`], and its state.
pub mod lease {
    pub use crate::election::mode::Leader;
    pub use crate::engine::guard::lease::LeaseState;
    pub use crate::engine::guard::lease::handle::{Detachable, Exclusive, Mode, SingleName};
    pub use crate::multilock::mode::Several;
    pub use crate::rwlock::mode::{Shared, Upgradable};
    pub use crate::semaphore::lock::Permits;
}

/// Errors of less frequent operations; those of acquiring, extending and releasing are at the crate root.
pub mod error {
    pub use crate::base::error::{
        BreakError, InvalidInput, Link, NodeVote, Remains, RequestError, Vote,
    };
}

/// Options of a lock, the report of a waiting acquisition, TLS, and the defaults.
pub mod options {
    pub use crate::base::clock::{DEFAULT_TTL, TTL_MAX, TTL_MIN};
    pub use crate::client::options::{DEFAULT_DRIFT_PPM, Options};
    pub use crate::client::target::DEFAULT_LONGEST_TTL;
    pub use crate::engine::shared_state::recorded_run::OnCrash;
    pub use crate::engine::values::request::{
        DEFAULT_RETRY_DELAY, DEFAULT_RETRY_JITTER_PERCENT, Waiting,
    };
    #[cfg(feature = "tls")]
    pub use crate::store::tls_options::TlsOptions;
}

/// The state of a lock, seen from outside, and breaking a lock.
pub mod inspect {
    pub use crate::base::printable::printable;
    pub use crate::base::process::Process;
    pub use crate::client::inspection::{
        BreakOptions, BreakOutcome, Holder, Holding, Inspection, Waiter,
    };
    pub use crate::engine::values::kind::LockMode;
}

/// Reports of a client about its store and about itself.
pub mod report {
    pub use crate::client::{CloseReport, Distribution, KindStats, Stats};
    pub use crate::engine::values::log::LogEntry;
    #[cfg(feature = "redis")]
    pub use crate::store::functions::LoadedFunctions;
    pub use crate::store::report::{Finding, Guarantee, Report, Verdict};
}

/// Leases that belong to no process, and leases that another process has lent.
pub mod detached {
    pub use crate::client::detached::DetachedLease;
    pub use crate::client::lease_handle::Handle;
}

/// Strict mode: a server that may have forgotten leases grants none until all of them have expired.
pub mod strict {
    pub use crate::base::error::Quarantine;
    pub use crate::engine::values::gate::StrictStatus;
}

/// The clock of a client: the machine's, or one that a test moves.
pub mod clock {
    pub use crate::base::clock::{Clock, Moment};
}

/// What the crates of this workspace share, and no program needs. No part of the API.
#[doc(hidden)]
pub mod satellite {
    pub use crate::base::process::{operator, tame};
    pub use crate::base::span::{rounded, span};
    pub use crate::cron::{LATE_MAX, TickCalls};
    pub use crate::engine::services::ids::Serving;
    pub use crate::limiter::Taken;
}

/// Every kind of lock.
static KINDS: &[&engine::values::kind::Kind] = &[
    &mutex::MUTEX,
    &rwlock::READ,
    &rwlock::UPGRADE,
    &rwlock::DOWNGRADE,
    &semaphore::PERMITS,
    &election::LEADERSHIP,
    &once::ONCE,
    &cron::CRON,
];

/// The scripts of what holds nothing.
static SCRIPTS: &[script::Scripts] = &[
    latch::SCRIPTS,
    barrier::SCRIPTS,
    limiter::SCRIPTS,
    counter::SCRIPTS,
];

/// What the compiler warns of when it is dropped by mistake, and does not when it is kept.
#[cfg(doctest)]
mod must_use {
    macro_rules! warns {
        ($($name:ident: $code:literal;)+) => {
            $(
                #[doc = concat!("```compile_fail\n#![deny(unused_must_use)]\n", warns!("", $code))]
                #[doc = concat!("```\n#![deny(unused_must_use)]\n", warns!("let _kept = ", $code))]
                struct $name;
            )+
        };
        ($kept:literal, $code:literal) => {
            concat!("async fn f(lease: leaselock::Lease, mutex: leaselock::Mutex) { ", $kept, $code, "; }\n```\n")
        };
    }
    warns! {
        Handle: "lease.detach().await.unwrap()";
        LossWatch: "lease.lost()";
        Run: "mutex.run(async |_| Err::<(), _>(\"no\")).await";
    }
}

/// The pages whose code is compiled and run as doc tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[cfg(feature = "redis")]
    #[doc = include_str!("../README.md")]
    struct CratePage;
    #[cfg(feature = "redis")]
    #[doc = include_str!("../../../docs/tutorial.md")]
    struct Tutorial;
    #[doc = include_str!("../../../docs/choosing.md")]
    struct Choosing;
    #[doc = include_str!("../../../docs/recipes.md")]
    struct Recipes;
    #[doc = include_str!("../../../docs/mutex.md")]
    struct Mutex;
    #[doc = include_str!("../../../docs/rwlock.md")]
    struct RwLock;
    #[doc = include_str!("../../../docs/semaphore.md")]
    struct Semaphore;
    #[doc = include_str!("../../../docs/owner.md")]
    struct Owner;
    #[doc = include_str!("../../../docs/election.md")]
    struct Election;
    #[doc = include_str!("../../../docs/once.md")]
    struct Once;
    #[doc = include_str!("../../../docs/cron.md")]
    struct Cron;
    #[doc = include_str!("../../../docs/latch.md")]
    struct Latch;
    #[doc = include_str!("../../../docs/fencing.md")]
    struct Fencing;
    #[doc = include_str!("../../../docs/limiter.md")]
    struct Limiter;
    #[doc = include_str!("../../../docs/http.md")]
    struct Http;
    #[doc = include_str!("../../../docs/counter.md")]
    struct Counter;
    #[doc = include_str!("../../../docs/multilock.md")]
    struct MultiLock;
    #[doc = include_str!("../../../docs/from-node.md")]
    struct FromNode;
    #[doc = include_str!("../../../docs/from-python.md")]
    struct FromPython;
    #[doc = include_str!("../../../docs/from-go.md")]
    struct FromGo;
    #[doc = include_str!("../../../docs/from-java.md")]
    struct FromJava;
    #[doc = include_str!("../../../docs/sharing.md")]
    struct Sharing;
    #[doc = include_str!("../../../docs/protocols.md")]
    struct Protocols;
    #[doc = include_str!("../../../docs/testing.md")]
    struct Testing;
    #[cfg(feature = "redis")]
    #[doc = include_str!("../../../docs/quorum.md")]
    struct Quorum;
}
