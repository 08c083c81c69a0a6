//! One round of votes for a lock: every node is asked at once, and the client with a majority has the lease.
//!
//! The proposal of a fencing token rides on the vote. A number counts when a majority has accepted it, and any two
//! majorities share a node, which accepts only what is larger than all it has seen. When too few accept, one second
//! proposal is made under the votes that are ours by then. A client that loses a round has given its votes back when it ends.

use std::time::Duration;

use leaselock_fence::Fence;

use crate::base::error::Vote as Shown;
use crate::base::process::Process;
use crate::base::{Moment, StoreError};
use crate::engine::guard::lease::Lease;
use crate::engine::values::ballot::{Accept, AcceptAnswer, CastVote, VoteAnswer, Withdraw};
use crate::engine::values::{ReleaseAnswer, Seen};
use crate::engine::ways::ask::Ask;
use crate::engine::ways::schedule;
use crate::quorum::group::{NodeQuestion, QuorumStore};
use crate::quorum::tally::Votes;

/// When a majority has answered and too few of them voted for us, the others are waited for so long, or for four times
/// what those have taken when that is more: an answer of theirs could still decide it, and they may as well be dead.
pub(super) const GRACE: Duration = Duration::from_millis(50);

/// What a round came to.
#[derive(Debug)]
pub(super) enum Round {
    Won {
        fence: Option<Fence>,
        unanimous: bool,
    },
    Lost(LostRound),
}

/// A round without a majority for us, in which enough nodes voted for it to be fair.
#[derive(Debug)]
pub(super) struct LostRound {
    pub(super) seen: Seen,
    /// Another has a majority. Otherwise the votes were split, and the next round may have a winner.
    pub(super) held: bool,
    pub(super) ours: usize,
}

impl Ask<'_> {
    /// Makes one round, for a task that does not wait.
    pub(crate) async fn vote_once(
        &self,
        quorum: &QuorumStore,
        t0: Moment,
        within: Duration,
    ) -> Result<Result<Lease, Seen>, StoreError> {
        match self.round(quorum, "", t0, within, GRACE).await? {
            Round::Won { fence, .. } => self.hold_since(t0, self.now(), fence).map(Ok),
            Round::Lost(lost) => Ok(Err(lost.seen)),
        }
    }

    /// Asks for votes once, under a token that was never used before: what comes late of an earlier round must not undo
    /// a vote of this one. `caller` is to be woken by a release where the lock is busy.
    pub(super) async fn round(
        &self,
        quorum: &QuorumStore,
        caller: &str,
        t0: Moment,
        within: Duration,
        grace: Duration,
    ) -> Result<Round, StoreError> {
        let _solo = self.engine.requests.acquires.solo_permit();
        let terms = self.request.terms;
        let proposed = quorum.propose_if(terms.fences, within).await;
        let vote = CastVote {
            held_for: self.held.for_ttl(terms.ttl),
            proposed,
            behind: quorum.behind(),
            caller,
        };
        let mut poll = quorum.poll(&vote, NodeQuestion::ToVote, |_| true, within);
        let is_accepted = |vote: &VoteAnswer| matches!(vote, VoteAnswer::Accepted { .. });
        let won = loop {
            let votes = poll.votes();
            if votes.is_majority(is_accepted) {
                break Some(terms.fences.then(|| Fence::new(proposed)));
            }
            let ours = votes.count(VoteAnswer::is_ours);
            if ours >= votes.needed() {
                let left = within.saturating_sub(self.now().saturating_since(t0));
                break self.second_proposal(quorum, votes, left).await.map(Some);
            }
            if ours + votes.silent() < votes.needed() {
                break None;
            }
            // With the answers of a majority it is a matter of others who have it; those that are late may be dead.
            let settled = votes.is_majority(|_| true);
            let so_far = self.now().saturating_since(t0);
            let left = if settled {
                grace.max(so_far * 4)
            } else {
                within
            };
            let Ok(Some(at)) = tokio::time::timeout(left, poll.next()).await else {
                break None;
            };
            if let Some(Ok(voted)) = poll.votes().of(at) {
                quorum.showed(at, voted.time_us());
                if let VoteAnswer::Granted { least, .. } = voted {
                    quorum.asked_for(*least);
                }
            }
        };
        if let Some(fence) = won {
            let unanimous = poll.votes().is_unanimous(VoteAnswer::is_ours);
            return Ok(Round::Won { fence, unanimous });
        }
        if !poll.votes().is_majority(|_| true) {
            // No client can have it. The votes of the others are for the error.
            let all = async { while poll.next().await.is_some() {} };
            drop(tokio::time::timeout(GRACE, all).await);
        }
        poll.call_off();
        self.take_back(quorum, poll.votes(), within).await;
        lost(quorum, poll.votes()).map(Round::Lost)
    }

    /// The number that a majority has accepted as the second proposal.
    async fn second_proposal(
        &self,
        quorum: &QuorumStore,
        votes: &Votes<VoteAnswer>,
        within: Duration,
    ) -> Option<Fence> {
        let proposed = Fence::new(quorum.propose(within).await);
        let accept = Accept {
            held: &self.held,
            proposed,
            behind: quorum.behind(),
        };
        let asked = |at| !matches!(votes.of(at), Some(Ok(VoteAnswer::Busy { .. }) | Err(_)));
        let mut poll = quorum.poll(&accept, NodeQuestion::ToVote, asked, within);
        while let Some(at) = poll.next().await {
            if let Some(Ok(AcceptAnswer::Refused { least })) = poll.votes().of(at) {
                quorum.asked_for(*least);
            }
            if poll
                .votes()
                .is_majority(|answer| *answer == AcceptAnswer::Agreed)
            {
                return Some(proposed);
            }
        }
        None
    }

    /// What was granted is given back when this ends; what may yet be granted is, in the background. No waiter is
    /// woken: a client that these votes kept from a majority tries again by itself.
    async fn take_back(&self, quorum: &QuorumStore, votes: &Votes<VoteAnswer>, within: Duration) {
        let maybe_has = |at| votes.may_have(at, VoteAnswer::is_ours);
        let withdraw = Withdraw {
            held: &self.held,
            tells: false,
            caller: "",
        };
        let mut taking_back = quorum.poll(&withdraw, NodeQuestion::ToSay, maybe_has, within);
        let is_back = |answered: &Votes<ReleaseAnswer>| {
            let mut granted = votes.answers().filter(|(_, vote)| vote.is_ours());
            granted.all(|(at, _)| answered.of(at).is_some())
        };
        while !is_back(taking_back.votes()) {
            if taking_back.next().await.is_none() {
                break;
            }
        }
    }
}

