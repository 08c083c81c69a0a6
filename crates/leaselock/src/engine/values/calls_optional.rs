//! The requests of the scripts that only some kinds have.

use super::calls::{Acquire, QueueRequest, operation};
use super::grant::{Seen, StepReply, seen_at};
use super::kind::{Held, HeldFor, Resource};
use crate::base::Token;
use crate::base::error::LostReason;
use crate::script::{Script, Scripts, script};

operation! {
    /// Replaces the token of a lease by one with which another process continues it. Runs the kind's `detach`.
    pub(crate) struct Detach<'a> {
        script: &'static Script,
        held_for: HeldFor<'a>,
        successor: &'a Token,
    }
    script script;
    votes elsewhere;
    fn encode(call) {
        let Held { resource, token } = held_for.held;
        call.key(&resource.lock);
        let sides = resource.kind.detach_keys.iter();
        call.keys(sides.map(|side| resource.beside(side)));
        call.arg(token).arg(successor).arg(held_for.ttl.as_ms());
        call.args(resource.mode.as_deref().into_iter());
    }
    fn decode(answer) -> StepReply {
        "passed" => Ok(()),
        "expired" => Err(LostReason::KeyMissing),
        "taken" => Err(LostReason::TakenOver),
    }
    fn time_us(answer) {
        let lasts = answer.tag() == "passed";
        answer.number(usize::from(lasts)).ok()
    }
}

operation! {
    /// Extends a lease to its whole ttl, and writes in any case, so that the client can wait for replicas. Runs the
    /// kind's `confirm`.
    pub(crate) struct Confirm<'a> {
        script: &'static Script,
        held_for: HeldFor<'a>,
    }
    script script;
    fn encode(call) {
        let Held { resource, token } = held_for.held;
        call.key(&resource.lock);
        call.arg(token).arg(held_for.ttl.as_ms());
        call.args(resource.mode.as_deref().into_iter());
    }
    fn decode(answer) -> StepReply {
        "confirmed" => Ok(()),
        "expired" => Err(LostReason::KeyMissing),
        "taken" => Err(LostReason::TakenOver),
    }
}

impl<'a> Confirm<'a> {
    /// `None` for a kind that cannot wait for replicas.
    pub(crate) fn of(held_for: HeldFor<'a>) -> Option<Self> {
        let script = held_for.held.resource.kind.confirm.as_ref()?;
        Some(Confirm { script, held_for })
    }
}

operation! {
    /// Writes the holder's note beside a lease, for people, or deletes it. Runs the kind's `note`.
    pub(crate) struct Note<'a> {
        script: &'static Script,
        held_for: HeldFor<'a>,
        text: &'a str,
    }
    script script;
    votes elsewhere;
    fn encode(call) {
        let Held { resource, token } = held_for.held;
        call.key(&resource.lock).key(resource.note());
        call.arg(token).arg(text).arg(held_for.ttl.as_ms());
    }
    fn decode(answer) -> () {
        "noted" | "erased" => (),
    }
}

impl<'a> Note<'a> {
    /// An empty text deletes the note.
    pub(crate) fn of(held_for: HeldFor<'a>, text: &'a str) -> Option<Self> {
        let script = held_for.held.resource.kind.note.as_ref()?;
        Some(Note {
            script,
            held_for,
            text,
        })
    }
}

pub(crate) static SCRIPTS: Scripts = &[&KEEP];

static KEEP: Script = script!("hold/keep");

operation! {
    /// Keeps what the store remembers beside a lease that is held for long. Runs `lua/hold/keep.lua`.
    pub(crate) struct Keep<'a> {
        resource: &'a Resource,
    }
    script &KEEP;
    votes elsewhere;
    fn encode(call) {
        call.key(resource.fence()).key(resource.usage());
    }
    fn decode(answer) -> () {
        "kept" => (),
    }
}

operation! {
    /// Reads the position in the queue of a waiter that acquires in this way. Runs the kind's `position`.
    pub(crate) struct Position<'a> {
        script: &'static Script,
        acquire: &'a Acquire<'a>,
    }
    script script;
    fn encode(call) {
        let Held { resource, token } = acquire.held;
        call.key(&resource.lock).key(resource.queue()).key(resource.waiters());
        call.arg(token).arg(QueueRequest(acquire));
    }
    fn decode(answer) -> PositionReply {
        "waiting" => PositionReply::Waiting {
            seen: seen_at(answer, 0, answer.number(2)?)?,
            position: answer.number(3)?,
        },
        "ask" => PositionReply::MustAcquire,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PositionReply {
    Waiting {
        seen: Seen,
        position: u64,
    },
    /// The waiter must send its acquire request: it may be granted, or must renew its queue entry.
    MustAcquire,
}

impl<'a> Position<'a> {
    /// `None` for a kind whose waiters poll by a complete acquire request.
    pub(crate) fn of(acquire: &'a Acquire<'a>) -> Option<Self> {
        let script = acquire.held.resource.kind.position.as_ref()?;
        Some(Position { script, acquire })
    }
}
