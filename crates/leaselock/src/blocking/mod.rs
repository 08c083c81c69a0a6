//! Clients, mutexes, read-write locks, semaphores and leases for programs without async.
//!
//! Each call blocks the calling thread while the client's own thread does the work. Do not call these from inside an
//! async runtime: they panic there rather than stop the executor. Readers, writers and
//! holders of permits all get a [`Lease`].
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

mod client;
mod detached;
mod lease;
mod mutex;
mod rwlock;
mod semaphore;

pub use self::client::Client;
pub use self::detached::DetachedLease;
pub use self::lease::Lease;
pub use self::mutex::Mutex;
pub use self::rwlock::RwLock;
pub use self::semaphore::Semaphore;
