//! The requests of the protocols that are scripts: the keys of the locks, the holder's value there, and the rest.

use std::sync::Arc;
use std::time::Duration;

use crate::base::{Ttl, debug_as};
use crate::engine::values::calls::operation;
use crate::engine::values::custom::TakeOutcome;
use crate::engine::values::grant::{ExtendAnswer, ReleaseAnswer};
use crate::script::Script;

/// The locks of one holder.
#[derive(Clone, Copy)]
pub(super) struct Locks<'a> {
    pub(super) first: &'a str,
    /// The keys behind it in the script's header.
    pub(super) others: &'a [Arc<str>],
    /// What the holder has at the keys: the proof of ownership.
    pub(super) value: &'a str,
}

impl<'a> Locks<'a> {
    fn keys(&self) -> impl Iterator<Item = &'a str> {
        let others = self.others.iter().map(|key| &**key);
        std::iter::once(self.first).chain(others)
    }
}

// The value is a secret.
debug_as!(Locks<'_>, it => "Locks({})", it.first);

operation! {
    /// Takes the locks if they are free.
    pub(super) struct TakeForeign<'a> {
        script: &'static Script,
        locks: Locks<'a>,
        ttl: Ttl,
    }
    script script;
    fn encode(call) {
        call.keys(locks.keys());
        call.arg(locks.value).arg(ttl.as_ms());
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
    /// Extends the locks.
    pub(super) struct ExtendForeign<'a> {
        script: &'static Script,
        locks: Locks<'a>,
        ttl: Ttl,
    }
    script script;
    fn encode(call) {
        call.keys(locks.keys());
        call.arg(locks.value).arg(ttl.as_ms());
    }
    fn decode(answer) -> ExtendAnswer {
        _ => ExtendAnswer::decode(answer)?,
    }
}

operation! {
    /// Releases the locks.
    pub(super) struct ReleaseForeign<'a> {
        script: &'static Script,
        locks: Locks<'a>,
        /// The channel of the waiters, where the script publishes.
        channel: Option<String>,
    }
    script script;
    fn encode(call) {
        call.keys(locks.keys());
        call.arg(locks.value).args(channel.iter());
    }
    fn decode(answer) -> ReleaseAnswer {
        _ => ReleaseAnswer::decode(answer)?,
    }
}
