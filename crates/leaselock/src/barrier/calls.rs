//! The requests of a barrier.

use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::quorum::votable::on_one_store;
#[cfg(feature = "redis")]
use crate::script::Scripts;
use crate::script::keys::LockKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

static ARRIVE_AT_BARRIER: Script = script!("barrier/arrive");
static LEAVE: Script = script!("barrier/leave");

/// Every script of this file.
#[cfg(feature = "redis")]
pub(crate) static SCRIPTS: Scripts = &[&ARRIVE_AT_BARRIER, &LEAVE];

/// How long a barrier is kept that no party uses, if a lease is not longer.
const KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// A barrier was passed, as `std::sync::BarrierWaitResult` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BarrierPass {
    /// How many generations have passed before this one.
    pub generation: u64,
    /// The caller's number among those that passed together, from 0.
    pub index: u32,
}

impl BarrierPass {
    /// True for one of the parties of a generation.
    pub fn is_leader(&self) -> bool {
        self.index == 0
    }
}

/// Waits for the others, or goes on waiting. Runs `barrier/arrive`.
#[derive(Debug)]
pub(super) struct ArriveAtBarrier<'a> {
    pub(super) keys: &'a LockKeys,
    pub(super) token: &'a Token,
    pub(super) parties: u32,
    pub(super) lease: Ttl,
    pub(super) generation: u64,
    pub(super) channel: &'a str,
    /// An earlier wait that knows that it passed.
    pub(super) told: Option<&'a Token>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrivalAtBarrier {
    Passed { index: u32 },
    Waiting { arrived: u32 },
    Missed { generation: u64 },
    Disagrees { parties: u32 },
}

impl Operation for ArriveAtBarrier<'_> {
    type Reply = ArrivalAtBarrier;

    fn script(&self) -> &'static Script {
        &ARRIVE_AT_BARRIER
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.keys.beside("barrier"))
            .key(self.keys.beside("passed"));
        call.arg(self.token)
            .arg(u64::from(self.parties))
            .arg(self.lease.as_ms())
            .arg(self.generation)
            .arg(KEPT_MS.max(self.lease.as_ms()))
            .arg(self.channel)
            .arg(self.told.map_or("", Token::secret));
    }

    fn decode(answer: &Answer) -> Result<ArrivalAtBarrier, Malformed> {
        Ok(match answer.tag() {
            "passed" => ArrivalAtBarrier::Passed {
                index: answer.small(0)?,
            },
            "waiting" => ArrivalAtBarrier::Waiting {
                arrived: answer.small(0)?,
            },
            "missed" => ArrivalAtBarrier::Missed {
                generation: answer.number(0)?,
            },
            "disagrees" => ArrivalAtBarrier::Disagrees {
                parties: answer.small(0)?,
            },
            _ => return Err(Malformed),
        })
    }
}

/// Gives up waiting. Runs `barrier/leave`.
#[derive(Debug)]
pub(super) struct Leave<'a> {
    pub(super) keys: &'a LockKeys,
    pub(super) token: &'a Token,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftBarrier {
    /// Too late: the caller has passed.
    Passed {
        index: u32,
    },
    Left,
}

impl Operation for Leave<'_> {
    type Reply = LeftBarrier;

    fn script(&self) -> &'static Script {
        &LEAVE
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.keys.beside("barrier"))
            .key(self.keys.beside("passed"));
        call.arg(self.token);
    }

    fn decode(answer: &Answer) -> Result<LeftBarrier, Malformed> {
        match answer.tag() {
            "passed" => Ok(LeftBarrier::Passed {
                index: answer.small(0)?,
            }),
            "left" => Ok(LeftBarrier::Left),
            _ => Err(Malformed),
        }
    }
}

on_one_store!(ArriveAtBarrier<'_>, Leave<'_>);
