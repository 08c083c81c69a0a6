//! The requests of a latch.

use std::time::Duration;

use crate::quorum::votable::on_one_store;
#[cfg(feature = "redis")]
use crate::script::Scripts;
use crate::script::keys::LockKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script, Value, script};

static ARRIVE: Script = script!("latch/arrive");
static INSPECT_LATCH: Script = script!("latch/inspect", reads_only);

/// Every script of this file.
#[cfg(feature = "redis")]
pub(crate) static SCRIPTS: Scripts = &[&ARRIVE, &INSPECT_LATCH];

/// Counts a party. Runs `latch/arrive`.
#[derive(Debug)]
pub(super) struct Arrive<'a> {
    pub(super) keys: &'a LockKeys,
    pub(super) party: &'a str,
    pub(super) count: u32,
    pub(super) kept: Duration,
    pub(super) channel: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrived {
    /// The party counts; so many are missing.
    Counted {
        left: u32,
    },
    /// The latch is open without this party.
    Excess,
    Disagrees {
        count: u32,
    },
}

impl Operation for Arrive<'_> {
    type Reply = Arrived;

    fn script(&self) -> &'static Script {
        &ARRIVE
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.keys.beside("latch"));
        call.arg(self.party)
            .arg(u64::from(self.count))
            .arg(self.kept)
            .arg(self.channel);
    }

    fn decode(answer: &Answer) -> Result<Arrived, Malformed> {
        let first = || answer.small(0);
        Ok(match answer.tag() {
            "counted" | "again" => Arrived::Counted { left: first()? },
            "excess" => Arrived::Excess,
            "disagrees" => Arrived::Disagrees { count: first()? },
            _ => return Err(Malformed),
        })
    }
}

/// Reads who has arrived. Runs `latch/inspect`.
#[derive(Debug)]
pub(super) struct InspectLatch<'a> {
    pub(super) keys: &'a LockKeys,
    pub(super) count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InspectedLatch {
    Arrived { parties: Vec<String>, left: u32 },
    Disagrees { count: u32 },
}

impl Operation for InspectLatch<'_> {
    type Reply = InspectedLatch;

    fn script(&self) -> &'static Script {
        &INSPECT_LATCH
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.keys.beside("latch"));
        call.arg(u64::from(self.count));
    }

    fn decode(answer: &Answer) -> Result<InspectedLatch, Malformed> {
        let party = |value: &Value| match value {
            Value::Bytes(name) => Ok(String::from_utf8_lossy(name).into_owned()),
            _ => Err(Malformed),
        };
        Ok(match answer.tag() {
            "arrived" => InspectedLatch::Arrived {
                left: answer.small(0)?,
                parties: answer
                    .array(1)?
                    .iter()
                    .map(party)
                    .collect::<Result<_, _>>()?,
            },
            "disagrees" => InspectedLatch::Disagrees {
                count: answer.small(0)?,
            },
            _ => return Err(Malformed),
        })
    }
}

on_one_store!(Arrive<'_>, InspectLatch<'_>);
