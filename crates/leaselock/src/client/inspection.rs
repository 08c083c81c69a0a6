//! What is seen of a lock from outside.

use std::time::{Duration, SystemTime};

use leaselock_fence::{Fence, Name};

use crate::base::process::{Process, tame};
#[cfg(feature = "serde")]
use crate::base::serde_units::{ms, option_ms, unix_ms};
use crate::base::{StoreError, refusal};
use crate::engine::values::LockMode;
use crate::interop::Protocol;

/// The state of one lock at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Inspection {
    /// The lock's name, without the client's prefix.
    pub name: String,
    /// Whether it is held, and by which client.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub state: Holding,
    /// What it is held as: `mutex`, `read`, `upgradable`, `permits`, `leader`, `once` or `cron`; `None` when it is free.
    ///
    /// `upgradable` as soon as one of its readers is. `mutex` also of a writer, of one of several names, in another
    /// library's protocol, and of a leader that has not [proclaimed](crate::Lease::proclaimed) yet: the store has no more.
    pub kind: Option<&'static str>,
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
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "state", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Holding {
    /// No client holds it.
    Free,
    /// One client holds it alone, or readers or holders of permits hold it: at least one.
    #[non_exhaustive]
    Held {
        /// The holders; of more than 128, those whose leases end first.
        holders: Vec<Holder>,
        /// The number of all holders.
        #[cfg_attr(feature = "serde", serde(rename = "holder_count"))]
        count: usize,
    },
    /// The key holds a value that is not a lock, of this type. leaselock never touches it.
    #[non_exhaustive]
    NotALock {
        /// What the store calls its type, such as `hash`.
        #[cfg_attr(feature = "serde", serde(rename = "type"))]
        kind: String,
    },
}

impl Holding {
    /// It is held by this one alone.
    pub(crate) fn by(holder: Holder) -> Self {
        let (holders, count) = (vec![holder], 1);
        Holding::Held { holders, count }
    }

    /// Returns the one that holds it alone.
    pub fn exclusive(&self) -> Option<&Holder> {
        match self {
            Holding::Held { holders, .. } => {
                let mut holders = holders.iter();
                holders.find(|holder| holder.mode == LockMode::Exclusive)
            }
            _ => None,
        }
    }
}

/// The error of a read that finds something else under the name.
pub(crate) fn not_a_lock(name: &Name, kind: &str) -> StoreError {
    let kind = tame(kind, 40);
    refusal!(WrongType: "`{name}` is no lock: a {kind} lies under this name")
}

/// How many permits a [`Semaphore`](crate::Semaphore) has, and how many are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
    pub fn available(self) -> u32 {
        self.total.saturating_sub(self.used)
    }
}

/// A holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// How it holds the lock.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub mode: LockMode,
    /// Its process; `None` when another library holds it: then only the remaining time is known.
    pub process: Option<Process>,
    /// The holder's note.
    pub note: Option<String>,
    /// The fencing token, `None` without fencing. Readers that hold at the same time have the same one.
    ///
    /// The last one, when several were reserved for tasks of one client.
    pub fence: Option<Fence>,
    /// About when it acquired the lock, by the store's clock: read from the fencing token. `None` for readers.
    #[cfg_attr(feature = "serde", serde(rename = "since_unix_ms", with = "unix_ms"))]
    pub since: Option<SystemTime>,
    /// Time until its lease expires if it is not extended; `None` when it never does.
    #[cfg_attr(feature = "serde", serde(rename = "remaining_ms", with = "option_ms"))]
    pub remaining: Option<Duration>,
    /// A short hash of the holder's token, to tell one holder from another.
    pub digest: String,
    /// True if an operator broke its lease: it ends when `remaining` is over, or by its holder's release.
    pub broken: bool,
}

impl Holder {
    /// Returns true if another library holds it.
    pub fn is_foreign(&self) -> bool {
        self.process.is_none()
    }

