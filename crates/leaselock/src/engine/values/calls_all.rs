//! Several locks in one request: all of them or none.

use leaselock_fence::Fence;

use super::grant::{Acquired, Seen, seen_at};
use super::kind::StepScripts;
use super::resource::Resource;
use crate::base::fence;
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::script::quarantine_key::QuarantineKey;
use crate::script::{Answer, Call, Malformed, Operation, Script};

/// Acquires all locks, if each is free and has no waiter. Runs the kind's `acquire_all`.
pub(crate) struct AcquireAll<'a> {
    /// The script of their kind.
    pub(crate) step: &'static StepScripts,
    pub(crate) resources: &'a [&'a Resource],
    pub(crate) token: &'a Token,
    pub(crate) ttl: Ttl,
}

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

impl Operation for AcquireAll<'_> {
    type Reply = AcquiredAll;

    fn script(&self) -> &'static Script {
        self.step.script(self.gate().is_some())
    }

    fn encode(&self, call: &mut Call) {
        let resources = self.resources.iter();
        call.keys(resources.clone().map(|resource| &resource.lock));
        call.keys(resources.clone().map(|resource| resource.queue()));
        call.keys(resources.map(|resource| resource.fence()));
        if let (Some(gate), Some(first)) = (self.gate(), self.resources.first()) {
            call.key(&*gate.key_for(&first.lock));
        }
        call.arg(self.token).arg(self.ttl.as_ms());
        if let Some(gate) = self.gate() {
            call.arg(gate.longest.as_ms()).arg(gate.quarantine_ms());
        }
    }

    fn decode(answer: &Answer) -> Result<AcquiredAll, Malformed> {
        match answer.tag() {
            "granted" => {
                let numbers = 1..answer.values().len();
                let fences = numbers.map(|at| answer.number(at).map(fence::of_reply));
                Ok(AcquiredAll::Granted {
                    fences: fences.collect::<Result<_, _>>()?,
                    time_us: answer.number(0)?,
                })
            }
            "busy" => {
                let at = usize::try_from(answer.number(3)?).map_err(|_| Malformed)?;
                Ok(AcquiredAll::Busy {
                    seen: seen_at(answer, 0, answer.number(2)?)?,
                    at: at.checked_sub(1).ok_or(Malformed)?,
                })
            }
            "separate" => Ok(AcquiredAll::Separate {
                time_us: answer.number(0)?,
            }),
            "quarantined" | "disagrees" => Acquired::decode(answer).map(AcquiredAll::AtGate),
            _ => Err(Malformed),
        }
    }
}

impl AcquireAll<'_> {
    /// Returns the gate in strict mode. All locks share one, because they share a slot or a server.
    fn gate(&self) -> Option<&QuarantineKey> {
        self.resources.first()?.gate.as_deref()
    }
}
