//! One error for each operation.

use std::fmt;
use std::time::Duration;

use super::invalid::InvalidInput;
use super::lost::Lost;
use super::quarantine::Quarantine;
use super::store::{NodeVote, StoreError};
use crate::base::fence::Fence;
use crate::base::name::Name;

/// Why an acquisition ended without a lease.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// A name, ttl or other option is out of its range. Nothing was sent; nothing is held.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),

    /// The wait ended while it was held. Nothing is held by this attempt; the place in line was given up.
    #[error("`{name}` is still held by {} after waiting {waited:?}", who_holds(*own))]
    StillBusy {
        /// The lock's name.
        name: Name,
        /// How long the wait was.
        waited: Duration,
        /// The id of the client that held it at the last look; `None` when a foreign library did.
        holder: Option<String>,
        /// Whether that was the very client that tried: a name that is held is busy for its holder too.
        own: bool,
        /// How often it was tried again after the first time, with [`Wait::Retries`](crate::Wait::Retries).
        retries: u32,
    },

    /// Strict mode: nobody is granted until every lease is over that an earlier server may have granted. Nothing is held
    /// by this attempt, and nobody else was granted meanwhile; an earlier holder may still act.
    #[error("`{name}`: nobody is granted for {remaining:?} still: {why}")]
    Quarantined {
        /// The lock's name.
        name: Name,
        /// For how long still, as far as is known; after it, try again.
        remaining: Duration,
        /// What happened to the server.
        why: Quarantine,
    },

    /// No usable answer came. **A lease may exist on the server** for up to `clear_in`; nobody acts on it, and it is
    /// being cleaned up in the background.
    #[error("`{name}`: outcome unknown: {source}")]
    Unknown {
        /// The lock's name.
        name: Name,
        /// After this long the store holds nothing of this attempt.
        clear_in: Duration,
        /// What went wrong.
        source: StoreError,
    },

    /// The store refused. Nothing is held.
    #[error("`{name}`: {source}")]
    Store {
        /// The lock's name.
        name: Name,
        /// What the store said.
        source: StoreError,
    },

    /// It was granted, but too few replicas had it in time, or had it on disk, so it was given back. Nothing is held.
    #[error(
        "`{name}`: given back, because {answered} of {wanted} replicas confirmed it within {within:?}{}",
        if *here == Some(false) { ", and the server did not have it on disk" } else { "" }
    )]
    TooFewCopies {
        /// The lock's name.
        name: Name,
        /// How many replicas were asked for.
        wanted: u32,
        /// How many have confirmed it.
        answered: u32,
        /// Whether the server itself had it on disk, when that was asked for.
        here: Option<bool>,
        /// How long was waited for them.
        within: Duration,
    },

    /// Too few nodes of a [`Quorum`](crate::Quorum) have answered. **Single votes may be left** for up to `clear_in`.
    #[error("`{name}`: {source}")]
    NoQuorum {
        /// The lock's name.
        name: Name,
        /// How many nodes have granted it.
        granted: usize,
        /// How many would have been a majority.
        needed: usize,
        /// What each node has said.
        votes: Vec<NodeVote>,
        /// After this long no node holds anything of this attempt.
        clear_in: Duration,
        /// The same in words.
        source: StoreError,
    },

    /// The client was closed. Nothing is held.
    #[error("the client is closed")]
    Closed,
}

impl AcquireError {
    /// `client`: who tried.
    pub(crate) fn still_busy(
        name: Name,
        waited: Duration,
        holder: Option<String>,
        client: &str,
    ) -> Self {
        AcquireError::StillBusy {
            name,
            waited,
            own: holder.as_deref() == Some(client),
            holder,
            retries: 0,
        }
    }

    /// After so many tries beyond the first.
    pub(crate) fn after(mut self, tries: u32) -> Self {
        if let AcquireError::StillBusy { retries, .. } = &mut self {
            *retries = tries;
        }
        self
    }
}

fn who_holds(own: bool) -> &'static str {
    if own { "this very client" } else { "another" }
}

/// Why an extension failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The ttl is out of its range. Nothing was sent; the lease is as it was.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),

    /// The lease is gone. Stop work on what it protects.
    #[error(transparent)]
    Lost(#[from] Lost),

    /// No usable answer came. The lease holds until its old deadline at least; it may have been extended.
    #[error("`{name}`: extension unknown: {source}")]
    Unknown {
        /// The lock's name.
        name: Name,
        /// What went wrong.
        source: StoreError,
    },

    /// The store refused. The lease holds until its old deadline.
    #[error("`{name}`: {source}")]
    Store {
        /// The lock's name.
        name: Name,
        /// What the store said.
        source: StoreError,
    },
}

impl ExtendError {
    /// The store's trouble, told apart by whether the extension may have happened.
    pub(crate) fn from_store(name: &Name, source: StoreError) -> Self {
        let name = name.clone();
        if source.maybe_applied() {
            ExtendError::Unknown { name, source }
        } else {
            ExtendError::Store { name, source }
        }
    }
}

/// Why a release was not confirmed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended before: others may have held the lock meanwhile. Nothing is held.
    #[error("`{name}` was not held any more: {why}")]
    NotHeld {
        /// The lock's name.
        name: Name,
        /// What was found instead.
        why: NotHeld,
    },

    /// No usable answer came. The lease is not used any more; it is being released in the background and ends by
    /// itself at its ttl at the latest.
    #[error("`{name}`: release unknown: {source}")]
    Unknown {
        /// The lock's name.
        name: Name,
        /// What went wrong.
        source: StoreError,
    },

    /// The store refused. The lease is not used any more and ends by itself at its ttl at the latest.
    #[error("`{name}`: not released: {source}")]
    Store {
        /// The lock's name.
        name: Name,
        /// What the store said.
        source: StoreError,
    },
}

/// What a release found instead of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotHeld {
    /// Nothing: it ran out, or somebody deleted it.
    Expired,
    /// Another holder.
    Taken,
}

impl fmt::Display for NotHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotHeld::Expired => "it had run out or was deleted",
            NotHeld::Taken => "another holds it",
        })
    }
}

/// Why looking failed. Looking changes nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// The name or pattern is not well-formed. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),

    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why nothing was broken.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BreakError {
    /// The name is not well-formed. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),

    /// Nobody held it. Nothing was changed.
    #[error("`{name}` is not held")]
    NotHeld {
        /// The lock's name.
        name: Name,
    },

    /// Another library holds it, and the terms did not allow that. Nothing was changed.
    #[error("`{name}` is held by another library")]
    Foreign {
        /// The lock's name.
        name: Name,
    },

    /// The holder has another fencing token by now, or one without. Nothing was changed.
    #[error("`{name}` is held under {} by now", shown(*fence))]
    Changed {
        /// The lock's name.
        name: Name,
        /// The fencing token of the present holder.
        fence: Option<Fence>,
    },

    /// The store did not answer. The holder may have been broken.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn shown(fence: Option<Fence>) -> String {
    fence.map_or_else(
        || "no fencing token".to_owned(),
        |fence| format!("fencing token {fence}"),
    )
}
