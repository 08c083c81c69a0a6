//! The scripts that only the nodes of a quorum run: one value per script under `lua/quorum/`.

use std::time::Duration;

use leaselock_fence::Fence;

use super::calls::operation;
use super::calls_many::{Item, Replies, each, released};
use super::grant::{Acquired, ReleaseAnswer, Seen, seen_at};
use super::kind::{Held, HeldFor};
use crate::base::StoreError;
use crate::base::error::Vote as Shown;
use crate::quorum::group::{NodeQuestion, QuorumStore};
use crate::quorum::tally::Votes;
use crate::script::{Malformed, Script, Scripts, script};

pub(crate) static SCRIPTS: Scripts = &[&CAST_VOTE, &ACCEPT, &WITHDRAW, &VOTE_MANY, &WITHDRAW_MANY];

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

// Votes for many acquisitions in one call to each node, and many withdrawals in one call.
//
// A batch of votes serves the plain case: locks that a majority finds free, under one proposal that all nodes accept.
// Every other acquisition votes again in a round of its own, after its votes of this round have been withdrawn.

static VOTE_MANY: Script = script!("quorum/vote_many");
static WITHDRAW_MANY: Script = script!("quorum/withdraw_many");

/// The reply of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VotedMany {
    pub(crate) time_us: u64,
    /// A fencing token that the node would have accepted for every item.
    pub(crate) least: u64,
    /// By item: true if the node voted for us and accepts the proposal. False means that it did nothing for the item.
    pub(crate) accepted: Vec<bool>,
}

operation! {
    /// Asks for the votes of free locks. Runs `lua/quorum/vote_many.lua`.
    pub(crate) struct VoteMany<'a> {
        /// At least one; all go with the first.
        items: &'a [Item],
        /// A fencing token; 0 for none.
        proposed: u64,
        behind: Duration,
    }
    script &VOTE_MANY;
    fn encode(call) {
        let terms = items[0].terms;
        call.keys(items.iter().map(|item| &item.held.resource.lock));
        if terms.fences {
            call.keys(items.iter().map(|item| item.held.resource.fence()));
        }
        call.arg(terms.ttl.as_ms()).arg(u64::from(terms.fences)).arg(proposed).arg(micros(*behind));
        call.args(items.iter().map(|item| &item.held.token));
    }
    fn decode(answer) -> VotedMany {
        "answered" => {
            let letters = each(answer.bytes(2)?, |letter| match letter {
                b'a' => Ok(Some(())),
                b'-' => Ok(None),
                _ => Err(Malformed),
            })?;
            VotedMany {
                time_us: answer.number(0)?,
                least: answer.number(1)?,
                accepted: letters.iter().map(Option::is_some).collect(),
            }
        },
    }
}

operation! {
    /// Withdraws many votes. Runs `lua/quorum/withdraw_many.lua`.
    pub(crate) struct WithdrawMany<'a> {
        items: &'a [&'a Item],
        /// True if the node wakes the first registered caller of each lock.
        tells: bool,
    }
    script &WITHDRAW_MANY;
    votes elsewhere;
    fn encode(call) {
        call.keys(items.iter().map(|item| &item.held.resource.lock));
        call.keys(items.iter().map(|item| item.held.resource.callers()));
        call.arg(u64::from(*tells));
        call.args(items.iter().map(|item| &item.held.token));
    }
    fn decode(answer) -> Replies<ReleaseAnswer> {
        "answered" => each(answer.bytes(0)?, released)?,
    }
}

/// Runs one round for all items. An item with a majority has its lease; the votes of all others are withdrawn.
pub(crate) async fn vote_together(
    quorum: &QuorumStore,
    items: &[Item],
    within: Duration,
) -> Result<Replies<Acquired>, StoreError> {
    let fences = items[0].terms.fences;
    let proposed = quorum.propose_if(fences, within).await;
    let vote = VoteMany {
        items,
        proposed,
        behind: quorum.behind(),
    };
    let mut poll = quorum.poll(&vote, NodeQuestion::ToVote, |_| true, within);
    // The round ends with a majority of replies: an item without a majority of votes has a round of its own next.
    while !poll.votes().is_majority(|_| true) {
        let Some(at) = poll.next().await else { break };
        if let Some(Ok(voted)) = poll.votes().of(at) {
            quorum.showed(at, voted.time_us);
            if voted.least > proposed {
                quorum.asked_for(voted.least);
            }
        }
    }
    let is_there = poll.votes().is_majority(|_| true);
    let is_won = |item| {
        let accepts = |voted: &VotedMany| voted.accepted.get(item) == Some(&true);
        is_there && poll.votes().is_majority(accepts)
    };
    let won: Vec<bool> = (0..items.len()).map(is_won).collect();
    if won.contains(&false) {
        if !won.contains(&true) {
            poll.call_off();
        }
        give_back(quorum, poll.votes(), &won, items, within).await;
    }
    if !is_there {
        let maybe = poll.votes().may_have_acted();
        return Err(quorum.no_majority(poll.votes(), |_| Shown::Answered, maybe));
    }
    let fence = fences.then(|| Fence::new(proposed));
    let granted = || Acquired::granted(fence, 0); // each node has a clock of its own
    Ok(won.iter().map(|won| won.then(granted)).collect())
}

/// Withdraws the votes of the items that lost. The withdrawal has been sent when this returns, before the next request.
///
/// It wakes no caller: a client that these votes kept from a majority votes again on its own.
async fn give_back(
    quorum: &QuorumStore,
    votes: &Votes<VotedMany>,
    won: &[bool],
    items: &[Item],
    within: Duration,
) {
    let lost = || (0..items.len()).filter(|item| !won[*item]);
    let has = |voted: &VotedMany| lost().any(|item| voted.accepted.get(item) != Some(&false));
    let maybe_has = |at| votes.may_have(at, has);
    let lost: Vec<&Item> = lost().map(|item| &items[item]).collect();
    let withdraw = WithdrawMany {
        items: &lost,
        tells: false,
    };
    let mut giving_back = quorum.poll(&withdraw, NodeQuestion::ToSay, maybe_has, within);
    // Without `unconstrained`, the runtime's cooperative budget could stop this task before the withdrawal is sent.
    let sending = tokio::time::timeout(Duration::ZERO, giving_back.next());
    drop(tokio::task::unconstrained(sending).await);
}
