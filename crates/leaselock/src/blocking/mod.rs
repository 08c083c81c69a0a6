//! The API for programs without async, in the same words.
//!
//! Each call blocks the calling thread while the client's own thread does the work. Do not call these from inside an
//! async runtime: they panic there rather than stop the executor. Readers, writers and holders of permits all get a
//! [`Lease`]; upgradable readers get an [`UpgradableLease`].
//!
//! Not here: a [`Quorum`](crate::Quorum), and the runs of a schedule: a [`Cron`] claims ticks. An
//! [`Owner`](crate::Owner) has no async method, so it is the same type.
//!
//! ```
//! use leaselock::blocking::Client;
//!
//! let client = Client::connect("mem:")?;
//! let lease = client.mutex("invoices").acquire()?;
//! // the work; lease.is_held() says whether it may go on
//! lease.release()?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

#[macro_use]
mod wait;

mod barrier;
mod borrowed;
mod client;
mod counter;
mod cron;
mod detached;
mod election;
mod latch;
mod lease;
mod limiter;
mod multilock;
mod mutex;
mod once;
mod rwlock;
mod semaphore;
mod upgradable;

pub use self::barrier::Barrier;
pub use self::borrowed::BorrowedLease;
pub use self::client::Client;
pub use self::counter::Counter;
pub use self::cron::{Cron, CronRun};
pub use self::detached::DetachedLease;
pub use self::election::{Election, LeaderObserver, Leadership};
pub use self::latch::Latch;
pub use self::lease::Lease;
pub use self::limiter::Limiter;
pub use self::multilock::{MultiLease, MultiLock};
pub use self::mutex::Mutex;
pub use self::once::{Once, OnceRun, OnceStart};
pub use self::rwlock::RwLock;
pub use self::semaphore::Semaphore;
pub use self::upgradable::UpgradableLease;
