//! The requests of the protocols that are scripts: the keys of the locks, the holder's value there, and the rest.

use std::time::Duration;

use crate::base::{Ttl, debug_as};
use crate::engine::values::calls::operation;
use crate::engine::values::custom::TakeOutcome;
use crate::engine::values::grant::{ExtendAnswer, ReleaseAnswer};
use crate::script::Script;

/// The lock of one holder.
pub(super) struct HeldForeign<'a> {
    pub(super) lock: &'a str,
    /// What the holder has at the key: the proof of ownership.
    pub(super) value: &'a str,
}

// The value is a secret.
debug_as!(HeldForeign<'_>, it => "Held({})", it.lock);

/// The same, and how long it is to last from a request on.
#[derive(Debug)]
pub(super) struct ForeignFor<'a> {
    pub(super) held: HeldForeign<'a>,
    pub(super) ttl: Ttl,
}

operation! {
    /// Takes the lock if it is free.
    pub(super) struct TakeForeign<'a> {
        script: &'static Script,
        held_for: ForeignFor<'a>,
    }
    script script;
    fn encode(call) {
        let ForeignFor { held, ttl } = held_for;
        call.key(held.lock);
        call.arg(held.value).arg(ttl.as_ms());
    }
    fn decode(answer) -> TakeOutcome {
        "taken" => TakeOutcome::Taken,
        "busy" => TakeOutcome::Busy { remaining: remaining(answer.signed(0)?) },
    }
}

/// Reads a reply to `PTTL`; below zero there is no expiry, or no key any more.
pub(crate) fn remaining(pttl_ms: i64) -> Option<Duration> {
    match pttl_ms {
        -2 => Some(Duration::ZERO),
        _ => u64::try_from(pttl_ms).ok().map(Duration::from_millis),
    }
}

operation! {
    /// Extends the lock.
    pub(super) struct ExtendForeign<'a> {
        script: &'static Script,
        held_for: ForeignFor<'a>,
    }
    script script;
    fn encode(call) {
        let ForeignFor { held, ttl } = held_for;
        call.key(held.lock);
        call.arg(held.value).arg(ttl.as_ms());
    }
    fn decode(answer) -> ExtendAnswer {
        _ => ExtendAnswer::decode(answer)?,
    }
}

operation! {
    /// Releases the lock.
    pub(super) struct ReleaseForeign<'a> {
        script: &'static Script,
        held: HeldForeign<'a>,
        /// The list that wakes a waiter, where the protocol has one.
        signal: Option<&'a str>,
        /// The channel of the waiters, where the script publishes.
        channel: Option<String>,
    }
    script script;
    fn encode(call) {
        call.key(held.lock).keys(signal.iter());
        call.arg(held.value).args(channel.iter());
    }
    fn decode(answer) -> ReleaseAnswer {
        _ => ReleaseAnswer::decode(answer)?,
    }
}
