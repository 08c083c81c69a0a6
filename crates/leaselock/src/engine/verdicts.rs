//! What the answers of the nodes of a quorum come to together, operation by operation. Pure.

use super::calls::{Cancelled, Detached, ExtendAnswer, ReleaseAnswer};
use super::calls_many::Answers;
use crate::quorum::tally::{Verdict, Votes};

/// Held on a majority, or lost as soon as that is impossible. Nobody decides by silence.
pub(crate) fn extended(votes: &Votes<ExtendAnswer>) -> Verdict<ExtendAnswer> {
    use ExtendAnswer as A;
    let is_extended = |answer: &A| matches!(answer, A::Extended { .. });
    if votes.is_majority(is_extended) {
        // Each node has a clock of its own, and none of them is that of the lease.
        return Verdict::Decided(A::Extended { time_us: 0 });
    }
    if !votes.prevents(|answer| !is_extended(answer)) {
        return Verdict::Open;
    }
    let taken = votes.prevents(|answer| *answer == A::Taken);
    Verdict::Decided(if taken { A::Taken } else { A::Expired })
}

/// Each item for itself; decided when all are.
pub(crate) fn each_item<R: Copy>(
    votes: &Votes<Answers<R>>,
    counted: impl Fn(&Votes<R>) -> Verdict<R>,
) -> Verdict<Answers<R>> {
    let Some(items) = votes.answers().map(|(_, items)| items.len()).min() else {
        return Verdict::Open;
    };
    let mut together = Vec::with_capacity(items);
    for item in 0..items {
        // A node that wants to be asked for it alone has said nothing.
        match counted(&votes.map(|answers| answers.get(item).copied().flatten())) {
            Verdict::Decided(answer) => together.push(Some(answer)),
            Verdict::Open if votes.silent() == 0 => together.push(None),
            Verdict::Open | Verdict::Never => return Verdict::Open,
        }
    }
    Verdict::Decided(together)
}

pub(crate) fn released(votes: &Votes<ReleaseAnswer>) -> Verdict<ReleaseAnswer> {
    use ReleaseAnswer as A;
    if votes.is_majority(|answer| *answer == A::Released) {
        return Verdict::Decided(A::Released);
    }
    if !votes.prevents(|answer| *answer != A::Released) {
        return Verdict::Open;
    }
    let taken = votes.prevents(|answer| *answer == A::Taken);
    Verdict::Decided(if taken { A::Taken } else { A::Expired })
}

/// Whatever a node answers, nothing is left there.
pub(crate) fn cancelled(votes: &Votes<Cancelled>) -> Verdict<Cancelled> {
    if !votes.is_majority(|_| true) {
        return Verdict::Open;
    }
    let held = votes.count(|answer| *answer == Cancelled::Released) > 0;
    Verdict::Decided(if held {
        Cancelled::Released
    } else {
        Cancelled::Absent
    })
}

pub(crate) fn detached(votes: &Votes<Detached>) -> Verdict<Detached> {
    use Detached as A;
    if votes.is_majority(|answer| *answer == A::Passed) {
        return Verdict::Decided(A::Passed);
    }
    if !votes.prevents(|answer| *answer != A::Passed) {
        return Verdict::Open;
    }
    let taken = votes.prevents(|answer| *answer == A::Taken);
    Verdict::Decided(if taken { A::Taken } else { A::Expired })
}

/// What a majority has written or taken away.
pub(crate) fn written(votes: &Votes<()>) -> Verdict<()> {
    if votes.is_majority(|()| true) {
        Verdict::Decided(())
    } else {
        Verdict::Open
    }
}

/// What any node knows about a client; nothing when a majority does not.
pub(crate) fn known<T: Clone>(votes: &Votes<Option<T>>) -> Verdict<Option<T>> {
    if let Some((_, known)) = votes.answers().find(|(_, about)| about.is_some()) {
        return Verdict::Decided(known.clone());
    }
    if votes.is_majority(|_| true) {
        return Verdict::Decided(None);
    }
    Verdict::Open
}

#[cfg(test)]
mod tests;
