//! Changes of a counter, several of them as one, what their tasks are told, and the requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::{Fence, Name, Sequencer};
use tokio::sync::oneshot;

use crate::base::{Moment, StoreError};
use crate::engine::guard::replicas::Shortfall;
use crate::engine::values::calls::operation;
use crate::engine::values::request::Copies;
use crate::script::{LockKeys, Malformed, Script, Scripts, script};

static CHANGE_ONCE: Script = script!("counter/change");
static READ: Script = script!("counter/read", reads_only);

/// Every script of this file.
pub(crate) static SCRIPTS: Scripts = &[&CHANGE_ONCE, &READ];

/// How long the store remembers a client's latest change and its reply.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

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
    /// True if the sum with others was too large: only a change that leaves alone shows which of them is.
    pub(super) is_alone: bool,
}

/// How the sending of a change, or of a batch, ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChangeEnd {
    /// It counts; with the counter's number behind it.
    Done(i64, Option<Shortfall>),
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
    pub(super) told: oneshot::Sender<ChangeReply>,
}

impl PendingChange {
    /// Returns it, and where its task hears of it.
    pub(super) fn new(
        change: Change,
        terms: ChangeTerms,
    ) -> (Self, oneshot::Receiver<ChangeReply>) {
        let (told, hears) = oneshot::channel();
        let pending = PendingChange {
            change,
            terms,
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
        let members = vec![first];
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
        let fits = !other.terms.is_alone && other.terms == self.request.terms;
        let same_sign = sum == 0 || more == 0 || (sum > 0) == (more > 0);
        sum.checked_add(more).filter(|_| fits && same_sign)
    }

    /// True if a task still wants to know what becomes of it.
    pub(super) fn is_awaited(&self) -> bool {
        self.members.iter().any(|pending| !pending.told.is_closed())
    }

    /// Tells each task how it ended, and its own number. Returns the changes that must leave alone.
    pub(super) fn tell(self, ended: &ChangeEnd) -> Vec<PendingChange> {
        let (mut members, mut ended) = (self.members, ended.clone());
        if matches!(ended, ChangeEnd::Overflow(_)) && members.len() > 1 {
            for pending in &mut members {
                pending.terms.is_alone = true;
            }
            return members;
        }
        if let (ChangeEnd::Done(number, _), Change::Add(sum)) = (&mut ended, self.request.change) {
            *number -= sum; // the number before the first of them
        }
        for pending in members {
            if let (ChangeEnd::Done(number, _), Change::Add(value)) = (&mut ended, pending.change) {
                *number += value;
            }
            pending.tell(ended.clone());
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

operation! {
    /// Changes the counter once, however often it is sent. Runs `counter/change`.
    pub(super) struct ChangeOnce<'a> {
        keys: &'a LockKeys,
        client: &'a str,
        request: &'a ChangeRequest,
    }
    script &CHANGE_ONCE;
    fn encode(call) {
        let (counter, ChangeRequest { number, change, terms, .. }) = (keys.beside("counter"), request);
        let (verb, value, expected) = match change {
            Change::Add(value) => ("add", value, String::new()),
            Change::Set { expected, value } => ("set", value, expected.to_string()),
        };
        call.key(counter).key(format!("{counter}:{client}"));
        call.arg(*number).arg(REMEMBERED);
        call.arg(verb).arg(value.to_string()).arg(expected);
        call.arg(terms.kept.unwrap_or_default());
        let shown = terms.shown.as_ref();
        call.arg(shown.map(|shown| shown.fence().to_string()).unwrap_or_default());
        call.arg(shown.map_or("", |shown| shown.owner())).arg(shown.map_or("", |shown| shown.name().as_str()));
    }
    fn decode(answer) -> ChangeEnd {
        "done" => ChangeEnd::Done(answer.signed(0)?, None),
        "differs" => ChangeEnd::Differs(answer.signed(0)?),
        "overflow" => ChangeEnd::Overflow(answer.signed(0)?),
        "stale" => ChangeEnd::Stale(Fence::new(answer.number(0)?)),
        "other" => ChangeEnd::OtherName(Name::new(answer.text(0)?).map_err(|_| Malformed)?),
        "late" => ChangeEnd::Forgotten, // a later change of this client has come
    }
}

operation! {
    /// Reads the counter. Runs `counter/read`.
    pub(super) struct Read<'a> {
        keys: &'a LockKeys,
    }
    script &READ;
    fn encode(call) {
        call.key(keys.beside("counter"));
    }
    fn decode(answer) -> i64 {
        "value" => answer.signed(0)?,
    }
}
