//! A release on the lock's key alone: its token is compared, and the key deleted.

use crate::script::{Answer, Call, Malformed, Operation, Script, script};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseAnswer {
    Released,
    Expired,
    Taken,
}

/// Gives back a lock beside which nothing lies. Runs `lua/setnx_pexpire/release.lua`.
#[derive(Debug)]
pub(crate) struct CompareAndDelete<'a> {
    pub(crate) lock: &'a str,
    pub(crate) token: &'a str,
}

impl Operation for CompareAndDelete<'_> {
    type Reply = ReleaseAnswer;
    const SCRIPT: fn() -> &'static Script = || script!("setnx_pexpire/release");

    fn encode(&self, call: &mut Call) {
        call.key(self.lock);
        call.arg(self.token);
    }

    fn decode(answer: &Answer) -> Result<ReleaseAnswer, Malformed> {
        match answer.tag() {
            "released" => Ok(ReleaseAnswer::Released),
            "expired" => Ok(ReleaseAnswer::Expired),
            "taken" => Ok(ReleaseAnswer::Taken),
            _ => Err(Malformed),
        }
    }
}
