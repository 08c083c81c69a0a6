//! The request that writes a lease once more, so that the client can wait for replicas.

use crate::base::{Token, Ttl};
use crate::engine::values::{Resource, operation};
use crate::script::Script;

operation! {
    /// Extends a lease to its whole ttl, and writes in any case. Runs the kind's `confirm`.
    pub(crate) struct Confirm<'a> {
        script: &'static Script,
        resource: &'a Resource,
        token: &'a Token,
        ttl: Ttl,
    }
    script script;
    fn encode(call) {
        call.key(&resource.lock);
        call.arg(token).arg(ttl.as_ms());
        call.args(resource.mode.as_deref().into_iter());
    }
    fn decode(answer) -> Confirmed {
        "confirmed" => Confirmed::Written,
        "expired" => Confirmed::Expired,
        "taken" => Confirmed::Taken,
    }
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

/// How many copies of a grant the servers have acknowledged.
pub(crate) struct ReplicaAck {
    pub(crate) replicas: u32,
    /// True if the server itself has it on disk.
    pub(crate) on_own_disk: bool,
}
