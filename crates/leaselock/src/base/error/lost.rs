//! A lease that is not held any more, and why; and why no new one is granted for a while.

use std::fmt;
use std::time::Duration;

use leaselock_fence::{Fence, Name};

use super::store::StoreError;
use crate::base::span::rounded;

/// The lease cannot be relied on any more. Stop work on what it protects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lease on `{name}` lost: {reason}{}", context(.last_error.as_ref(), *.unconfirmed_for))]
pub struct Lost {
    /// The lock's name.
    pub name: Name,
    /// The fencing token of the lost lease.
    pub fence: Option<Fence>,
    /// What happened.
    pub reason: LostReason,
    last_error: Option<StoreError>,
    unconfirmed_for: Option<Duration>,
}

impl Lost {
    /// Creates a loss without details.
    pub(crate) fn new(name: Name, fence: Option<Fence>, reason: LostReason) -> Self {
        Lost {
            name,
            fence,
            reason,
            last_error: None,
            unconfirmed_for: None,
        }
    }

    /// Adds the outcome of the renewals before it.
    pub(crate) fn after(
        mut self,
        last_error: Option<StoreError>,
        unconfirmed_for: Duration,
    ) -> Self {
        (self.last_error, self.unconfirmed_for) = (last_error, Some(unconfirmed_for));
        self
    }

    /// Returns the error of the latest renewal.
    ///
    /// `None` when the store confirmed that renewal, when no renewal had a reply, or when the holder released the lease.
    /// The error names the server, without its password.
    pub fn last_error(&self) -> Option<&StoreError> {
        self.last_error.as_ref()
    }

    /// Returns how long before the loss the store last confirmed the lease.
    ///
    /// Counted from the grant or the latest renewal with a reply. `None` for a lease of another process, and for one that
    /// its holder has released.
    pub fn unconfirmed_for(&self) -> Option<Duration> {
        self.unconfirmed_for
    }
}

fn context(last_error: Option<&StoreError>, unconfirmed_for: Option<Duration>) -> String {
    match (last_error, unconfirmed_for) {
        (Some(error), Some(long)) => {
            format!("; not confirmed for {}: {error}", rounded(long))
        }
        _ => String::new(),
    }
}

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// The deadline passed; renewal was off, or this process did not run in time.
    Expired,
    /// The key has another holder's token.
    TakenOver,
    /// An operator broke the lease. No other client gets it before this one's deadline, unless the operator freed it at
    /// once, or this one releases it.
    Broken,
    /// The key is gone: it expired early, was deleted or evicted, or the server lost it.
    KeyMissing,
    /// The store did not reply until the deadline passed. The key may still exist for a moment.
    StoreUnreachable,
    /// The time that [`max_hold`](crate::Mutex::max_hold) allows is over.
    MaxHoldReached,
    /// The holder itself gave the lease up, by release, drop, detach or close.
    Released,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::Expired => "its deadline passed",
            LostReason::TakenOver => "another holder has it",
            LostReason::Broken => "an operator broke it",
            LostReason::KeyMissing => "it is gone from the store",
            LostReason::StoreUnreachable => "the store could not be reached in time",
            LostReason::MaxHoldReached => "the longest hold allowed is over",
            LostReason::Released => "it was given up",
        })
    }
}

/// Why no new lease is granted for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Quarantine {
    /// The server has no gate, the key in which strict mode keeps its state.
    ///
    /// Strict mode was not set up here ([`Client::init_strict`](crate::Client::init_strict)), or the server lost its
    /// data, by a restart without persistence or by `FLUSHALL`.
    Missing,
    /// The gate was that of another server process: this one was restarted, or promoted.
    Moved,
}

impl Quarantine {
    pub(crate) fn from_answer(why: &str) -> Self {
        match why {
            "moved" => Quarantine::Moved,
            _ => Quarantine::Missing,
        }
    }
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Quarantine::Missing => {
                "this server has lost its data, or strict mode was not set up on it"
            }
            Quarantine::Moved => "another server process replies than before",
        })
    }
}
