//! The scripts that only the nodes of a quorum run: one value per script under `lua/quorum/`.

pub(crate) mod many;

use std::time::Duration;

use leaselock_fence::Fence;

use super::grant::{ReleaseAnswer, Seen, seen_at};
use super::resource::Resource;
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::script::{Answer, Call, Malformed, Operation, Script, Scripts, script};

/// Every script of a vote.
pub(crate) static SCRIPTS: Scripts = &[&CAST_VOTE, &ACCEPT, &WITHDRAW];

/// Asks for a vote. Runs `lua/quorum/vote.lua`.
#[derive(Debug)]
pub(crate) struct CastVote<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) token: &'a Token,
    pub(crate) ttl: Ttl,
    /// A fencing token; 0 for none.
    pub(crate) proposed: u64,
    pub(crate) behind: Duration,
    /// The caller that a busy node registers for a wake-up: its token and its channel. Empty for none.
    pub(crate) caller: &'a str,
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

static CAST_VOTE: Script = script!("quorum/vote");

impl Operation for CastVote<'_> {
    type Reply = VoteAnswer;

    fn script(&self) -> &'static Script {
        &CAST_VOTE
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock)
            .key(self.resource.fence())
            .key(self.resource.callers());
        call.arg(self.token)
            .arg(self.ttl.as_ms())
            .arg(self.proposed)
            .arg(micros(self.behind))
            .arg(self.caller);
    }

    fn decode(answer: &Answer) -> Result<VoteAnswer, Malformed> {
        match answer.tag() {
            "accepted" => Ok(VoteAnswer::Accepted {
                time_us: answer.number(0)?,
            }),
            "granted" => Ok(VoteAnswer::Granted {
                least: answer.number(0)?,
                time_us: answer.number(1)?,
            }),
            "busy" => Ok(VoteAnswer::Busy {
                seen: seen_at(answer, 0, answer.number(2)?)?,
            }),
            _ => Err(Malformed),
        }
    }
}

/// Proposes another fencing token to nodes that have voted for us. Runs `lua/quorum/accept.lua`.
#[derive(Debug)]
pub(crate) struct Accept<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) token: &'a Token,
    pub(crate) proposed: Fence,
    pub(crate) behind: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcceptAnswer {
    Agreed,
    Refused { least: u64 },
    Gone,
}

static ACCEPT: Script = script!("quorum/accept");

impl Operation for Accept<'_> {
    type Reply = AcceptAnswer;

    fn script(&self) -> &'static Script {
        &ACCEPT
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock).key(self.resource.fence());
        call.arg(self.token)
            .arg(self.proposed.get())
            .arg(micros(self.behind));
    }

    fn decode(answer: &Answer) -> Result<AcceptAnswer, Malformed> {
        match answer.tag() {
            "accepted" => Ok(AcceptAnswer::Agreed),
            "refused" => Ok(AcceptAnswer::Refused {
                least: answer.number(0)?,
            }),
            "gone" => Ok(AcceptAnswer::Gone),
            _ => Err(Malformed),
        }
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Withdraws a vote. Runs `lua/quorum/withdraw.lua`.
#[derive(Debug)]
pub(crate) struct Withdraw<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) token: &'a Token,
    /// True if the node wakes the first registered caller.
    pub(crate) tells: bool,
    /// The caller whose registration the node removes; empty for none.
    pub(crate) caller: &'a str,
}

impl<'a> Withdraw<'a> {
    /// Creates the request of a holder, or of an operator or cleanup that acts for the holder.
    pub(crate) fn of(resource: &'a Resource, token: &'a Token) -> Self {
        Withdraw {
            resource,
            token,
            tells: true,
            caller: "",
        }
    }
}

static WITHDRAW: Script = script!("quorum/withdraw");

impl Operation for Withdraw<'_> {
    type Reply = ReleaseAnswer;

    fn script(&self) -> &'static Script {
        &WITHDRAW
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock).key(self.resource.callers());
        call.arg(self.token)
            .arg(u64::from(self.tells))
            .arg(self.caller);
    }

    fn decode(answer: &Answer) -> Result<ReleaseAnswer, Malformed> {
        ReleaseAnswer::decode(answer)
    }
}
