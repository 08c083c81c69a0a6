//! Several locks in one request: all of them or none.

use leaselock_fence::Fence;

use super::grant::{Acquired, Seen, seen_at};
use super::kind::StepScripts;
use super::operation::operation;
use super::resource::Resource;
use crate::base::{Token, Ttl, fence};
use crate::script::Malformed;

/// The reply to a request for several locks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AcquiredAll {
    Granted {
        /// The fencing token of each name, in the order of the request.
        fences: Vec<Option<Fence>>,
        time_us: u64,
    },
    /// Nothing was acquired, because the lock at this index is held.
    Busy { seen: Seen, at: usize },
    /// Nothing was acquired, because one of the locks has waiters, readers or permits: each needs its own request.
    Separate { time_us: u64 },
    /// Nothing was acquired: the gate of strict mode answered in place of the locks.
    AtGate(Acquired),
}

operation! {
    /// Acquires all locks, if each is free and has no waiter. Runs the kind's `acquire_all`.
    pub(crate) struct AcquireAll<'a> {
        /// The script of their kind.
        step: &'static StepScripts,
        resources: &'a [&'a Resource],
        token: &'a Token,
        ttl: Ttl,
    }
    script step.script(resources.first().is_some_and(|first| first.gate.is_some()));
    fn encode(call) {
        let each = resources.iter();
        call.keys(each.clone().map(|resource| &resource.lock));
        call.keys(each.clone().map(|resource| resource.queue()));
        call.keys(each.map(|resource| resource.fence()));
        // All locks share the gate, because they share a slot or a server.
        let first = resources.first();
        first.inspect(|first| first.write_gate_key(call));
        call.arg(token).arg(ttl.as_ms());
        first.inspect(|first| first.write_gate(call));
    }
    fn decode(answer) -> AcquiredAll {
        "granted" => {
            let numbers = 1..answer.values().len();
            let fences = numbers.map(|at| answer.number(at).map(fence::of_reply));
            let (fences, time_us) = (fences.collect::<Result<_, _>>()?, answer.number(0)?);
            AcquiredAll::Granted { fences, time_us }
        },
        "busy" => {
            let at = usize::try_from(answer.number(3)?).map_err(|_| Malformed)?;
            let seen = seen_at(answer, 0, answer.number(2)?)?;
            AcquiredAll::Busy { seen, at: at.checked_sub(1).ok_or(Malformed)? }
        },
        "separate" => AcquiredAll::Separate { time_us: answer.number(0)? },
        "quarantined" | "disagrees" => AcquiredAll::AtGate(Acquired::decode(answer)?),
    }
}
