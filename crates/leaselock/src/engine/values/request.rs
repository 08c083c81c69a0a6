//! What an acquisition asks for, as plain values.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Name;

use super::calls::AcquireTerms;
use super::custom::CustomProtocol;
use super::grant::Seen;
use super::log::LogEvent;
use crate::base::error::Quarantine;
use crate::base::process::Process;
#[cfg(feature = "serde")]
use crate::base::serde_units::ms;
use crate::base::{InvalidInput, StoreError, span};

/// The default pause between two tries of [`Wait::Poll`]: 50 ms.
///
/// Half of it is jitter, so that hosts that start by the same clock do not try at the same moments.
pub const DEFAULT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// The default jitter: half the delay, either way.
pub const DEFAULT_RETRY_JITTER_PERCENT: u8 = 50;

/// How long an acquisition waits.
///
/// With the feature `serde`: `"never"`, `"forever"`, `{"timeout_ms": 5000}` and
/// `{"poll": {"count": 3, "delay_ms": 50, "jitter_percent": 50}}`, in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Wait {
    /// The acquisition does not wait.
    Never,
    /// The acquisition tries again after a pause, without a queue entry: newcomers and waiters in the queue go first.
    Poll {
        /// How many tries follow the first; `None` for no limit.
        count: Option<u32>,
        /// The pause between two tries.
        #[cfg_attr(feature = "serde", serde(rename = "delay_ms", with = "ms"))]
        delay: Duration,
        /// By how much of the delay the pause varies either way, 0 to 100.
        jitter_percent: u8,
    },
    /// The acquisition waits in the queue for at most this long.
    #[cfg_attr(feature = "serde", serde(rename = "timeout_ms", with = "ms"))]
    Timeout(Duration),
    /// The acquisition waits in the queue without a limit. It fails after 2 s when the store never replied.
    Forever,
}

impl Wait {
    /// Returns a policy of `count` more tries, with the default delay and jitter.
    pub const fn retries(count: u32) -> Self {
        Wait::Poll {
            count: Some(count),
            delay: DEFAULT_RETRY_DELAY,
            jitter_percent: DEFAULT_RETRY_JITTER_PERCENT,
        }
    }

    /// Returns for how long it waits at most, as far as that is known before.
    pub(crate) fn limit(self) -> Option<Duration> {
        match self {
            Wait::Never => Some(Duration::ZERO),
            Wait::Timeout(limit) => Some(limit),
            Wait::Poll { count, delay, .. } => count.map(|count| delay.saturating_mul(count)),
            Wait::Forever => None,
        }
    }
}

/// What a waiting acquisition reports at every poll, also at those that fail.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// The name that the acquisition waits for. Of several names it is the one that is busy.
    pub name: Name,
    /// The position in the queue; 1 is the head of the queue.
    ///
    /// 0 during a quarantine, when no waiter has a position, and before the store has reported one.
    pub position: usize,
    /// A process that holds the lock, of which the id of its client is known; `None` when another library holds it.
    pub holder: Option<Process>,
    /// How long until the holder's lease expires, if it is not extended; during a quarantine, how long until its end.
    pub remaining: Option<Duration>,
    /// In strict mode, during a quarantine: why the store grants no lock, regardless of the holder.
    pub quarantine: Option<Quarantine>,
    /// The error of the latest poll, which will be retried.
    ///
    /// The other fields then come from the latest poll that had a reply, except that `remaining` is `None`.
    pub error: Option<StoreError>,
}

impl Waiting {
    /// Creates the report of a failed poll. `last` is the latest reply before it.
    pub(crate) fn failed(name: &Name, last: Option<(&Seen, u64)>, error: &StoreError) -> Self {
        let nothing = Seen::default();
        let (seen, position) = last.unwrap_or((&nothing, 0));
        Waiting {
            remaining: None,
            error: Some(error.clone()),
            ..Waiting::at(name, seen, position)
        }
    }

    /// Returns what listeners are told when the wait begins.
    pub(crate) fn event(&self) -> LogEvent {
        let position = (self.position > 0).then(|| format!("position {}", self.position));
        let holder = (self.holder.as_ref()).map(|it| format!("held by {}", it.client));
        let quarantine = self.quarantine.map(|why| why.to_string());
        let text = Vec::from_iter([position, holder, quarantine].into_iter().flatten()).join(", ");
        LogEvent::new("waiting", text).of(&self.name, None)
    }

    /// Creates the report of a poll that had a reply.
    pub(crate) fn at(name: &Name, seen: &Seen, position: u64) -> Self {
        let position = match seen.quarantine {
            Some(_) => 0,
            None => usize::try_from(position).unwrap_or(usize::MAX),
        };
        Waiting {
            name: name.clone(),
            position,
            holder: seen.holder.clone().map(Process::unknown),
            remaining: seen.remaining,
            quarantine: seen.quarantine,
            error: None,
        }
    }
}

/// The copies that a grant needs before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copies {
    /// How many replicas must have it.
    pub(crate) replicas: u32,
    /// Whether the replicas must have it on disk: with `Some(true)` the server itself too; `None`: in memory is enough.
    pub(crate) on_disk: Option<bool>,
    pub(crate) within: Duration,
}

impl Copies {
    pub(crate) fn new(replicas: u32, on_disk: Option<bool>, within: Duration) -> Self {
        Copies {
            replicas,
            on_disk,
            within,
        }
    }

    pub(crate) fn check(self, ttl: Duration) -> Result<(), InvalidInput> {
        if self.replicas == 0 && self.on_disk != Some(true) {
            return Err(InvalidInput::new(
                "a grant that no replica needs to have needs no confirmation: ask for at least one, or leave it out",
            ));
        }
        if self.within < Duration::from_millis(1) || self.within >= ttl {
            return Err(InvalidInput::new(format!(
                "replicas may take from 1 ms to less than the ttl, which is {}, not {}",
                span(ttl),
                span(self.within)
            )));
        }
        Ok(())
    }
}

pub(crate) type OnWait = Arc<dyn Fn(&Waiting) + Send + Sync>;

/// The options of one acquisition, after they were checked.
#[derive(Clone)]
pub(crate) struct AcquireRequest {
    pub(crate) terms: AcquireTerms,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) why: Option<String>,
    pub(crate) on_wait: Option<OnWait>,
    pub(crate) copies: Option<Copies>,
    /// The protocol of another library; `None` for the native one.
    pub(crate) custom: Option<Arc<dyn CustomProtocol>>,
}
