//! Changes of a counter, several of them as one, and what their tasks are told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name, Sequencer};
use tokio::sync::oneshot;

use crate::base::{Moment, StoreError};
use crate::engine::values::request::Copies;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Add(i64),
    Set { expected: i64, value: i64 },
}

/// On which terms a counter is changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChangeTerms {
    /// How long the counter is kept after the change; `None`: as long as before.
    pub(super) kept: Option<Duration>,
    /// The holder that changes it.
    pub(super) shown: Option<Arc<Sequencer>>,
    pub(super) copies: Option<Copies>,
}

/// Why a change that counts has too few copies.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shortfall {
    pub(super) asked: Copies,
    pub(super) confirmed: u32,
    /// Why the server did not say how many.
    pub(super) source: Option<StoreError>,
}

/// How the sending of a change, or of a batch, ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChangeEnd {
    /// It counts; with the counter's number behind it.
    Done(i64, Option<Arc<Shortfall>>),
    /// It is this number, and not the expected one.
    Differs(i64),
    /// The sum needs more than 64 bits; it is still this number.
    Overflow(i64),
    /// A later holder has shown this fencing token.
    Stale(Fence),
    /// The lock of this name protects the counter.
    OtherName(Name),
    /// The store did not say any of that. It does not count.
    Refused(StoreError),
    /// It counts once or not at all; the client may ask again.
    Unknown(StoreError),
    /// It counts once or not at all, and the store does not remember it any more.
    Forgotten,
}

impl ChangeEnd {
    /// True if the store has said what became of it.
    pub(super) fn is_settled(&self) -> bool {
        !matches!(self, Self::Refused(_) | Self::Unknown(_) | Self::Forgotten)
    }
}

/// What a task is told about its change: how it ended, and where it hears more of one that is unknown.
#[derive(Debug)]
pub(super) struct ChangeReply(
    pub(super) ChangeEnd,
    pub(super) Option<oneshot::Receiver<ChangeReply>>,
);

/// The change of one task.
#[derive(Debug)]
pub(super) struct PendingChange {
    pub(super) change: Change,
    pub(super) terms: ChangeTerms,
    /// True if the sum with others was too large: only then is it known which of them is.
    pub(super) is_alone: bool,
    pub(super) told: oneshot::Sender<ChangeReply>,
}

impl PendingChange {
    /// Returns it, and where its task hears of it.
    pub(super) fn new(
        change: Change,
        terms: ChangeTerms,
    ) -> (Self, oneshot::Receiver<ChangeReply>) {
        let (told, hears) = oneshot::channel();
        let is_alone = false;
        let pending = PendingChange {
            change,
            terms,
            is_alone,
            told,
        };
        (pending, hears)
    }

    pub(super) fn tell(self, ended: ChangeEnd) {
        self.told.send(ChangeReply(ended, None)).ok(); // its task may have gone away
    }
}

/// What is sent: a change, or the sum of several.
#[derive(Debug, Clone)]
pub(super) struct ChangeRequest {
    pub(super) number: u64,
    pub(super) change: Change,
    pub(super) terms: ChangeTerms,
    /// When the first request left that may have had its effect.
    pub(super) sent: Option<Moment>,
}

/// A request, and the changes in it.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) request: ChangeRequest,
    members: Vec<PendingChange>,
}

impl Batch {
    /// Takes the first change whose task still waits, and all others that can be added to it.
    pub(super) fn take(waiting: &mut VecDeque<PendingChange>, number: u64) -> Option<Batch> {
        let all = std::mem::take(waiting).into_iter();
        let mut all = all.filter(|pending| !pending.told.is_closed());
        let first = all.next()?;
        let request = ChangeRequest {
            number,
            change: first.change,
            terms: first.terms.clone(),
            sent: None,
        };
        let mut members = Vec::with_capacity(1 + all.size_hint().1.unwrap_or(0));
        members.push(first);
        let mut batch = Batch { request, members };
        for other in all {
            match batch.sum(&other) {
                Some(sum) => {
                    batch.request.change = Change::Add(sum);
                    batch.members.push(other);
                }
                None => waiting.push_back(other),
            }
        }
        Some(batch)
    }

    /// The sum with another change; `None` when they must not leave together. All have one sign, so that no number in
    /// between is larger than those before and behind all of them.
    fn sum(&self, other: &PendingChange) -> Option<i64> {
        let (Change::Add(sum), Change::Add(more)) = (self.request.change, other.change) else {
            return None;
        };
        let is_alone = other.is_alone || self.members[0].is_alone;
        let fits = !is_alone && other.terms == self.request.terms;
        let same_sign = sum == 0 || more == 0 || (sum > 0) == (more > 0);
        sum.checked_add(more).filter(|_| fits && same_sign)
    }

    /// True if a task still wants to know what becomes of it.
    pub(super) fn is_awaited(&self) -> bool {
        self.members.iter().any(|pending| !pending.told.is_closed())
    }

    /// Tells each task how it ended, and its own number. Returns the changes that must leave alone.
    pub(super) fn tell(self, ended: &ChangeEnd) -> Vec<PendingChange> {
        let mut members = self.members;
        match (ended, self.request.change) {
            (ChangeEnd::Overflow(_), _) if members.len() > 1 => {
                members
                    .iter_mut()
                    .for_each(|pending| pending.is_alone = true);
                return members;
            }
            (ChangeEnd::Done(number, lacking), Change::Add(sum)) => {
                let mut number = number - sum;
                for pending in members {
                    if let Change::Add(value) = pending.change {
                        number += value;
                    }
                    pending.tell(ChangeEnd::Done(number, lacking.clone()));
                }
            }
            _ => members
                .into_iter()
                .for_each(|pending| pending.tell(ended.clone())),
        }
        Vec::new()
    }

    /// Tells all tasks that it is not known whether their changes count. Each can ask again.
    pub(super) fn tell_unknown(&mut self, error: &StoreError) {
        for pending in &mut self.members {
            let (next, later) = oneshot::channel();
            let told = std::mem::replace(&mut pending.told, next);
            told.send(ChangeReply(ChangeEnd::Unknown(error.clone()), Some(later)))
                .ok(); // its task may have gone away
        }
    }
}
