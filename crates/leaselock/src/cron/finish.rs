//! The request that ends a run.

use super::tick::Tick;
use crate::base::token::Token;
use crate::engine::values::resource::Resource;
#[cfg(feature = "redis")]
use crate::quorum::votable::Votable;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

pub(super) static FINISH: Script = script!("cron/finish");
pub(super) static FINISH_STRICT: Script = script!("cron/finish", strict);

/// Records that a run has finished, and gives the name back. Runs `cron/finish`.
#[derive(Debug)]
pub(super) struct Finish {
    pub(super) resource: Resource,
    pub(super) token: Token,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finished {
    Done,
    /// The latest tick that has begun since; `None` when the record is gone.
    Stale {
        latest: Option<Tick>,
    },
}

impl Operation for Finish {
    type Reply = Finished;

    fn script(&self) -> &'static Script {
        match self.resource.gate {
            Some(_) => &FINISH_STRICT,
            None => &FINISH,
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

    fn decode(answer: &Answer) -> Result<Finished, Malformed> {
        match answer.tag() {
            "done" => Ok(Finished::Done),
            "stale" => Ok(Finished::Stale {
                latest: Tick::from_answer(answer, 0)?,
            }),
            _ => Err(Malformed),
        }
    }
}

#[cfg(feature = "redis")]
impl Votable for Finish {}
