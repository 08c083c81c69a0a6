//! The client without async.

use leaselock_fence::Name;

use super::barrier::Barrier;
use super::borrowed::BorrowedLease;
use super::counter::Counter;
use super::cron::Cron;
use super::detached::DetachedLease;
use super::election::Election;
use super::latch::Latch;
use super::limiter::Limiter;
use super::mutex::Mutex;
use super::once::Once;
use super::rwlock::RwLock;
use super::semaphore::Semaphore;
use super::wait::{refused_name, wait};
use crate::base::error::{BreakError, ExtendError, InspectError, InvalidInput, StoreError};
use crate::client::inspection::{BreakOptions, BreakOutcome, Inspection};
use crate::client::lease_handle::Handle;
use crate::client::lending::LentHandle;
use crate::client::{CloseReport, Stats};
use crate::engine::guard::lease::LeaseView;
use crate::engine::values::gate::StrictStatus;
#[cfg(feature = "redis")]
use crate::store::functions::LoadedFunctions;
use crate::store::report::Report;

/// A [`Client`](crate::Client) whose calls block the calling thread.
#[derive(Debug, Clone)]
pub struct Client {
    client: crate::Client,
}

impl From<crate::Client> for Client {
    fn from(client: crate::Client) -> Self {
        Client { client }
    }
}

impl Client {
    /// As [`Client::connect`](crate::Client::connect).
    ///
    /// # Errors
    /// [`InvalidInput`] says what is wrong with the URL.
    pub fn connect(url: &str) -> Result<Self, InvalidInput> {
        crate::Client::connect(url).map(Client::from)
    }

    /// Returns the lock of this name.
    pub fn mutex(&self, name: impl Into<String>) -> Mutex {
        Mutex {
            client: self.client.clone(),
            mutex: self.client.mutex(name),
        }
    }

