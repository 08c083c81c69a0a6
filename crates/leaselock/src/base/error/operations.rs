//! One error for each operation.

use std::time::Duration;

use leaselock_fence::{Fence, InvalidInput, Name};

use super::deadlock::{Link, in_words};
use super::lost::{Lost, Quarantine};
use super::noun::noun_error;
use super::operation::{ErrorFacts, HasFacts, Remains};
use super::store::{NodeVote, StoreError};
use crate::base::process::Process;
use crate::base::span::{rounded, span};

noun_error! {
    /// Why an acquisition ended without a lease.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum AcquireError of name: "The lock's name." {
        /// The store refused. Nothing is held.
        #[error("`{name}`: {source}")]
        Store,

        /// A name, ttl or other option is out of its range. Nothing was sent; nothing is held.
        #[error(transparent)]
        Invalid(#[from] InvalidInput),

        /// The wait ended while the lock was busy: held, or with too few permits free.
        ///
        /// This attempt holds nothing and has left the queue.
        #[error("`{name}` is still held after {}{}", rounded(*waited), by_whom(holder.as_deref(), *remaining, *own))]
        TimedOut {
            /// How long the attempt waited.
            waited: Duration,
            /// Who held it at the last poll, or one of several; `None` when another library did, or when no reply said who.
            ///
            /// It costs one read after the end of the wait. Without a reply, and on a majority, it has the client's id only.
            holder: Option<Box<Process>>,
            /// How long the holder's lease would have lasted then without a renewal, if that is known.
            remaining: Option<Duration>,
            /// True if the holder is the client that tried: a held name is busy for its holder too.
            own: bool,
            /// How many retries followed the first try, with [`Wait::Poll`](crate::Wait::Poll).
            retries: u32,
        } => ErrorFacts::timed_out,

        /// Strict mode: no new lease is granted until every lease of an earlier server has expired.
        ///
        /// This attempt holds nothing, and no other client was granted meanwhile; an earlier holder may still act.
        #[error("`{name}`: strict mode grants no lock for another {}: {reason}", rounded(*remaining))]
        Quarantined {
            /// The remaining time as far as it is known; after it, try again.
            remaining: Duration,
            /// What happened to the server.
            reason: Quarantine,
        } => ErrorFacts::passing,

        /// No usable reply came.
        ///
        /// **A lease may exist on the server** for up to `clear_in`. No client acts on it, and this client cleans it up in
        /// the background.
        #[error("`{name}`: no usable reply; cleaned up within {}: {source}", span(*clear_in))]
        Unknown {
            /// After this long the store holds nothing of this attempt.
            clear_in: Duration,
            /// What went wrong.
            source: StoreError,
        } => may_leave,

        /// The grant reached too few replicas, or too few disks, in time and was released.
        ///
        /// Nothing is held.
        #[error(
            "`{name}`: given back, because {confirmed} of {required} replicas confirmed it within {}{}",
            span(*timeout),
            if *local_fsync == Some(false) { ", and the server did not have it on disk" } else { "" }
        )]
        TooFewReplicas {
            /// How many replicas were required.
            required: u32,
            /// How many have confirmed it.
            confirmed: u32,
            /// Whether the server itself had it on disk; `None` when that was not required.
            local_fsync: Option<bool>,
            /// How long the client waited for them.
            timeout: Duration,
        } => ErrorFacts::passing,

        /// Too few nodes of a majority have replied.
        ///
        /// **Single votes may remain** for up to `clear_in`.
        #[error("`{name}`: {source}")]
        NoQuorum {
            /// How many nodes have granted it.
            granted: usize,
            /// How many are a majority.
            needed: usize,
            /// The vote of each node.
            votes: Vec<NodeVote>,
            /// After this long no node holds anything of this attempt.
            clear_in: Duration,
            /// The votes as one message.
            source: StoreError,
        } => may_leave,

        /// More permits were asked for than the semaphore has.
        ///
        /// Nothing is held, and this attempt has left the queue. It can succeed after
        /// [`set_permits`](crate::Semaphore::set_permits) with a larger number.
        #[error("`{name}`: {requested} permits were requested, and there are {permits}")]
        TooMany {
            /// How many permits were requested.
            requested: u32,
            /// How many there are.
            permits: u32,
        },

        /// The [owner](crate::Owner) would wait for itself, or waits for other owners that wait for it.
        ///
        /// This attempt holds nothing and has left the queue. The owner still holds everything that it held before: release
        /// that, or at least what another owner of the circle waits for, so that the others go on, and begin again.
        #[error("`{name}`: deadlock: {}", in_words(circle, *way_out))]
        Deadlock {
            /// The owners, each of which holds what the one before it waits for. The first one is the owner that got the error.
            ///
            /// One link: the owner would wait for itself.
            circle: Vec<Link>,
            /// How to ask so that the owner does not wait for itself.
            way_out: Option<&'static str>,
        },

        /// The [owner](crate::Owner) has lost its lease on this name, and a guard of that lease still lives.
        ///
        /// This attempt holds nothing. Code further out believes that it holds the lock: return to it, and drop its guard.
        /// After the last guard is dropped, the owner acquires the name as any other.
        #[error(
            "{0}, and the owner has a guard of that lease left: drop it before the name is acquired again"
        )]
        LostBefore(Lost),

        /// One of several names was lost while this one was acquired, also after the acquisition had begun again.
        ///
        /// Nothing is held: every name that had been acquired was released.
        #[error("`{name}` was not acquired, and nothing is held: {lost}")]
        LostWhileWaiting {
            /// The lease that was lost.
            lost: Lost,
        } => ErrorFacts::passing,

        /// An upgrade or a downgrade found that its lease is over.
        ///
        /// Stop work on what the lease protected; nothing is held.
        #[error(transparent)]
        Lost(Lost),

        /// The client was closed. An acquisition holds nothing; a lease that was to be upgraded or downgraded is as it was.
        #[error("the client is closed")]
        Closed,
    }
}

