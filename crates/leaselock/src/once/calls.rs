//! The requests of callers and runs.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Fence;

use super::state::{OnCrash, OnceResult, OnceState};
use crate::base::fence;
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::engine::values::grant::{Acquired, seen};
use crate::engine::values::request::Copies;
use crate::engine::values::resource::Resource;
use crate::engine::ways::trying::{CallNumber, Tried};
use crate::quorum::votable::on_one_store;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

pub(super) static FINISH: Script = script!("once/finish");
pub(super) static FINISH_STRICT: Script = script!("once/finish", strict);
pub(super) static INSPECT_RUN: Script = script!("once/inspect", reads_only);
pub(super) static FORGET: Script = script!("once/forget");

/// What every request of one caller says about the work.
#[derive(Debug, Clone)]
pub(super) struct OnceTerms {
    pub(super) fingerprint: String,
    pub(super) kept: Duration,
    pub(super) pause: Duration,
    /// `None` for no limit.
    pub(super) attempts: Option<u32>,
    pub(super) on_crash: OnCrash,
    pub(super) keeps_failures: bool,
    /// The replicas that confirm a result.
    pub(super) copies: Option<Copies>,
    /// Where changes of the record are broadcast.
    pub(super) channel: String,
}

/// Begins a run, or learns what became of an earlier one. Runs `once/acquire`.
#[derive(Debug)]
pub(super) struct Acquire {
    pub(super) resource: Resource,
    pub(super) token: Token,
    pub(super) ttl: Ttl,
    pub(super) terms: Arc<OnceTerms>,
    /// The run that the caller has waited for.
    pub(super) after: Option<Fence>,
    /// Which request of which call this is.
    pub(super) number: CallNumber,
}

/// What a caller is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OnceReply {
    Run {
        attempt: u32,
    },
    /// A run holds the name.
    Running {
        fence: Fence,
    },
    /// Another lock of the name is held, or nothing is granted at present.
    Busy,
    /// The run has ended: done, failed or crashed.
    Ended(OnceState),
    GivenUp {
        attempts: u32,
        message: String,
    },
    Differs,
}

impl Operation for Acquire {
    type Reply = Tried<OnceReply>;

    fn script(&self) -> &'static Script {
        self.resource.script(&self.resource.kind.acquire)
    }

    fn encode(&self, call: &mut Call) {
        self.resource.write_keys(call);
        let terms = &self.terms;
        call.arg(&self.token)
            .arg(self.ttl.as_ms())
            .arg(terms.kept)
            .arg(&terms.fingerprint)
            .arg(u64::from(terms.attempts.unwrap_or(0)))
            .arg(match terms.on_crash {
                OnCrash::Again => "again",
                OnCrash::Refuse => "refuse",
            })
            .arg(self.after.map_or(0, Fence::get))
            .arg(&self.number.call)
            .arg(self.number.request)
            .arg(&terms.channel);
        if let Some(gate) = &self.resource.gate {
            call.arg(gate.longest.as_ms()).arg(gate.quarantine_ms());
        }
    }

    fn decode(answer: &Answer) -> Result<Tried<OnceReply>, Malformed> {
        let told = match answer.tag() {
            "granted" => OnceReply::Run {
                attempt: answer.small(4)?,
            },
            "running" => {
                let running = Acquired::Busy {
                    seen: seen(answer)?,
                };
                let fence = Fence::new(answer.number(3)?);
                return Ok((Some(running), OnceReply::Running { fence }));
            }
            "busy" | "waiting" | "quarantined" | "disagrees" => OnceReply::Busy,
            "given_up" => {
                let (attempts, message) = (answer.small(0)?, answer.text_lossy(1)?);
                return Ok((None, OnceReply::GivenUp { attempts, message }));
            }
            "differs" => return Ok((None, OnceReply::Differs)),
            "done" | "failed" | "kept" | "crashed" => {
                return Ok((None, OnceReply::Ended(ended(answer)?)));
            }
            _ => return Err(Malformed),
        };
        Ok((Some(Acquired::decode(answer)?), told))
    }
}

