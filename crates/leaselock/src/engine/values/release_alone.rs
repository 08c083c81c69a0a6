//! Giving a read or permits back by the lock's key alone, for a node of a cluster that lacks the side keys.

use super::grant::ReleaseAnswer;
use super::resource::Resource;
use crate::base::token::Token;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

/// Releases a hold and wakes no waiter. Runs `lua/hold/release_alone.lua`, to which a
/// [`Release`](super::calls::Release) falls back.
#[derive(Debug)]
#[cfg_attr(
    not(test),
    allow(dead_code, reason = "the store makes this call out of a release")
)]
pub(crate) struct ReleaseAlone<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) token: &'a Token,
}

pub(crate) static RELEASE_ALONE: Script = script!("hold/release_alone");

impl Operation for ReleaseAlone<'_> {
    type Reply = ReleaseAnswer;

    fn script(&self) -> &'static Script {
        &RELEASE_ALONE
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock);
        call.arg(self.token);
        call.args(self.resource.mode.as_deref().into_iter());
    }

    fn decode(answer: &Answer) -> Result<ReleaseAnswer, Malformed> {
        ReleaseAnswer::decode(answer)
    }
}
