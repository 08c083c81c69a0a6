//! How the nodes of a quorum run each operation, and how their replies are combined. The verdicts are pure functions.

use super::ballot::{Withdraw, WithdrawMany};
use super::calls::{Acquire, Cancel, Extend, Release};
use super::calls_many::{ExtendMany, Item, ReleaseMany, Replies};
use super::calls_optional::{Detach, Keep, Note};
use super::grant::{CancelAnswer, ExtendAnswer, ReleaseAnswer, StepReply};
use crate::base::StoreError;
use crate::base::error::LostReason;
use crate::quorum::tally::{TallyVerdict, Votable, Votes, counted};
use crate::script::{Answer, Call, Operation, Script};

impl Votable for Acquire<'_> {}

counted! {
    Extend<'_> => extended,
    Detach<'_> => detached,
    Note<'_> => written,
    Keep<'_> => written,
}

impl Votable for Release<'_> {
    const CLEANS_UP: bool = true;

    fn on_a_node(&self) -> Call {
        Withdraw::of(self.held).call()
    }

    fn of_a_node(script: &Script, answer: &Answer) -> Result<ReleaseAnswer, StoreError> {
        Withdraw::read(script, answer)
    }

    fn count(votes: &Votes<ReleaseAnswer>) -> TallyVerdict<ReleaseAnswer> {
        released(votes)
    }

    fn is_found(reply: &ReleaseAnswer) -> bool {
        *reply == ReleaseAnswer::Released
    }
}

impl Votable for Cancel<'_> {
    const CLEANS_UP: bool = true;

    fn on_a_node(&self) -> Call {
        Withdraw::of(self.held).call()
    }

    fn of_a_node(script: &Script, answer: &Answer) -> Result<CancelAnswer, StoreError> {
        Ok(match Withdraw::read(script, answer)? {
            ReleaseAnswer::Released => CancelAnswer::Released,
            ReleaseAnswer::Expired | ReleaseAnswer::Taken => CancelAnswer::Absent,
        })
    }

    fn count(votes: &Votes<CancelAnswer>) -> TallyVerdict<CancelAnswer> {
        cancelled(votes)
    }
}

impl Votable for ReleaseMany<'_> {
    const CLEANS_UP: bool = true;

    fn on_a_node(&self) -> Call {
        let items: Vec<&Item> = self.items.iter().collect();
        let tells = true;
        WithdrawMany {
            items: &items,
            tells,
        }
        .call()
    }

    fn of_a_node(script: &Script, answer: &Answer) -> Result<Replies<ReleaseAnswer>, StoreError> {
        WithdrawMany::read(script, answer)
    }

    fn count(votes: &Votes<Replies<ReleaseAnswer>>) -> TallyVerdict<Replies<ReleaseAnswer>> {
        WithdrawMany::count(votes)
    }

    fn is_found(reply: &Replies<ReleaseAnswer>) -> bool {
        WithdrawMany::is_found(reply)
    }
}

impl Votable for ExtendMany<'_> {
    fn count(votes: &Votes<Replies<ExtendAnswer>>) -> TallyVerdict<Replies<ExtendAnswer>> {
        each_item(votes, extended)
    }
}

impl Votable for Withdraw<'_> {
    const CLEANS_UP: bool = true;

    fn count(votes: &Votes<ReleaseAnswer>) -> TallyVerdict<ReleaseAnswer> {
        released(votes)
    }

    fn is_found(reply: &ReleaseAnswer) -> bool {
        *reply == ReleaseAnswer::Released
    }
}

impl Votable for WithdrawMany<'_> {
    const CLEANS_UP: bool = true;

    fn count(votes: &Votes<Replies<ReleaseAnswer>>) -> TallyVerdict<Replies<ReleaseAnswer>> {
        each_item(votes, released)
    }

    fn is_found(reply: &Replies<ReleaseAnswer>) -> bool {
        let released = |one: &Option<_>| *one == Some(ReleaseAnswer::Released);
        reply.iter().all(released)
    }
}

