//! The request that writes a lease once more, so that the client can wait for replicas.

use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::engine::values::resource::Resource;
use crate::script::{Answer, Call, Malformed, Operation, Script};

/// Extends a lease to its whole ttl, and writes in any case. Runs the kind's `confirm`.
#[derive(Debug)]
pub(crate) struct Confirm<'a> {
    script: &'static Script,
    resource: &'a Resource,
    token: &'a Token,
    ttl: Ttl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmed {
    Written,
    Expired,
    Taken,
}

impl<'a> Confirm<'a> {
    /// Creates the request; `None` for a kind that cannot wait for replicas.
    pub(crate) fn of(resource: &'a Resource, token: &'a Token, ttl: Ttl) -> Option<Self> {
        let script = resource.kind.confirm.as_ref()?;
        Some(Confirm {
            script,
            resource,
            token,
            ttl,
        })
    }
}

impl Operation for Confirm<'_> {
    type Reply = Confirmed;

    fn script(&self) -> &'static Script {
        self.script
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock);
        call.arg(self.token).arg(self.ttl.as_ms());
        call.args(self.resource.mode.as_deref().into_iter());
    }

    fn decode(answer: &Answer) -> Result<Confirmed, Malformed> {
        match answer.tag() {
            "confirmed" => Ok(Confirmed::Written),
            "expired" => Ok(Confirmed::Expired),
            "taken" => Ok(Confirmed::Taken),
            _ => Err(Malformed),
        }
    }
}

/// How many copies of a grant the servers have acknowledged.
pub(crate) struct ReplicaAck {
    pub(crate) replicas: u32,
    /// True if the server itself has it on disk.
    pub(crate) on_own_disk: bool,
}
