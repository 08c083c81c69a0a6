//! The replies that the scripts of every kind of lock have in common, decoded in one position.

use std::time::Duration;

use leaselock_fence::Fence;

use crate::base::error::{LostReason, Quarantine};
use crate::base::fence;
use crate::script::{Answer, Malformed};

/// The reply to a request to acquire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acquired {
    Granted {
        /// The first of `range` fencing tokens.
        fence: Option<Fence>,
        range: u64,
        /// 0 when the reply does not say it.
        time_us: u64,
        /// True if the queue has other waiters.
        others: bool,
    },
    Waiting {
        seen: Seen,
        position: u64,
    },
    Busy {
        seen: Seen,
    },
    /// There are not so many permits; the request is not in the queue.
    Never {
        permits: u32,
        time_us: u64,
    },
    /// The lease that was to be changed is over.
    Gone {
        /// True if another client holds the lock.
        is_taken: bool,
        time_us: u64,
    },
    /// The clients of this gate have agreed on another longest ttl.
    Disagrees {
        longest: Duration,
        time_us: u64,
    },
}

impl Acquired {
    /// A grant of one fencing token, or of none, whose reply says nothing of the queue.
    pub(crate) fn granted(fence: Option<Fence>, time_us: u64) -> Self {
        let (range, others) = (1, false);
        Acquired::Granted {
            fence,
            range,
            time_us,
            others,
        }
    }

    /// Returns the server's time of the reply; 0 when the reply does not say it.
    pub(crate) fn time_us(&self) -> u64 {
        match self {
            Acquired::Waiting { seen, .. } | Acquired::Busy { seen } => seen.time_us,
            Acquired::Granted { time_us, .. }
            | Acquired::Never { time_us, .. }
            | Acquired::Gone { time_us, .. }
            | Acquired::Disagrees { time_us, .. } => *time_us,
        }
    }

    pub(crate) fn decode(answer: &Answer) -> Result<Acquired, Malformed> {
        match answer.tag() {
            "unfenced" => Ok(Acquired::granted(None, 0)),
            "fenced" => {
                let fence = fence::of_id(answer.text(0)?).ok_or(Malformed)?;
                // The first of a millisecond is the server's time. Any other may be that of a clock before it went back.
                let is_first = fence.get().is_multiple_of(1000);
                let time_us = if is_first { fence.get() } else { 0 };
                Ok(Acquired::granted(Some(fence), time_us))
            }
            "granted" => Ok(Acquired::Granted {
                fence: fence::of_reply(answer.number(0)?),
                range: answer.number(1)?,
                time_us: answer.number(2)?,
                others: answer.number(3)? == 1,
            }),
            "waiting" => Ok(Acquired::Waiting {
                seen: seen(answer)?,
                position: answer.number(3)?,
            }),
            "busy" => Ok(Acquired::Busy {
                seen: seen(answer)?,
            }),
            "never" => Ok(Acquired::Never {
                permits: answer.small(0)?,
                time_us: answer.number(1)?,
            }),
            "quarantined" => Ok(Acquired::Busy {
                seen: Seen {
                    remaining: Some(Duration::from_millis(answer.number(0)?)),
                    holder: None,
                    time_us: answer.number(2)?,
                    quarantine: Some(Quarantine::from_answer(answer.text(1)?)),
                },
            }),
            "expired" | "taken" => Ok(Acquired::Gone {
                is_taken: answer.tag() == "taken",
                time_us: answer.number(0)?,
            }),
            "disagrees" => Ok(Acquired::Disagrees {
                longest: Duration::from_millis(answer.number(0)?),
                time_us: answer.number(1)?,
            }),
            _ => Err(Malformed),
        }
    }
}

/// What a reply says about the holder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How long until the holder's lease expires; `None` for a key without a ttl.
    pub(crate) remaining: Option<Duration>,
    /// The holder's client; `None` when another library holds the lock.
    pub(crate) holder: Option<String>,
    pub(crate) time_us: u64,
    /// Set during a quarantine: the server grants nothing, and `remaining` is the time until its end.
    pub(crate) quarantine: Option<Quarantine>,
}

impl Seen {
    /// Creates the value for a lock that a task of this client holds, without an end that is known.
    pub(crate) fn held_by(client: &str) -> Option<Self> {
        Some(Seen {
            holder: Some(client.to_owned()),
            ..Seen::default()
        })
    }
}

/// Decodes the remaining time, the holder and the time at the beginning of a reply.
pub(crate) fn seen(answer: &Answer) -> Result<Seen, Malformed> {
    seen_at(answer, 0, answer.number(2)?)
}

/// Decodes the remaining time and the holder, from element `at` on.
pub(crate) fn seen_at(answer: &Answer, at: usize, time_us: u64) -> Result<Seen, Malformed> {
    let holder = answer.text(at + 1)?;
    Ok(Seen {
        remaining: u64::try_from(answer.signed(at)?)
            .ok()
            .map(Duration::from_millis),
        holder: (!holder.is_empty()).then(|| holder.to_owned()),
        time_us,
        quarantine: None,
    })
}

/// The reply to a step that only the holder makes: it is done, or why the lease is over.
pub(crate) type StepReply = Result<(), LostReason>;

/// The reply to an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtendAnswer {
    Extended {
        time_us: u64,
    },
    /// It is not held any more, or cannot be extended.
    Gone(LostReason),
}

impl ExtendAnswer {
    pub(crate) const EXPIRED: Self = ExtendAnswer::Gone(LostReason::KeyMissing);
    pub(crate) const BROKEN: Self = ExtendAnswer::Gone(LostReason::Broken);
    pub(crate) const TAKEN: Self = ExtendAnswer::Gone(LostReason::TakenOver);

    pub(crate) fn decode(answer: &Answer) -> Result<ExtendAnswer, Malformed> {
        match answer.tag() {
            "extended" => Ok(ExtendAnswer::Extended {
                time_us: answer.number(1)?,
            }),
            "expired" => Ok(Self::EXPIRED),
            "broken" => Ok(Self::BROKEN),
            "taken" => Ok(Self::TAKEN),
            _ => Err(Malformed),
        }
    }
}

/// The reply to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseAnswer {
    Released,
    Expired,
    Taken,
}

impl ReleaseAnswer {
    pub(crate) fn decode(answer: &Answer) -> Result<ReleaseAnswer, Malformed> {
        match answer.tag() {
            "released" => Ok(ReleaseAnswer::Released),
            "expired" => Ok(ReleaseAnswer::Expired),
            "taken" => Ok(ReleaseAnswer::Taken),
            _ => Err(Malformed),
        }
    }
}

/// The reply to the cancellation of an acquisition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelAnswer {
    /// It gave up an upgrade that had been granted before, and left it as it was.
    Upgraded,
    Left,
    Released,
    Absent,
}

impl CancelAnswer {
    pub(crate) fn decode(answer: &Answer) -> Result<CancelAnswer, Malformed> {
        match answer.tag() {
            "upgraded" => Ok(CancelAnswer::Upgraded),
            "left" => Ok(CancelAnswer::Left),
            "released" => Ok(CancelAnswer::Released),
            "absent" => Ok(CancelAnswer::Absent),
            _ => Err(Malformed),
        }
    }
}
