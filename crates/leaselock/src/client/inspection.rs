//! What is seen of a lock from outside.

use std::time::Duration;

use leaselock_fence::Fence;

use crate::engine::values::identity::{Process, tame};

/// The state of one lock at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The lock's name, without the client's prefix.
    pub name: String,
    /// Whether it is held, and by which client.
    pub state: Holding,
    /// The waiters in queue order; the first 128.
    pub queue: Vec<Waiter>,
    /// The number of all waiters. One that has died counts until a grant finds it gone.
    pub waiter_count: usize,
    /// The permits, if the name was used as a [`Semaphore`](crate::Semaphore) in the last seven days.
    pub permits: Option<PermitCount>,
    /// Damaged keys beside the lock, which some calls are refused for: one sentence each, with the remedy.
    ///
    /// [`list`](crate::Client::list) reads the queue and the fencing tokens only.
    pub damaged: Vec<String>,
}

/// Whether a lock is held.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holding {
    /// No client holds it.
    Free,
    /// A client holds it.
    Held(Holder),
    /// Readers hold it, or holders of permits: at least one.
    #[non_exhaustive]
    Shared {
        /// The holders; of more than 128, those whose leases end first.
        holders: Vec<SharedHolder>,
        /// The number of all holders.
        count: usize,
    },
    /// The key holds a value that is not a lock, of this type. leaselock never touches it.
    NotALock {
        /// What the store calls its type, such as `hash`.
        kind: String,
    },
}

/// How a lock is held or asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockMode {
    /// By one holder alone: a [`Mutex`](crate::Mutex), or the writer of a [`RwLock`](crate::RwLock).
    Exclusive,
    /// By a reader, beside others.
    Shared,
    /// By a reader that may become exclusive.
    Upgradable,
    /// By a holder of this many permits of a [`Semaphore`](crate::Semaphore).
    Permits(u32),
}

/// How many permits a [`Semaphore`](crate::Semaphore) has, and how many are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitCount {
    /// How many permits there are: the number of the latest request, or the pinned one.
    pub total: u32,
    /// How many are held. More than `total` after the number was made smaller.
    pub used: u32,
    /// True if [`set_permits`](crate::Semaphore::set_permits) has pinned the number.
    pub pinned: bool,
}

impl PermitCount {
    /// Returns how many permits are free; 0 also when more are held than there are.
    ///
    /// Waiters in the queue may have a claim to them.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let permit = client.semaphore("connections", 10).acquire_many(3).await?;
    /// let permits = client.inspect("connections").await?.permits.expect("it is a semaphore");
    /// assert_eq!((permits.total, permits.used, permits.available()), (10, 3, 7));
    /// # Ok(()) }
    /// ```
    pub fn available(self) -> u32 {
        self.total.saturating_sub(self.used)
    }
}

/// One of several holders of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedHolder {
    /// How it holds the lock.
    pub mode: LockMode,
    /// The id of the client.
    pub client: String,
    /// The process, as it described itself; `None` when its record is gone.
    pub process: Option<Process>,
    /// The fencing token, `None` without fencing. Readers that hold at the same time have the same one.
    pub fence: Option<Fence>,
    /// When it acquired its permits, by the store's clock, in milliseconds since 1970; `None` for readers.
    pub since_unix_ms: Option<u64>,
    /// Time until its own lease expires if it is not extended.
    pub remaining: Duration,
    /// A short hash of the holder's token, to tell one holder from another.
    pub digest: String,
}

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// True if another library holds it: then only the remaining time is known.
    pub foreign: bool,
    /// The id of the client.
    pub client: Option<String>,
    /// The process, as it described itself; `None` when its record is gone.
    pub process: Option<Process>,
    /// The holder's note.
    pub why: Option<String>,
    /// The fencing token, `None` without fencing.
    ///
    /// The first one, when several were reserved for tasks of one client.
    pub fence: Option<Fence>,
    /// When the holder acquired it, by the store's clock, in milliseconds since 1970.
    pub since_unix_ms: Option<u64>,
    /// Time until the lease expires if it is not extended; `None` when it never does.
    pub remaining: Option<Duration>,
    /// A short hash of the holder's token, to tell one holder from another.
    pub digest: String,
}

impl Holder {
    /// Creates the holder of another library's lock, of which only the remaining time is known.
    pub(crate) fn foreign(remaining: Option<Duration>) -> Self {
        Holder {
            why: None,
            remaining,
            ..Holder::not_a_lock("")
        }
    }

    /// For [`holder`](crate::Mutex::holder): one of those who share the lock. It is not free before the last lease ends.
    pub(crate) fn last_of(holders: Vec<SharedHolder>) -> Option<Self> {
        let last = holders.into_iter().max_by_key(|one| one.remaining)?;
        Some(Holder {
            foreign: false,
            client: Some(last.client),
            process: last.process,
            why: None,
            fence: last.fence,
            since_unix_ms: last.since_unix_ms,
            remaining: Some(last.remaining),
            digest: last.digest,
        })
    }

    /// For [`holder`](crate::Mutex::holder): a value of another kind keeps the lock from being acquired.
    pub(crate) fn not_a_lock(kind: &str) -> Self {
        Holder {
            foreign: true,
            client: None,
            process: None,
            why: Some(format!(
                "something that is no lock lies there: a {}",
                tame(kind, 40)
            )),
            fence: None,
            since_unix_ms: None,
            remaining: None,
            digest: String::new(),
        }
    }
}

/// A waiter in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The position; 1 is the head of the queue.
    pub position: usize,
    /// The id of the client.
    pub client: String,
    /// The process, as it described itself.
    pub process: Option<Process>,
    /// Its priority; a larger one is served first.
    pub priority: i32,
    /// What it asks for.
    pub mode: LockMode,
}

/// Conditions for [`break_lease`](crate::Client::break_lease).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakOptions {
    /// Break only the grant with this fencing token: the holder may have changed since an inspection.
    ///
    /// Readers that hold at the same time have the same token, so all of them lose the lock. Each holder of permits has
    /// a token of its own, and the others stay.
    pub only_fence: Option<Fence>,
    /// True to break a lock of another library too.
    pub foreign: bool,
}

impl BreakOptions {
    /// Breaks only the grant with this fencing token.
    #[must_use]
    pub fn only(mut self, fence: Fence) -> Self {
        self.only_fence = Some(fence);
        self
    }

    /// Breaks a lock of another library too.
    #[must_use]
    pub fn foreign(mut self, allowed: bool) -> Self {
        self.foreign = allowed;
        self
    }
}

/// The holder whose lease was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakOutcome {
    /// How many holders lost the lock: readers and holders of permits can be several.
    pub count: usize,
    /// The id of the client, or of one of several; `None` for another library.
    pub client: Option<String>,
    /// The process, as it described itself.
    pub process: Option<Process>,
    /// The fencing token of the broken grant, the first one when several were reserved; `None` when several holders
    /// had one each.
    ///
    /// The next grant's is larger than all of them; make the protected resource refuse these.
    pub fence: Option<Fence>,
}