/// Reads how a run ended.
fn ended(answer: &Answer) -> Result<OnceState, Malformed> {
    let (fence, attempt) = (Fence::new(answer.number(0)?), answer.small(1)?);
    Ok(match answer.tag() {
        "done" => OnceState::Done(OnceResult {
            value: answer.bytes(2)?.to_vec(),
            ran_here: false,
            fence,
            attempt,
        }),
        "kept" => OnceState::Failed {
            fence,
            attempt,
            message: answer.text_lossy(2)?,
            retry_in: None,
        },
        "failed" => OnceState::Failed {
            fence,
            attempt,
            retry_in: Some(Duration::from_millis(answer.number(2)?)),
            message: answer.text_lossy(3)?,
        },
        "crashed" => OnceState::Crashed { fence, attempt },
        _ => return Err(Malformed),
    })
}

/// Stores what a run came to, and gives the name back. Runs `once/finish`.
#[derive(Debug)]
pub(super) struct Finish<'a> {
    pub(super) resource: &'a Resource,
    pub(super) token: &'a Token,
    pub(super) kind: &'static str,
    pub(super) result: &'a [u8],
    pub(super) fence: Fence,
    pub(super) attempt: u32,
    pub(super) terms: &'a OnceTerms,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finished {
    Stored,
    /// The run whose record there is; `None` when another lock is held, or there is no record.
    Stale {
        fence: Option<Fence>,
    },
}

impl Operation for Finish<'_> {
    type Reply = Finished;

    fn script(&self) -> &'static Script {
        match self.resource.gate {
            Some(_) => &FINISH_STRICT,
            None => &FINISH,
        }
    }

    fn encode(&self, call: &mut Call) {
        let keys = self.resource;
        call.key(&keys.lock)
            .key(keys.queue())
            .key(keys.waiters())
            .key(keys.fence())
            .key(keys.once());
        if let Some(gate) = &keys.gate {
            call.key(&*gate.key_for(&keys.lock));
        }
        call.arg(self.token)
            .arg(self.kind)
            .arg(self.result)
            .arg(self.fence.get())
            .arg(u64::from(self.attempt))
            .arg(&self.terms.fingerprint)
            .arg(self.terms.kept)
            .arg(self.terms.pause)
            .arg(&self.terms.channel);
    }

    fn decode(answer: &Answer) -> Result<Finished, Malformed> {
        match answer.tag() {
            "stored" => Ok(Finished::Stored),
            "stale" => {
                let another = answer.text(0)? != "taken";
                let fence = fence::of_reply(answer.number(1)?).filter(|_| another);
                Ok(Finished::Stale { fence })
            }
            _ => Err(Malformed),
        }
    }
}

/// Reads what became of the latest run. Runs `once/inspect`.
#[derive(Debug)]
pub(super) struct InspectRun {
    pub(super) resource: Resource,
}

impl Operation for InspectRun {
    type Reply = OnceState;

    fn script(&self) -> &'static Script {
        &INSPECT_RUN
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock).key(self.resource.once());
    }

    fn decode(answer: &Answer) -> Result<OnceState, Malformed> {
        match answer.tag() {
            "absent" => Ok(OnceState::Absent),
            "running" => Ok(OnceState::Running {
                fence: Fence::new(answer.number(0)?),
                attempt: answer.small(1)?,
            }),
            "done" | "failed" | "kept" | "crashed" => ended(answer),
            _ => Err(Malformed),
        }
    }
}

/// Forgets the latest run. Runs `once/forget`.
#[derive(Debug)]
pub(super) struct Forget {
    pub(super) resource: Resource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ForgetAnswer {
    Forgotten,
    Absent,
    Running { fence: Fence },
}

impl Operation for Forget {
    type Reply = ForgetAnswer;

    fn script(&self) -> &'static Script {
        &FORGET
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock).key(self.resource.once());
    }

    fn decode(answer: &Answer) -> Result<ForgetAnswer, Malformed> {
        match answer.tag() {
            "forgotten" => Ok(ForgetAnswer::Forgotten),
            "absent" => Ok(ForgetAnswer::Absent),
            "running" => Ok(ForgetAnswer::Running {
                fence: Fence::new(answer.number(0)?),
            }),
            _ => Err(Malformed),
        }
    }
}

on_one_store!(Acquire, Finish<'_>, InspectRun, Forget);