/// Busy, if enough nodes voted; otherwise no client could have had it.
fn lost(quorum: &QuorumStore, votes: &Votes<VoteAnswer>) -> Result<LostRound, StoreError> {
    if !votes.is_majority(|_| true) {
        let maybe = votes.may_have_acted();
        return Err(quorum.no_majority(votes, shown, maybe));
    }
    Ok(counted(votes))
}

fn shown(vote: &VoteAnswer) -> Shown {
    match vote {
        VoteAnswer::Accepted { .. } | VoteAnswer::Granted { .. } => Shown::Granted,
        VoteAnswer::Busy { seen } => Shown::Busy {
            holder: seen.holder.clone().map(Process::unknown),
        },
    }
}

/// Who holds most of the votes, and when enough of them will have ended for a majority.
fn counted(votes: &Votes<VoteAnswer>) -> LostRound {
    let seen = |vote: &VoteAnswer| match vote {
        VoteAnswer::Busy { seen } => Some(seen.clone()),
        VoteAnswer::Accepted { .. } | VoteAnswer::Granted { .. } => None,
    };
    let busy: Vec<Seen> = votes.answers().filter_map(|(_, vote)| seen(vote)).collect();
    let often = |one: &Seen| {
        busy.iter()
            .filter(|other| other.holder == one.holder)
            .count()
    };
    let most = busy.iter().max_by_key(|one| often(one));
    let ours = votes.count(VoteAnswer::is_ours);
    let mut ends: Vec<Duration> = busy.iter().filter_map(|seen| seen.remaining).collect();
    ends.sort_unstable();
    let missing = votes.needed().saturating_sub(ours);
    LostRound {
        held: most.is_some_and(|one| often(one) >= votes.needed()),
        ours,
        seen: Seen {
            remaining: ends.get(missing.saturating_sub(1)).copied(),
            holder: most.and_then(|one| one.holder.clone()),
            ..Seen::default()
        },
    }
}

/// Why a waiter behind a holder votes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PollReason {
    /// The nodes wake it.
    Wakeup,
    /// The nodes could wake it, but its latest request did not ask for that: the next one does.
    Registration,
    /// No message arrives.
    Timer,
}

/// How long to wait for the next round.
#[derive(Debug, Default)]
pub(super) struct RoundBackoff {
    /// The longest that the latest pause after a split could have been.
    latest: Duration,
    /// How long it stood back for others.
    stood_back: Duration,
}

/// A waiter that got votes tries again soon: there are fewer such waiters than nodes.
const SPLIT_LEAST: Duration = Duration::from_millis(2);
const SPLIT_MOST: Duration = Duration::from_millis(200);
/// A waiter that got none leaves the others time to settle it, and more of it when they have not.
const NONE_OF_THEM: Duration = Duration::from_millis(75);
const NONE_MOST: Duration = Duration::from_millis(600);
/// Those who wait for the same lease to end do not vote in step.
const AT_THE_END: Duration = Duration::from_millis(25);

