//! Changes of a counter, several of them as one, and what their tasks are told.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use crate::base::clock::Moment;
use crate::base::error::StoreError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Add(i64),
    Set { expected: i64, value: i64 },
}

/// What the store has said about a change, with the counter's number behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    Done(i64),
    Differs(i64),
    Overflow(i64),
}

/// What a task is told about its change.
#[derive(Debug)]
pub(super) enum Told {
    Settled(Settled),
    /// It does not count.
    Refused(StoreError),
    /// It counts once or not at all. Later the channel brings what is known then.
    Unknown(StoreError, oneshot::Receiver<Told>),
    /// It counts once or not at all, and the store does not remember it any more.
    Forgotten,
}

/// The change of one task.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) change: Change,
    /// How long the counter is kept after it; 0: as long as before.
    pub(super) kept_ms: u64,
    /// True if the sum with others was too large: only then is it known which of them is.
    pub(super) is_alone: bool,
    pub(super) told: oneshot::Sender<Told>,
}

/// What leaves in one request: a change, or the sum of several.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) change: Change,
    pub(super) kept_ms: u64,
    /// When the first request left that may have had its effect.
    pub(super) sent: Option<Moment>,
    members: Vec<Pending>,
}

impl Batch {
    /// Takes the first change whose task still waits, and all others that can be added to it.
    pub(super) fn take(waiting: &mut VecDeque<Pending>, number: u64) -> Option<Batch> {
        waiting.retain(|pending| !pending.told.is_closed());
        let first = waiting.pop_front()?;
        let mut batch = Batch {
            number,
            change: first.change,
            kept_ms: first.kept_ms,
            sent: None,
            members: vec![first],
        };
        if !batch.members[0].is_alone && waiting.iter().any(|other| batch.sum(other).is_some()) {
            for other in std::mem::take(waiting) {
                match batch.sum(&other) {
                    Some(sum) => {
                        batch.change = Change::Add(sum);
                        batch.members.push(other);
                    }
                    None => waiting.push_back(other),
                }
            }
        }
        Some(batch)
    }

    /// The sum with another change; `None` when they must not leave together. All have one sign, so that no number in
    /// between is larger than those before and behind all of them.
    fn sum(&self, other: &Pending) -> Option<i64> {
        let (Change::Add(sum), Change::Add(more)) = (self.change, other.change) else {
            return None;
        };
        let fits = !other.is_alone && other.kept_ms == self.kept_ms;
        let same_sign = sum == 0 || more == 0 || (sum > 0) == (more > 0);
        sum.checked_add(more).filter(|_| fits && same_sign)
    }

    /// Tells each task its own number. Returns the changes that must leave alone.
    pub(super) fn settle(self, settled: Settled) -> Vec<Pending> {
        let is_sum = self.members.len() > 1;
        let mut number = match settled {
            Settled::Overflow(_) if is_sum => {
                let mut again = self.members;
                again.iter_mut().for_each(|pending| pending.is_alone = true);
                return again;
            }
            Settled::Done(number) if is_sum => number,
            settled => {
                self.tell(|| Told::Settled(settled));
                return Vec::new();
            }
        };
        for Pending { change, told, .. } in self.members.into_iter().rev() {
            told.send(Told::Settled(Settled::Done(number))).ok(); // its task may have gone away
            if let Change::Add(value) = change {
                number -= value;
            }
        }
        Vec::new()
    }

    /// Tells all tasks the same.
    pub(super) fn tell(self, what: impl Fn() -> Told) {
        for pending in self.members {
            pending.told.send(what()).ok(); // its task may have gone away
        }
    }

    /// Tells all tasks that it is not known whether their changes count. Each can ask again.
    pub(super) fn tell_unknown(&mut self, error: &StoreError) {
        for pending in &mut self.members {
            let (next, later) = oneshot::channel();
            let told = std::mem::replace(&mut pending.told, next);
            told.send(Told::Unknown(error.clone(), later)).ok(); // its task may have gone away
        }
    }
}
