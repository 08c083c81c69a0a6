//! Detaching: the lease gets another token, with which another process continues it.

use super::resource::Resource;
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::script::{Answer, Call, Malformed, Operation, Script};

/// Replaces the token of a lease. Runs the kind's `detach`.
#[derive(Debug)]
pub(crate) struct Detach<'a> {
    pub(crate) script: &'static Script,
    pub(crate) resource: &'a Resource,
    pub(crate) token: &'a Token,
    pub(crate) successor: &'a Token,
    pub(crate) ttl: Ttl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detached {
    Passed,
    Expired,
    Taken,
}

impl Operation for Detach<'_> {
    type Reply = Detached;

    fn script(&self) -> &'static Script {
        self.script
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock);
        let sides = self.resource.kind.detach_keys.iter();
        call.keys(sides.map(|side| self.resource.beside(side)));
        call.arg(self.token)
            .arg(self.successor)
            .arg(self.ttl.as_ms());
        call.args(self.resource.mode.as_deref().into_iter());
    }

    fn decode(answer: &Answer) -> Result<Detached, Malformed> {
        match answer.tag() {
            "passed" => Ok(Detached::Passed),
            "expired" => Ok(Detached::Expired),
            "taken" => Ok(Detached::Taken),
            _ => Err(Malformed),
        }
    }

    fn time_us(answer: &Answer) -> Option<u64> {
        let lasts = answer.tag() == "passed";
        answer.number(usize::from(lasts)).ok()
    }
}
