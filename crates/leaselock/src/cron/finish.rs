//! The request that ends a run.

use super::kind::FINISH_TICK;
use super::tick::Tick;
use crate::base::token::Token;
use crate::engine::values::operation::operation;
use crate::engine::values::resource::Resource;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinishedTick {
    Done,
    /// The latest tick that has begun since; `None` when the record is gone.
    Stale {
        latest: Option<Tick>,
    },
}

operation! {
    /// Records that a run has finished, and gives the name back. Runs `cron/finish`.
    pub(super) struct FinishTick<'a> {
        resource: &'a Resource,
        token: &'a Token,
    }
    script resource.script(&FINISH_TICK);
    fn encode(call) {
        resource.write_keys(call);
        call.arg(token);
    }
    fn decode(answer) -> FinishedTick {
        "done" => FinishedTick::Done,
        "stale" => FinishedTick::Stale { latest: Tick::from_answer(answer, 0)? },
    }
}
