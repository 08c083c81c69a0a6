//! Reading a waiter's position in the queue.

use super::calls::{Acquire, QueueRequest};
use super::grant::{Seen, seen_at};
use super::operation::operation;
use crate::script::Script;

operation! {
    /// Reads the position of a waiter that acquires in this way. Runs the kind's `position`.
    pub(crate) struct Position<'a> {
        script: &'static Script,
        acquire: &'a Acquire<'a>,
    }
    script script;
    fn encode(call) {
        let resource = acquire.resource;
        call.key(&resource.lock).key(resource.queue()).key(resource.waiters());
        call.arg(acquire.token).arg(QueueRequest(acquire));
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
    /// Creates the request; `None` for a kind whose waiters poll by a complete acquire request.
    pub(crate) fn of(acquire: &'a Acquire<'a>) -> Option<Self> {
        let script = acquire.resource.kind.position.as_ref()?;
        Some(Position { script, acquire })
    }
}
