//! Writing a lease once more, so that replicas can be waited for.

use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::script::keys::MutexKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

/// Makes a lease's time whole by a write in any case. Runs `lua/mutex/confirm.lua`.
#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "only servers have replicas")
)]
#[derive(Debug)]
pub(crate) struct Rewrite<'a> {
    pub(crate) keys: &'a MutexKeys,
    pub(crate) token: &'a Token,
    pub(crate) ttl: Ttl,
}

#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "only servers have replicas")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rewritten {
    Written,
    Expired,
    Taken,
}

impl Operation for Rewrite<'_> {
    type Reply = Rewritten;
    const SCRIPT: fn() -> &'static Script = || script!("mutex/confirm");

    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock);
        call.arg(self.token).arg(self.ttl.as_ms());
    }

    fn decode(answer: &Answer) -> Result<Rewritten, Malformed> {
        match answer.tag() {
            "confirmed" => Ok(Rewritten::Written),
            "expired" => Ok(Rewritten::Expired),
            "taken" => Ok(Rewritten::Taken),
            _ => Err(Malformed),
        }
    }
}

/// How many copies there are.
pub(crate) struct ReplicaAck {
    pub(crate) replicas: u32,
    /// The server itself has it on disk.
    pub(crate) here: bool,
}