impl RoundBackoff {
    /// `took`: so long the votes were kept from others, and so they are most likely to be had when the pauses differ by
    /// more.
    pub(super) fn after(
        &mut self,
        lost: &LostRound,
        reason: PollReason,
        took: Duration,
    ) -> Duration {
        if lost.held {
            *self = RoundBackoff::default();
            if reason == PollReason::Registration {
                return Duration::ZERO;
            }
            let is_woken = reason == PollReason::Wakeup;
            let by_timer = schedule::next_poll(&lost.seen, 1, is_woken, Duration::MAX);
            return by_timer
                + schedule::jittered(AT_THE_END, 100)
                + schedule::jittered(by_timer / 20, 100);
        }
        if lost.ours == 0 {
            let pause = (self.stood_back * 2).clamp(NONE_OF_THEM, NONE_MOST);
            self.stood_back = pause;
            return schedule::jittered(pause, 90);
        }
        // Grows with what it was, so that those who meet again spread more and more.
        let most = (self.latest * 3)
            .clamp(SPLIT_LEAST * 2, SPLIT_MOST)
            .max(took * 4);
        self.latest = schedule::jittered(most / 2, 100).max(SPLIT_LEAST);
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A letter for each node: `+` for us, `a` to `z` for a holder and the seconds that it has left in its turn, `.`.
    fn lost(said: &str) -> LostRound {
        let mut votes = Votes::new(said.len());
        for (at, letter) in said.chars().enumerate() {
            let vote = match letter {
                '.' => continue,
                '+' => VoteAnswer::Accepted { time_us: 1 },
                holder => VoteAnswer::Busy {
                    seen: Seen {
                        remaining: Some(Duration::from_secs(10 * (at as u64 + 1))),
                        holder: Some(holder.to_string()),
                        time_us: 1,
                        quarantine: None,
                    },
                },
            };
            votes.record(at, Ok(vote), None);
        }
        counted(&votes)
    }

    #[test]
    fn a_lock_is_held_when_one_has_a_majority_and_split_otherwise() {
        for (said, held, ours, holder) in [
            ("aaa..", true, 0, "a"),
            ("+aaab", true, 1, "a"),
            ("++aab", false, 2, "a"),
            ("ab+..", false, 1, "b"),
            ("aab..", false, 0, "a"),
        ] {
            let lost = lost(said);
            let found = (lost.held, lost.ours, lost.seen.holder.as_deref());
            assert_eq!(found, (held, ours, Some(holder)), "{said}");
        }
    }

    #[test]
    fn a_lock_can_be_had_when_enough_votes_have_ended_for_a_majority() {
        let after = |said| lost(said).seen.remaining.map(|rest| rest.as_secs());
        assert_eq!(after("aaa.."), Some(30));
        assert_eq!(after("aa+.."), Some(20));
        assert_eq!(after("a++bb"), Some(10));
        assert_eq!(after("aaaaa"), Some(30));
        assert_eq!(after("aa..."), None, "the others may hold it for ever");
    }
}

#[cfg(test)]
mod backoff_tests {
    use super::*;
    use crate::engine::values::grant::Seen;

    fn lost(held: bool, ours: usize, remaining_ms: u64, ours_holds: bool) -> LostRound {
        LostRound {
            held,
            ours,
            seen: Seen {
                remaining: Some(Duration::from_millis(remaining_ms)),
                holder: ours_holds.then(|| "AAAAAAAA".to_owned()),
                time_us: 0,
                quarantine: None,
            },
        }
    }

    #[test]
    fn behind_a_holder_a_waiter_votes_when_the_lease_ends_and_at_least_every_five_seconds() {
        for _ in 0..200 {
            let mut backoff = RoundBackoff::default();
            let soon = backoff
                .after(
                    &lost(true, 0, 1_000, true),
                    PollReason::Wakeup,
                    Duration::ZERO,
                )
                .as_millis();
            assert!((1_001..=1_152).contains(&soon), "{soon}");
            let late = backoff
                .after(
                    &lost(true, 0, 60_000, true),
                    PollReason::Wakeup,
                    Duration::ZERO,
                )
                .as_millis();
            assert!((5_000..=5_551).contains(&late), "{late}");
            let first = lost(true, 0, 60_000, true);
            assert!(
                backoff
                    .after(&first, PollReason::Registration, Duration::ZERO)
                    .is_zero()
            );
            let foreign = backoff
                .after(
                    &lost(true, 0, 60_000, false),
                    PollReason::Wakeup,
                    Duration::ZERO,
                )
                .as_millis();
            assert!((500..=601).contains(&foreign), "{foreign}");
        }
    }

    #[test]
    fn after_a_split_a_waiter_with_votes_tries_again_soon_and_more_and_more_spread() {
        for _ in 0..200 {
            let mut backoff = RoundBackoff::default();
            let split = lost(false, 1, 10_000, true);
            assert!(
                backoff.after(&split, PollReason::Wakeup, Duration::ZERO)
                    <= Duration::from_millis(4)
            );
            let longest = (0..50)
                .map(|_| backoff.after(&split, PollReason::Wakeup, Duration::ZERO))
                .max()
                .unwrap();
            assert!(longest <= SPLIT_MOST, "{longest:?}");
            assert!(
                !RoundBackoff::default()
                    .after(&split, PollReason::Registration, Duration::ZERO)
                    .is_zero()
            );
            let none = RoundBackoff::default().after(
                &lost(false, 0, 10_000, true),
                PollReason::Wakeup,
                Duration::ZERO,
            );
            assert!(none >= Duration::from_millis(7), "{none:?}");
        }
    }
}
