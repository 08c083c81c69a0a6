//! The request that ends a run.

use super::tick::Tick;
use crate::base::token::Token;
use crate::engine::values::resource::Resource;
#[cfg(feature = "redis")]
use crate::quorum::votable::Votable;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

pub(super) static FINISH_TICK: Script = script!("cron/finish");
pub(super) static FINISH_TICK_STRICT: Script = script!("cron/finish", strict);

/// Records that a run has finished, and gives the name back. Runs `cron/finish`.
#[derive(Debug)]
pub(super) struct FinishTick {
    pub(super) resource: Resource,
    pub(super) token: Token,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinishedTick {
    Done,
    /// The latest tick that has begun since; `None` when the record is gone.
    Stale {
        latest: Option<Tick>,
    },
}

impl Operation for FinishTick {
    type Reply = FinishedTick;

    fn script(&self) -> &'static Script {
        match self.resource.gate {
            Some(_) => &FINISH_TICK_STRICT,
            None => &FINISH_TICK,
        }
    }

    fn encode(&self, call: &mut Call) {
        let keys = &self.resource;
        call.key(&keys.lock)
            .key(keys.queue())
            .key(keys.waiters())
            .key(keys.fence())
            .key(keys.cron());
        if let Some(gate) = &keys.gate {
            call.key(&*gate.key_for(&keys.lock));
        }
        call.arg(&self.token);
    }

    fn decode(answer: &Answer) -> Result<FinishedTick, Malformed> {
        match answer.tag() {
            "done" => Ok(FinishedTick::Done),
            "stale" => Ok(FinishedTick::Stale {
                latest: Tick::from_answer(answer, 0)?,
            }),
            _ => Err(Malformed),
        }
    }
}

#[cfg(feature = "redis")]
impl Votable for FinishTick {}
