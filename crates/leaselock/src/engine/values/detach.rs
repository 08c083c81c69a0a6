//! Detaching: the lease gets another token, with which another process continues it.

use super::operation::operation;
use super::resource::Resource;
use crate::base::{Token, Ttl};
use crate::script::Script;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detached {
    Passed,
    Expired,
    Taken,
}

operation! {
    /// Replaces the token of a lease. Runs the kind's `detach`.
    pub(crate) struct Detach<'a> {
        script: &'static Script,
        resource: &'a Resource,
        token: &'a Token,
        successor: &'a Token,
        ttl: Ttl,
    }
    script script;
    votes elsewhere;
    fn encode(call) {
        call.key(&resource.lock);
        let sides = resource.kind.detach_keys.iter();
        call.keys(sides.map(|side| resource.beside(side)));
        call.arg(token).arg(successor).arg(ttl.as_ms());
        call.args(resource.mode.as_deref().into_iter());
    }
    fn decode(answer) -> Detached {
        "passed" => Detached::Passed,
        "expired" => Detached::Expired,
        "taken" => Detached::Taken,
    }
    fn time_us(answer) {
        let lasts = answer.tag() == "passed";
        answer.number(usize::from(lasts)).ok()
    }
}