    /// Returns the read-write lock of this name.
    ///
    /// ```
    /// # let client = leaselock::blocking::Client::connect("mem:")?;
    /// let lock = client.rwlock("config");
    /// let (one, other) = (lock.read()?, lock.read()?);
    /// assert!(lock.try_write()?.is_none());
    /// # one.release()?;
    /// # other.release()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn rwlock(&self, name: impl Into<String>) -> RwLock {
        RwLock {
            client: self.client.clone(),
            lock: self.client.rwlock(name),
        }
    }

    /// Returns the semaphore of this name with this number of permits.
    ///
    /// ```
    /// # let client = leaselock::blocking::Client::connect("mem:")?;
    /// let pool = client.semaphore("connections", 3);
    /// let two = pool.acquire_many(2)?;
    /// assert!(pool.try_acquire_many(2)?.is_none());
    /// # two.release()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn semaphore(&self, name: impl Into<String>, permits: u32) -> Semaphore {
        Semaphore {
            client: self.client.clone(),
            semaphore: self.client.semaphore(name, permits),
        }
    }

    /// Returns the election of this name.
    ///
    /// ```
    /// # let client = leaselock::blocking::Client::connect("mem:")?;
    /// let leading = client.election("scheduler").value("10.0.0.5:8080").campaign()?;
    /// leading.proclaimed()?; // for those who read; the leader need not wait
    /// let seen = client.election("scheduler").leader()?.expect("we lead");
    /// assert_eq!((seen.value.as_str(), seen.term), ("10.0.0.5:8080", leading.term()));
    /// leading.resign()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn election(&self, name: impl Into<String>) -> Election {
        Election {
            client: self.client.clone(),
            election: self.client.election(name),
        }
    }

    /// Returns the latch of this name for so many parties.
    ///
    /// ```
    /// # let client = leaselock::blocking::Client::connect("mem:")?;
    /// let ready = client.latch("deploy-42", 2);
    /// ready.arrive("shard-1")?;
    /// assert_eq!(ready.arrive("shard-2")?, 0); // none is missing
    /// ready.wait()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn latch(&self, name: impl Into<String>, count: u32) -> Latch {
        Latch {
            client: self.client.clone(),
            latch: self.client.latch(name, count),
        }
    }

    /// Returns the barrier of this name for so many parties.
    ///
    /// ```
    /// # let client = leaselock::blocking::Client::connect("mem:")?;
    /// let phase = client.barrier("phase", 2);
    /// let other = phase.clone();
    /// let other = std::thread::spawn(move || other.wait());
    /// let pass = phase.wait()?;
    /// assert_eq!(other.join().unwrap()?.generation, pass.generation);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn barrier(&self, name: impl Into<String>, parties: u32) -> Barrier {
        Barrier {
            client: self.client.clone(),
            barrier: self.client.barrier(name, parties),
        }
    }

    /// Returns the limiter of this name, which needs a [`rate`](Limiter::rate).
    ///
    /// ```
    /// # let client = leaselock::blocking::Client::connect("mem:")?;
    /// let mails = client.limiter("mails").rate(2, std::time::Duration::from_secs(60));
    /// mails.acquire(2)?;
    /// assert!(!mails.try_acquire(1)?.is_allowed());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn limiter(&self, name: impl Into<String>) -> Limiter {
        Limiter {
            client: self.client.clone(),
            limiter: self.client.limiter(name),
        }
    }

    /// Returns the counter of this name, which begins at 0.
    ///
    /// ```
    /// # let client = leaselock::blocking::Client::connect("mem:")?;
    /// assert_eq!(client.counter("visits").incr()?, 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn counter(&self, name: impl Into<String>) -> Counter {
        Counter {
            client: self.client.clone(),
            counter: self.client.counter(name),
        }
    }

    /// Returns the work of this key.
    ///
    /// ```
    /// # let client = leaselock::blocking::Client::connect("mem:")?;
    /// let sent = client.once("mail/42");
    /// let first = sent.run(|_| Ok::<_, std::io::Error>("sent"))?;
    /// let later = sent.run(|_| Ok::<_, std::io::Error>("sent twice"))?;
    /// assert_eq!(first.value, later.value);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn once(&self, key: impl Into<String>) -> Once {
        Once {
            client: self.client.clone(),
            once: self.client.once(key),
        }
    }

    /// Returns the ticks of a schedule of this name.
    ///
    /// ```
    /// use leaselock::Claim;
    ///
    /// # let client = leaselock::blocking::Client::connect("mem:")?;
    /// let hourly = client.cron("report");
    /// let tick = hourly.state()?.now; // the program works it out
    /// if let Claim::Run(run) = hourly.claim(tick)? {
    ///     run.finish()?; // … after the work
    /// }
    /// assert!(matches!(hourly.claim(tick)?, Claim::Over));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn cron(&self, name: impl Into<String>) -> Cron {
        Cron {
            client: self.client.clone(),
            cron: self.client.cron(name),
        }
    }

    /// Errors of a client's methods name no lock.
    fn about(&self) -> Name {
        refused_name()
    }

    /// As [`Client::owner`](crate::Client::owner).
    pub fn owner(&self, label: impl Into<String>) -> crate::Owner {
        self.client.owner(label)
    }

    /// As [`Client::inherit_owner`](crate::Client::inherit_owner).
    ///
    /// # Errors
    /// [`InvalidInput`] when the text is not such a line.
    pub fn inherit_owner(&self, text: &str) -> Result<crate::Owner, InvalidInput> {
        self.client.inherit_owner(text)
    }

    forwarded! { client:
        /// As [`Client::held`](crate::Client::held).
        held -> Vec<LeaseView>;
        /// As [`Client::stats`](crate::Client::stats).
        stats -> Stats;
    }

    waiting! { client, "Client":
        /// [`InspectError`] when the name is bad or the store does not reply.
        inspect(name: &str) -> Result<Inspection, InspectError>;
        /// [`InspectError`] when the store does not reply.
        list(pattern: &str) -> Result<Vec<Inspection>, InspectError>;
        /// [`BreakError`] says why nothing was broken.
        break_lease(name: &str, terms: BreakOptions) -> Result<BreakOutcome, BreakError>;
        /// [`StoreError`] when the store does not reply.
        doctor() -> Result<Report, StoreError>;
        /// [`StoreError`] when this client is not in strict mode, or the store does not reply.
        init_strict() -> Result<(), StoreError>;
        /// [`StoreError`] when the store does not reply or is not a server.
        strict_status() -> Result<StrictStatus, StoreError>;
        /// [`StoreError`] when the store has no functions, or the user may not load them.
        #[cfg(feature = "redis")]
        load_functions() -> Result<LoadedFunctions, StoreError>;
    }

    /// As [`Client::borrow`](crate::Client::borrow).
    ///
    /// # Errors
    /// [`ExtendError::Lost`] when the lender does not hold it any more; nothing is borrowed after any error.
    pub fn borrow(&self, handle: LentHandle) -> Result<BorrowedLease, ExtendError> {
        let lease = wait(&self.client, self.about(), self.client.borrow(handle))?;
        Ok(BorrowedLease::new(&self.client, lease))
    }

    /// As [`Client::attach`](crate::Client::attach).
    pub fn attach(&self, handle: Handle) -> DetachedLease {
        DetachedLease {
            client: self.client.clone(),
            lease: self.client.attach(handle),
        }
    }

    /// As [`Client::close`](crate::Client::close).
    pub fn close(&self) -> CloseReport {
        let close = async { Ok::<_, StoreError>(self.client.close().await) };
        wait(&self.client, self.about(), close).unwrap_or_default()
    }
}