/// Without a usable reply a lease or single votes may exist.
fn may_leave<'a>(facts: ErrorFacts<'a>, error: &AcquireError) -> ErrorFacts<'a> {
    match *error {
        AcquireError::NoQuorum { clear_in, .. } => {
            facts.leaves(Remains::Votes { at_most: clear_in })
        }
        AcquireError::Unknown { clear_in, .. } => {
            let at_most = Some(clear_in);
            facts.leaves(Remains::Lease { at_most })
        }
        _ => facts,
    }
}

impl AcquireError {
    /// Sets the number of retries.
    pub(crate) fn after(mut self, tries: u32) -> Self {
        if let AcquireError::TimedOut { retries, .. } = &mut self {
            *retries = tries;
        }
        self
    }
}

fn by_whom(holder: Option<&Process>, remaining: Option<Duration>, own: bool) -> String {
    let mut text = match holder {
        Some(_) if own => " by this very client".to_owned(),
        Some(holder) => format!(" by {holder}"),
        None => " by another client".to_owned(), // of another library, or the store did not say
    };
    if let Some(remaining) = remaining {
        text.push_str(&format!("; its lease expires in {}", rounded(remaining)));
    }
    text
}

noun_error! {
    /// Why a request about a lease that is held failed: an extension, a detachment, a loan, or a leader's proclamation.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum LeaseError of name: "The lock's name." {
        /// The store refused. The lease holds until its old deadline.
        #[error("`{name}`: {source}")]
        Store,

        /// An option is out of its range, or this kind of lease cannot do it. Nothing was sent; the lease is as it was.
        #[error(transparent)]
        Invalid(#[from] InvalidInput),

        /// The lease is gone. Stop work on what it protects.
        #[error(transparent)]
        Lost(#[from] Lost),

        /// No usable reply came.
        ///
        /// The lease holds until its old deadline at least; what was asked for may have happened.
        #[error("`{name}`: no usable reply; held until the old deadline at least: {source}")]
        Unknown {
            /// What went wrong.
            source: StoreError,
        },
    }
}

noun_error! {
    /// Why a release was not confirmed. Nothing is held after it.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum ReleaseError of name: "The lock's name." {
        /// The store refused. On the store the lease ends by itself at its ttl at the latest.
        #[error("`{name}`: not released: {source}")]
        Store leaves Lease { at_most: None },

        /// The lease had ended before: others may have held the lock meanwhile.
        #[error("`{}` was not held any more: {}", .0.name, .0.reason)]
        NotHeld(Lost),

        /// No usable reply came.
        ///
        /// The client releases the lease in the background, and it ends by itself at its ttl at the latest.
        #[error("`{name}`: no usable reply to the release; expires within its ttl: {source}")]
        Unknown {
            /// What went wrong.
            source: StoreError,
        } leaves Lease { at_most: None },

        /// Some of several names were not confirmed as released, in the order of the names. The others were.
        #[error("{}", one_after_the_other(.0))]
        Several(Vec<ReleaseError>),

        /// A handle that does not release, or of a kind of lock that this store does not have. Nothing was sent.
        #[error(transparent)]
        Invalid(#[from] InvalidInput),
    }
}

/// Those of the first name that was not released.
impl HasFacts for Vec<ReleaseError> {
    fn facts(&self) -> ErrorFacts<'_> {
        self.first().map(HasFacts::facts).unwrap_or_default()
    }
}

