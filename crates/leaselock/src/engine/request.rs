//! What an acquisition asks for, as plain values.

use std::sync::Arc;
use std::time::Duration;

use super::custom::CustomProtocol;
use super::grant::Seen;
use crate::base::error::{InvalidInput, Quarantine, StoreError};
use crate::base::ttl::Ttl;

/// 50 ms between two tries of the retry policy, with half of it as jitter, so that hosts started by the same clock do
/// not try in step.
pub const DEFAULT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Half the delay, either way.
pub const DEFAULT_RETRY_JITTER_PERCENT: u8 = 50;

/// How long an acquisition waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Not at all.
    Never,
    /// Tries again, without a place in line: newcomers and waiters in line go first.
    Poll {
        /// How often after the first try; `None` for ever.
        count: Option<u32>,
        /// The pause between two tries.
        delay: Duration,
        /// By how much of the delay the pause varies either way, 0 to 100.
        jitter_percent: u8,
    },
    /// In line, for so long.
    Timeout(Duration),
    /// In line, for ever. Fails after 2 s when the store never answered.
    Forever,
}

impl Wait {
    /// Tries `count` times more, with the default delay and jitter.
    pub const fn retries(count: u32) -> Self {
        Wait::Poll {
            count: Some(count),
            delay: DEFAULT_RETRY_DELAY,
            jitter_percent: DEFAULT_RETRY_JITTER_PERCENT,
        }
    }
}

/// Told at every poll while an acquisition waits, also at those that fail.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Place in line; 1 is next. 0 during a quarantine, when nobody has one, and when the store has not said yet.
    pub place: usize,
    /// The client that holds it; `None` when a foreign library does.
    pub holder_client: Option<String>,
    /// Until the holder's lease ends by itself, if it is not extended; during a quarantine until that is over.
    pub remaining: Option<Duration>,
    /// Strict mode: nobody is granted for a while, whoever holds it, and why.
    pub quarantine: Option<Quarantine>,
    /// The latest poll failed with this, and is tried again; the other fields say what the last one that was answered
    /// did, and `remaining` is `None`.
    pub error: Option<StoreError>,
}

impl Waiting {
    /// A poll has failed. `last`: what the one before it was told.
    pub(crate) fn failed(last: Option<(&Seen, u64)>, error: &StoreError) -> Self {
        let known = last.map(|(seen, place)| Waiting::at(seen, place));
        Waiting {
            place: known.as_ref().map_or(0, |known| known.place),
            quarantine: known.as_ref().and_then(|known| known.quarantine),
            holder_client: known.and_then(|known| known.holder_client),
            remaining: None,
            error: Some(error.clone()),
        }
    }

    pub(crate) fn at(seen: &Seen, place: u64) -> Self {
        let place = match seen.quarantine {
            Some(_) => 0,
            None => usize::try_from(place).unwrap_or(usize::MAX),
        };
        Waiting {
            place,
            holder_client: seen.holder.clone(),
            remaining: seen.remaining,
            quarantine: seen.quarantine,
            error: None,
        }
    }
}

/// Where a grant must have arrived before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copies {
    /// So many replicas have it.
    pub(crate) replicas: u32,
    /// They have it on disk, and so has the server itself when this is true; `None`: in memory is enough.
    pub(crate) on_disk: Option<bool>,
    pub(crate) within: Duration,
}

impl Copies {
    pub(crate) fn check(self, ttl: Duration) -> Result<(), InvalidInput> {
        if self.replicas == 0 && self.on_disk != Some(true) {
            return Err(InvalidInput::new(
                "a grant that no replica needs to have needs no confirmation: ask for at least one, or leave it out"
                    .to_owned(),
            ));
        }
        if self.within < Duration::from_millis(1) || self.within >= ttl {
            return Err(InvalidInput::new(format!(
                "replicas may take from 1 ms to less than the ttl, which is {ttl:?}, not {:?}",
                self.within
            )));
        }
        Ok(())
    }
}

pub(crate) type OnWait = Arc<dyn Fn(&Waiting) + Send + Sync>;

/// One acquisition's options, once everything is known to be in range.
#[derive(Clone)]
pub(crate) struct AcquireRequest {
    pub(crate) ttl: Ttl,
    pub(crate) priority: i32,
    /// True if the lease is renewed in the background.
    pub(crate) renews: bool,
    /// True if the lease has a fencing token.
    pub(crate) fences: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) why: Option<String>,
    pub(crate) on_wait: Option<OnWait>,
    /// What a grant is to be confirmed by.
    pub(crate) copies: Option<Copies>,
    /// Another library's way of locking; `None` for the native one.
    pub(crate) custom: Option<Arc<dyn CustomProtocol>>,
}