/// Extended on a majority, or lost as soon as that is impossible. A node without a reply decides nothing.
fn extended(votes: &Votes<ExtendAnswer>) -> TallyVerdict<ExtendAnswer> {
    use ExtendAnswer as A;
    let is_extended = |answer: &A| matches!(answer, A::Extended { .. });
    if votes.is_majority(is_extended) {
        // Each node has a clock of its own, and none of them is that of the lease.
        return TallyVerdict::Decided(A::Extended { time_us: 0 });
    }
    if !votes.prevents(|answer| !is_extended(answer)) {
        return TallyVerdict::Open;
    }
    let refused = |answer: &A| votes.prevents(|its| its == answer);
    let why = [A::BROKEN, A::TAKEN].into_iter().find(refused);
    TallyVerdict::Decided(why.unwrap_or(A::EXPIRED))
}

/// Counts each item for itself; decided when all items are.
fn each_item<R: Copy>(
    votes: &Votes<Replies<R>>,
    counted: impl Fn(&Votes<R>) -> TallyVerdict<R>,
) -> TallyVerdict<Replies<R>> {
    let Some(items) = votes.answers().map(|(_, items)| items.len()).min() else {
        return TallyVerdict::Open;
    };
    let mut together = Vec::with_capacity(items);
    for item in 0..items {
        // A node that asks for the item's own script counts as one without a reply.
        match counted(&votes.map(|answers| answers.get(item).copied().flatten())) {
            TallyVerdict::Decided(answer) => together.push(Some(answer)),
            TallyVerdict::Open if votes.silent() == 0 => together.push(None),
            TallyVerdict::Open | TallyVerdict::Never => return TallyVerdict::Open,
        }
    }
    TallyVerdict::Decided(together)
}

/// Done on a majority, or the lease is gone: taken over if a majority says so, which a node without a reply may decide.
fn done_or_gone<A: PartialEq>(votes: &Votes<A>, done: A, taken: A, expired: A) -> TallyVerdict<A> {
    if votes.is_majority(|answer| *answer == done) {
        return TallyVerdict::Decided(done);
    }
    if !votes.prevents(|answer| *answer != done) {
        return TallyVerdict::Open;
    }
    let is_taken = |answer: &A| *answer == taken;
    if votes.is_majority(is_taken) {
        return TallyVerdict::Decided(taken);
    }
    // The replies that are missing may say who has it.
    match votes.count(is_taken) > 0 && votes.count(is_taken) + votes.silent() >= votes.needed() {
        true => TallyVerdict::Open,
        false => TallyVerdict::Decided(expired),
    }
}

fn released(votes: &Votes<ReleaseAnswer>) -> TallyVerdict<ReleaseAnswer> {
    use ReleaseAnswer as A;
    done_or_gone(votes, A::Released, A::Taken, A::Expired)
}

/// Cancelled as soon as a majority has replied: whatever a node replies, nothing is left there.
fn cancelled(votes: &Votes<CancelAnswer>) -> TallyVerdict<CancelAnswer> {
    if !votes.is_majority(|_| true) {
        return TallyVerdict::Open;
    }
    let held = votes.count(|answer| *answer == CancelAnswer::Released) > 0;
    TallyVerdict::Decided(if held {
        CancelAnswer::Released
    } else {
        CancelAnswer::Absent
    })
}

fn detached(votes: &Votes<StepReply>) -> TallyVerdict<StepReply> {
    let (taken, expired) = (LostReason::TakenOver, LostReason::KeyMissing);
    done_or_gone(votes, Ok(()), Err(taken), Err(expired))
}

/// Decided when a majority has written or deleted.
pub(crate) fn written(votes: &Votes<()>) -> TallyVerdict<()> {
    if votes.is_majority(|()| true) {
        TallyVerdict::Decided(())
    } else {
        TallyVerdict::Open
    }
}

#[cfg(test)]
mod tests;