fn one_after_the_other(errors: &[ReleaseError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// Why an inspection failed. An inspection changes nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The name or pattern is not well-formed. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),

    /// The store did not reply.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HasFacts for RequestError {
    fn facts(&self) -> ErrorFacts<'_> {
        match self {
            RequestError::Invalid(invalid) => invalid.facts(),
            RequestError::Store(source) => source.facts(),
        }
    }
}

noun_error! {
    /// Why nothing was broken, or why that is not known.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum BreakError of name: "The lock's name." {
        /// The store refused. Nothing was changed.
        #[error("`{name}`: not broken: {source}")]
        Store,

        /// The name is not well-formed. Nothing was sent.
        #[error(transparent)]
        Invalid(#[from] InvalidInput),

        /// No client held it. Nothing was changed.
        #[error("`{name}` is not held")]
        NotHeld {},

        /// Another library holds it, and the options did not allow to break that. Nothing was changed.
        #[error("`{name}` is held by another library")]
        Foreign {},

        /// The holder now has another fencing token, or none. Nothing was changed.
        #[error("`{name}` is held under {} by now", shown(*theirs))]
        Mismatch {
            /// The fencing token that the caller has named.
            ours: Option<Fence>,
            /// That of the present holder.
            theirs: Option<Fence>,
        },

        /// No usable reply came, on a quorum too few, or the server refused a step of the request.
        ///
        /// **The holder may have been broken.** The same call again, without the fencing token of that holder, may hit the
        /// next one: [inspect](crate::Client::inspect) the name first.
        #[error("`{name}`: its holder may have been broken: {source}")]
        Unknown {
            /// What went wrong.
            source: StoreError,
        },
    }
}

/// Declares the conversion of a store error, by whether the request may have taken effect.
macro_rules! from_store {
    ($($Error:ident),+) => {
        $(impl $Error {
            pub(crate) fn from_store(name: &Name, source: StoreError) -> Self {
                let name = name.clone();
                match source.maybe_applied() {
                    true => $Error::Unknown { name, source },
                    false => $Error::Store { name, source },
                }
            }
        })+
    };
}
from_store!(LeaseError, BreakError);

fn shown(fence: Option<Fence>) -> String {
    fence.map_or_else(
        || "no fencing token".to_owned(),
        |fence| format!("fencing token {fence}"),
    )
}
