//! The scripts that only the nodes of a quorum run: one value per script under `lua/quorum/`.

pub(crate) mod many;

use std::time::Duration;

use leaselock_fence::Fence;

use super::calls::operation;
use super::grant::{ReleaseAnswer, Seen, seen_at};
use super::kind::{Held, HeldFor};
use crate::script::{Script, Scripts, script};

pub(crate) static SCRIPTS: Scripts = &[&CAST_VOTE, &ACCEPT, &WITHDRAW];

static CAST_VOTE: Script = script!("quorum/vote");
static ACCEPT: Script = script!("quorum/accept");
static WITHDRAW: Script = script!("quorum/withdraw");

operation! {
    /// Asks for a vote. Runs `lua/quorum/vote.lua`.
    pub(crate) struct CastVote<'a> {
        held_for: HeldFor<'a>,
        /// A fencing token; 0 for none.
        proposed: u64,
        behind: Duration,
        /// The caller that a busy node registers for a wake-up: its token and its channel. Empty for none.
        caller: &'a str,
    }
    script &CAST_VOTE;
    fn encode(call) {
        let Held { resource, token } = held_for.held;
        call.key(&resource.lock).key(resource.fence()).key(resource.callers());
        call.arg(token).arg(held_for.ttl.as_ms()).arg(*proposed).arg(micros(*behind)).arg(*caller);
    }
    fn decode(answer) -> VoteAnswer {
        "accepted" => VoteAnswer::Accepted { time_us: answer.number(0)? },
        "granted" => VoteAnswer::Granted { least: answer.number(0)?, time_us: answer.number(1)? },
        "busy" => VoteAnswer::Busy { seen: seen_at(answer, 0, answer.number(2)?)? },
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VoteAnswer {
    /// The node voted for us, and accepts the proposed fencing token.
    Accepted { time_us: u64 },
    /// The node voted for us, and requires a fencing token of at least `least`.
    Granted { least: u64, time_us: u64 },
    /// Another client has the node's vote.
    Busy { seen: Seen },
}

impl VoteAnswer {
    pub(crate) fn is_ours(&self) -> bool {
        !matches!(self, VoteAnswer::Busy { .. })
    }

    pub(crate) fn time_us(&self) -> u64 {
        match self {
            VoteAnswer::Accepted { time_us } | VoteAnswer::Granted { time_us, .. } => *time_us,
            VoteAnswer::Busy { seen } => seen.time_us,
        }
    }
}

operation! {
    /// Proposes another fencing token to nodes that have voted for us. Runs `lua/quorum/accept.lua`.
    pub(crate) struct Accept<'a> {
        held: &'a Held,
        proposed: Fence,
        behind: Duration,
    }
    script &ACCEPT;
    fn encode(call) {
        let Held { resource, token } = *held;
        call.key(&resource.lock).key(resource.fence());
        call.arg(token).arg(proposed.get()).arg(micros(*behind));
    }
    fn decode(answer) -> AcceptAnswer {
        "accepted" => AcceptAnswer::Agreed,
        "refused" => AcceptAnswer::Refused { least: answer.number(0)? },
        "gone" => AcceptAnswer::Gone,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcceptAnswer {
    Agreed,
    Refused { least: u64 },
    Gone,
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

operation! {
    /// Withdraws a vote. Runs `lua/quorum/withdraw.lua`.
    pub(crate) struct Withdraw<'a> {
        held: &'a Held,
        /// True if the node wakes the first registered caller.
        tells: bool,
        /// The caller whose registration the node removes; empty for none.
        caller: &'a str,
    }
    script &WITHDRAW;
    votes elsewhere;
    fn encode(call) {
        let Held { resource, token } = *held;
        call.key(&resource.lock).key(resource.callers());
        call.arg(token).arg(u64::from(*tells)).arg(caller);
    }
    fn decode(answer) -> ReleaseAnswer {
        _ => ReleaseAnswer::decode(answer)?,
    }
}

impl<'a> Withdraw<'a> {
    /// Creates the request of a holder, or of an operator or cleanup that acts for the holder.
    pub(crate) fn of(held: &'a Held) -> Self {
        Withdraw {
            held,
            tells: true,
            caller: "",
        }
    }
}