    /// Creates the holder of another library's lock, of which only the remaining time is known.
    pub(crate) fn foreign(remaining: Option<Duration>) -> Self {
        Holder {
            mode: LockMode::Exclusive,
            process: None,
            note: None,
            fence: None,
            since: None,
            remaining,
            digest: String::new(),
            broken: false,
        }
    }
}

/// A waiter in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Waiter {
    /// The position; 1 is the head of the queue.
    pub position: usize,
    /// Its process.
    pub process: Process,
    /// Its priority; a larger one is served first.
    pub priority: i32,
    /// What it asks for.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub mode: LockMode,
    /// How long it has been in the queue, by the store's clock.
    #[cfg_attr(feature = "serde", serde(rename = "waited_ms", with = "ms"))]
    pub waited: Duration,
}

/// Conditions for [`break_lease`](crate::Client::break_lease).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BreakOptions {
    /// Break only the grant with this fencing token: the holder may have changed since an inspection.
    ///
    /// Readers that hold at the same time have the same token, so all of them lose the lock. Each holder of permits has
    /// a token of its own, and the others stay.
    pub only_fence: Option<Fence>,
    /// True to free the lock although its holder may work on.
    pub at_once: bool,
    /// True to break a lock of another library too.
    pub foreign: bool,
    /// How the clients that share the lock take it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "name_of"))]
    pub protocol: Protocol,
    /// Why it is broken, for the [event log](crate::Client::log).
    pub reason: Option<String>,
    /// Who breaks it, as `alice@office`; the process of the client when none is named.
    pub operator: Option<String>,
}

impl BreakOptions {
    /// Says why, in the [event log](crate::Client::log) and to the holder, who
    /// [reads it](crate::LeaseView::broken_by) there.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Says who breaks it, as `alice@office`. It is not checked.
    #[must_use]
    pub fn by(mut self, operator: impl Into<String>) -> Self {
        self.operator = Some(operator.into());
        self
    }

    /// Breaks only the grant with this fencing token.
    #[must_use]
    pub fn only(mut self, fence: Fence) -> Self {
        self.only_fence = Some(fence);
        self
    }

    /// Frees the lock at once, although its holder may work on until its next renewal: two may work at the same time.
    ///
    /// For a holder that cannot release, such as one that is frozen, when its lease lasts too long to wait for. Only a
    /// fencing token keeps such a holder from what it works on.
    #[must_use]
    pub fn now(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// Breaks a lock that its clients take in this [`Protocol`], under its [key](Protocol::name_for): a break at once wakes one of them with python-redis-lock, and all with Redisson, whose locks are always
    /// [foreign](Self::foreign).
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Breaks a lock of another library too. Its renewals cannot be refused, so this works with [`now`](Self::now) alone.
    #[must_use]
    pub fn foreign(mut self) -> Self {
        self.foreign = true;
        self
    }
}

#[cfg(feature = "serde")]
fn name_of<S: serde::Serializer>(protocol: &Protocol, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(protocol.name())
}

/// The holder whose lease was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BreakOutcome {
    /// How many holders lost the lock: readers and holders of permits can be several.
    pub count: usize,
    /// Its process, or that of one of several; `None` for another library.
    pub process: Option<Process>,
    /// The fencing token of the broken grant, the last one when several were reserved; `None` when several holders
    /// had one each.
    ///
    /// Later grants have larger ones, but for a reader that comes while broken readers still read: it shares theirs. Make
    /// the protected resource refuse these as soon as it has seen a larger one.
    pub fence: Option<Fence>,
    /// When the lease ends at the latest; `None` when it has ended.
    #[cfg_attr(feature = "serde", serde(rename = "remaining_ms", with = "option_ms"))]
    pub remaining: Option<Duration>,
    /// True if the lease lasts longer, as long as the job of `process`, which is dead: in a
    /// [folder](crate::Client::session_descriptor) a job keeps it. `remaining` is then when to inspect it again.
    pub lasts_with_job: bool,
}
