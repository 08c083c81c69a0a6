//! Writing a lease once more, so that replicas can be waited for.

use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::script::keys::MutexKeys;
use crate::script::{Call, Malformed, Operation, Script, Tagged, script};

/// Makes a lease's time whole by a write in any case. Runs `lua/mutex/confirm.lua`.
#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "only servers have replicas")
)]
#[derive(Debug)]
pub(crate) struct Confirm<'a> {
    pub(crate) keys: &'a MutexKeys,
    pub(crate) token: &'a Token,
    pub(crate) ttl: Ttl,
}

#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "only servers have replicas")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmed {
    Written,
    Expired,
    Taken,
}

impl Operation for Confirm<'_> {
    type Reply = Confirmed;
    const SCRIPT: fn() -> &'static Script = || script!("mutex/confirm");

    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock);
        call.arg(self.token).arg(self.ttl.as_ms());
    }

    fn decode(answer: &Tagged) -> Result<Confirmed, Malformed> {
        match answer.tag() {
            "confirmed" => Ok(Confirmed::Written),
            "expired" => Ok(Confirmed::Expired),
            "taken" => Ok(Confirmed::Taken),
            _ => Err(Malformed),
        }
    }
}
