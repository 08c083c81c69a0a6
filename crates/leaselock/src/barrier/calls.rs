//! The requests of a barrier.

use crate::base::{Token, Ttl};
use crate::engine::values::calls::operation;
use crate::script::{LockKeys, Script, Scripts, script};

static ARRIVE_AT_BARRIER: Script = script!("barrier/arrive");
static LEAVE: Script = script!("barrier/leave");

/// Every script of this file.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrivalAtBarrier {
    Passed { index: u32 },
    Waiting { arrived: u32 },
    Missed { generation: u64 },
    Disagrees { parties: u32 },
}

/// Which party a request is about, and of which barrier.
#[derive(Debug, Clone)]
pub(super) struct Party {
    pub(super) keys: LockKeys,
    pub(super) token: Token,
}

operation! {
    /// Waits for the others, or goes on waiting. Runs `barrier/arrive`.
    pub(super) struct ArriveAtBarrier<'a> {
        party: &'a Party,
        parties: u32,
        lease: Ttl,
        generation: u64,
        channel: &'a str,
        /// An earlier wait that knows that it passed.
        told: Option<&'a Token>,
    }
    script &ARRIVE_AT_BARRIER;
    fn encode(call) {
        let Party { keys, token } = party;
        call.key(keys.beside("barrier")).key(keys.beside("passed"));
        call.arg(token).arg(u64::from(*parties)).arg(lease.as_ms()).arg(generation);
        call.arg(KEPT_MS.max(lease.as_ms())).arg(channel).arg(told.map_or("", Token::secret));
    }
    fn decode(answer) -> ArrivalAtBarrier {
        "passed" => ArrivalAtBarrier::Passed { index: answer.small(0)? },
        "waiting" => ArrivalAtBarrier::Waiting { arrived: answer.small(0)? },
        "missed" => ArrivalAtBarrier::Missed { generation: answer.number(0)? },
        "disagrees" => ArrivalAtBarrier::Disagrees { parties: answer.small(0)? },
    }
}

operation! {
    /// Gives up waiting, as a party does that is dropped; too late for one that has passed, with this index. Runs
    /// `barrier/leave`.
    #[derive(Clone)]
    pub(super) struct Leave {
        party: Party,
    }
    script &LEAVE;
    fn encode(call) {
        let Party { keys, token } = party;
        call.key(keys.beside("barrier")).key(keys.beside("passed"));
        call.arg(token);
    }
    fn decode(answer) -> Option<u32> {
        "passed" => Some(answer.small(0)?),
        "left" => None,
    }
}
