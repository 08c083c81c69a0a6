//! A run as a kind of lock, and the requests of callers and runs.

use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Fence;

use super::state::{OnceResult, OnceState};
use crate::base::fence;
use crate::engine::shared_state::recorded_run::{Ended, OnCrash, RunReply};
use crate::engine::values::calls::COMPARE_AND_DELETE;
use crate::engine::values::calls::operation;
use crate::engine::values::kind::{Held, Kind, Resource, StepScripts, kind, step};
use crate::engine::values::request::Copies;
use crate::engine::ways::begin_run::{BeginRun, RunTerms, Tried};
use crate::script::{Answer, Call, Malformed, Script, script};

/// It holds the name as a mutex does, and its scripts keep the record beside it.
///
/// No caller queues for a run: all of them want its result, which a broadcast announces.
pub(crate) static ONCE: Kind = kind! {
    name: "once",
    no_majority: Some("servers vote on a holder, and not on a record"),
    side_keys: &["queue", "waiters", "fence", "once"],
    acquire: step!("once/acquire"),
    extend: script!("mutex/extend"),
    release: step!("run/release"),
    cancel: step!("once/cancel"),
    extend_many: script!("mutex/extend_many"),
    release_alone: &COMPARE_AND_DELETE,
    note: script!("mutex/note"),
    others: &[&FINISH.plain, &FINISH.strict, &INSPECT_RUN, &FORGET],
};

static FINISH: StepScripts = step!("once/finish");
static INSPECT_RUN: Script = script!("once/inspect", reads_only);
static FORGET: Script = script!("once/forget");

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

/// What one caller asks for.
#[derive(Debug, Clone)]
pub(super) struct AskedWork {
    pub(super) terms: Arc<OnceTerms>,
    /// The run that the caller has waited for, whose failure it shares.
    pub(super) after: Option<Fence>,
}

/// Begins a run, or learns what became of an earlier one. Runs `once/acquire`.
pub(super) type Acquire = BeginRun<AskedWork>;

/// What a caller is told; of a run of its own the attempt.
pub(super) type OnceReply = RunReply<u32, NoRun>;

/// Why no run begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoRun {
    /// The run has ended: done, failed or crashed.
    Ended(OnceState),
    GivenUp {
        attempts: u32,
        message: String,
    },
    Differs,
}

impl RunTerms for AskedWork {
    const NOUN: &'static str = "once";
    type Told = OnceReply;

    fn is_watched(&mut self, told: &OnceReply) -> bool {
        let RunReply::Behind(fence) = told else {
            return false;
        };
        self.after = *fence;
        true
    }

    fn encode(begin: &Acquire, call: &mut Call) {
        let Held { resource, token } = &begin.held;
        resource.write_keys(call);
        let AskedWork { terms, after } = &begin.asked;
        let attempts = u64::from(terms.attempts.unwrap_or(0));
        let on_crash = match terms.on_crash {
            OnCrash::Again => "again",
            OnCrash::Refuse => "refuse",
        };
        call.arg(token).arg(begin.terms.ttl.as_ms());
        call.arg(terms.kept).arg(&terms.fingerprint).arg(attempts);
        call.arg(on_crash).arg(after.map_or(0, Fence::get));
        call.arg(&begin.number.call).arg(begin.number.request);
        call.arg(&terms.channel);
        resource.write_gate(call);
    }

    fn decode(answer: &Answer) -> Result<Tried<OnceReply>, Malformed> {
        let told = match answer.tag() {
            "granted" => RunReply::Run(answer.small(4)?),
            "running" => RunReply::Behind(Some(Fence::new(answer.number(3)?))),
            "busy" | "waiting" | "quarantined" | "disagrees" => RunReply::Busy,
            "given_up" => RunReply::NoRun(NoRun::GivenUp {
                attempts: answer.small(0)?,
                message: answer.text_lossy(1)?,
            }),
            "differs" => RunReply::NoRun(NoRun::Differs),
            "done" | "failed" | "kept" | "crashed" => RunReply::NoRun(NoRun::Ended(ended(answer)?)),
            _ => return Err(Malformed),
        };
        told.tried(answer)
    }
}

/// Reads what a run has ended with.
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

operation! {
    /// Stores what a run came to, and gives the name back. Runs `once/finish`.
    pub(super) struct Finish<'a> {
        held: &'a Held,
        kind: &'static str,
        result: &'a [u8],
        fence: Fence,
        attempt: u32,
        terms: &'a OnceTerms,
    }
    script held.resource.script(&FINISH);
    fn encode(call) {
        let Held { resource, token } = *held;
        resource.write_keys(call);
        call.arg(token).arg(*kind).arg(*result).arg(fence.get()).arg(u64::from(*attempt));
        call.arg(&terms.fingerprint).arg(terms.kept).arg(terms.pause).arg(&terms.channel);
    }
    fn decode(answer) -> Ended<Fence> {
        "stored" => Ok(()),
        "stale" => {
            let another = answer.text(0)? != "taken"; // and not another lock of the name
            Err(fence::of_reply(answer.number(1)?).filter(|_| another))
        },
    }
}

operation! {
    /// Reads what became of the latest run. Runs `once/inspect`.
    pub(super) struct InspectRun<'a> {
        resource: &'a Resource,
    }
    script &INSPECT_RUN;
    fn encode(call) {
        call.key(&resource.lock).key(resource.beside("once"));
    }
    fn decode(answer) -> OnceState {
        "absent" => OnceState::Absent,
        "running" => OnceState::Running {
            fence: Fence::new(answer.number(0)?),
            attempt: answer.small(1)?,
        },
        "done" | "failed" | "kept" | "crashed" => ended(answer)?,
    }
}

operation! {
    /// Forgets the latest run; true if there was one. One that holds the name stays. Runs `once/forget`.
    pub(super) struct Forget<'a> {
        resource: &'a Resource,
    }
    script &FORGET;
    fn encode(call) {
        call.key(&resource.lock).key(resource.beside("once"));
    }
    fn decode(answer) -> Result<bool, Fence> {
        "forgotten" => Ok(true),
        "absent" => Ok(false),
        "running" => Err(Fence::new(answer.number(0)?)),
    }
}
