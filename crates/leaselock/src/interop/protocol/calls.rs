//! The requests of the protocols that are scripts: the keys of the locks, the holder's value there, and the rest.

use std::sync::Arc;
use std::time::Duration;

use crate::base::ttl::Ttl;
use crate::engine::values::custom::TakeOutcome;
use crate::engine::values::grant::{ExtendAnswer, ReleaseAnswer};
use crate::script::{Answer, Call, Malformed, Operation, Script};

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

/// Takes the locks if they are free.
pub(super) struct TakeForeign<'a> {
    pub(super) script: &'static Script,
    pub(super) locks: Locks<'a>,
    pub(super) ttl: Ttl,
}

impl Operation for TakeForeign<'_> {
    type Reply = TakeOutcome;

    fn script(&self) -> &'static Script {
        self.script
    }

    fn encode(&self, call: &mut Call) {
        call.keys(self.locks.keys());
        call.arg(self.locks.value).arg(self.ttl.as_ms());
    }

    fn decode(answer: &Answer) -> Result<TakeOutcome, Malformed> {
        match answer.tag() {
            "taken" => Ok(TakeOutcome::Taken),
            "busy" => Ok(TakeOutcome::Busy {
                remaining: remaining(answer.signed(0)?),
            }),
            _ => Err(Malformed),
        }
    }
}

/// Reads a reply to `PTTL`; below zero there is no expiry, or no key any more.
pub(crate) fn remaining(pttl_ms: i64) -> Option<Duration> {
    match pttl_ms {
        -2 => Some(Duration::ZERO),
        _ => u64::try_from(pttl_ms).ok().map(Duration::from_millis),
    }
}

/// Extends the locks.
pub(super) struct ExtendForeign<'a> {
    pub(super) script: &'static Script,
    pub(super) locks: Locks<'a>,
    pub(super) ttl: Ttl,
}

impl Operation for ExtendForeign<'_> {
    type Reply = ExtendAnswer;

    fn script(&self) -> &'static Script {
        self.script
    }

    fn encode(&self, call: &mut Call) {
        call.keys(self.locks.keys());
        call.arg(self.locks.value).arg(self.ttl.as_ms());
    }

    fn decode(answer: &Answer) -> Result<ExtendAnswer, Malformed> {
        ExtendAnswer::decode(answer)
    }
}

/// Releases the locks.
pub(super) struct ReleaseForeign<'a> {
    pub(super) script: &'static Script,
    pub(super) locks: Locks<'a>,
    /// The channel of the waiters, where the script publishes.
    pub(super) channel: Option<String>,
}

impl Operation for ReleaseForeign<'_> {
    type Reply = ReleaseAnswer;

    fn script(&self) -> &'static Script {
        self.script
    }

    fn encode(&self, call: &mut Call) {
        call.keys(self.locks.keys());
        call.arg(self.locks.value).args(self.channel.iter());
    }

    fn decode(answer: &Answer) -> Result<ReleaseAnswer, Malformed> {
        ReleaseAnswer::decode(answer)
    }
}
