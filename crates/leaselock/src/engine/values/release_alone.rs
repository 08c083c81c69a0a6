//! Giving a read or permits back by the lock's key alone, for a node of a cluster that lacks the side keys.

use super::grant::ReleaseAnswer;
use super::operation::operation;
use super::resource::Resource;
use crate::base::Token;
use crate::script::{Script, script};

pub(crate) static RELEASE_ALONE: Script = script!("hold/release_alone");

operation! {
    /// Releases a hold and wakes no waiter. Runs `lua/hold/release_alone.lua`, to which a
    /// [`Release`](super::calls::Release) falls back.
    #[cfg_attr(not(test), allow(dead_code, reason = "the store makes this call out of a release"))]
    pub(crate) struct ReleaseAlone<'a> {
        resource: &'a Resource,
        token: &'a Token,
    }
    script &RELEASE_ALONE;
    fn encode(call) {
        call.key(&resource.lock);
        call.arg(token);
        call.args(resource.mode.as_deref().into_iter());
    }
    fn decode(answer) -> ReleaseAnswer {
        _ => ReleaseAnswer::decode(answer)?,
    }
}
