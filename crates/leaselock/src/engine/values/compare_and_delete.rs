//! A release on the lock's key alone: the script compares the token and deletes the key.

use super::grant::ReleaseAnswer;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

/// Releases a lock that has no side keys. Runs `lua/setnx_pexpire/release.lua`.
#[derive(Debug)]
pub(crate) struct CompareAndDelete<'a> {
    pub(crate) lock: &'a str,
    pub(crate) token: &'a str,
}

pub(crate) static COMPARE_AND_DELETE: Script = script!("setnx_pexpire/release");

impl Operation for CompareAndDelete<'_> {
    type Reply = ReleaseAnswer;

    fn script(&self) -> &'static Script {
        &COMPARE_AND_DELETE
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.lock);
        call.arg(self.token);
    }

    fn decode(answer: &Answer) -> Result<ReleaseAnswer, Malformed> {
        ReleaseAnswer::decode(answer)
    }
}
