//! Where in the queue a waiter stands.

use super::calls::{Acquire, QueueRequest, Seen, seen_at};
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

/// Looks where a waiter stands that acquires in this way. Runs `lua/mutex/position.lua`.
#[derive(Debug)]
pub(crate) struct Position<'a>(pub(crate) &'a Acquire<'a>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stands {
    At {
        seen: Seen,
        place: u64,
    },
    /// Only the acquisition itself can tell.
    Ask,
}

impl Operation for Position<'_> {
    type Reply = Stands;
    const SCRIPT: fn() -> &'static Script = || script!("mutex/position", reads_only);

    fn encode(&self, call: &mut Call) {
        let Position(acquire) = self;
        call.key(&acquire.keys.lock)
            .key(acquire.keys.queue())
            .key(acquire.keys.waiters());
        call.arg(acquire.token).arg(QueueRequest(acquire));
    }

    fn decode(answer: &Answer) -> Result<Stands, Malformed> {
        match answer.tag() {
            "waiting" => Ok(Stands::At {
                seen: seen_at(answer, 0, answer.number(2)?)?,
                place: answer.number(3)?,
            }),
            "ask" => Ok(Stands::Ask),
            _ => Err(Malformed),
        }
    }
}
