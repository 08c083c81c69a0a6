//! The run of a tick as a kind of lock, and the requests of callers and runs.

use std::sync::Arc;
use std::time::Duration;

use super::state::{Claim, CronRun, CronState, Overlap, Tick, TickState};
use crate::engine::shared_state::recorded_run::{Ended, OnCrash, RunReply};
use crate::engine::values::calls::{COMPARE_AND_DELETE, operation};
use crate::engine::values::kind::{Held, Kind, Resource, StepScripts, kind, step};
use crate::engine::ways::begin_run::{BeginRun, RunTerms, Tried};
use crate::script::{Answer, Call, Malformed, Script, script};

/// It holds the name as a mutex does, and its scripts keep the record beside it.
///
/// No caller queues for a tick: it belongs to the first one that asks, and is over for all others.
pub(crate) static CRON: Kind = kind! {
    name: "cron",
    no_majority: Some("servers vote on a holder, and not on a record"),
    side_keys: &["queue", "waiters", "fence", "cron"],
    acquire: step!("cron/acquire"),
    extend: script!("mutex/extend"),
    release: step!("run/release"),
    cancel: step!("cron/cancel"),
    extend_many: script!("mutex/extend_many"),
    release_alone: &COMPARE_AND_DELETE,
    confirm: script!("mutex/confirm"),
    note: script!("mutex/note"),
    others: &[&FINISH_TICK.plain, &FINISH_TICK.strict, &INSPECT_TICKS],
};

static FINISH_TICK: StepScripts = step!("cron/finish");
static INSPECT_TICKS: Script = script!("cron/inspect", reads_only);

/// A longer text of a schedule is not stored.
const SCHEDULE_MAX: usize = 200;

/// What every claim of one caller says of the schedule.
#[derive(Debug, Clone)]
pub(super) struct CronTerms {
    /// How long after its time a tick may begin.
    pub(super) late: Duration,
    pub(super) on_crash: OnCrash,
    /// True if a tick that may run again comes before those after it: a claim of a later one runs it in place of its own.
    pub(super) in_order: bool,
    pub(super) overlap: Overlap,
    /// What operators are shown of the schedule, if there is one: its lateness in microseconds, its zone and expression.
    pub(super) schedule: Option<Arc<str>>,
    /// Where ends of runs are broadcast.
    pub(super) channel: String,
}

/// What one caller asks for.
#[derive(Debug, Clone)]
pub(super) struct AskedTick {
    pub(super) tick: Tick,
    pub(super) terms: Arc<CronTerms>,
}

/// Claims a tick. Runs `cron/acquire`.
pub(super) type Acquire = BeginRun<AskedTick>;

/// What a caller is told: of a run, of this tick or of an earlier one than was claimed, or any other claim.
pub(super) type CronReply = RunReply<CronRun, Claim>;

impl RunTerms for AskedTick {
    const NOUN: &'static str = "cron";
    type Told = CronReply;

    fn is_watched(&mut self, told: &CronReply) -> bool {
        matches!(told, RunReply::Behind(_))
    }

    fn encode(begin: &Acquire, call: &mut Call) {
        let Held { resource, token } = &begin.held;
        resource.write_keys(call);
        let AskedTick { tick, terms } = &begin.asked;
        let late_us = u64::try_from(terms.late.as_micros()).unwrap_or(u64::MAX);
        let again = match (terms.on_crash, terms.in_order) {
            (OnCrash::Refuse, _) => "0",
            (OnCrash::Again, false) => "1",
            (OnCrash::Again, true) => "first",
        };
        let overlap = match terms.overlap {
            Overlap::Skip => "skip",
            Overlap::Wait => "wait",
        };
        let schedule = terms.schedule.as_deref();
        let schedule = schedule.filter(|text| text.len() <= SCHEDULE_MAX);
        call.arg(token).arg(begin.terms.ttl.as_ms());
        call.arg(tick.0).arg(late_us).arg(again).arg(overlap);
        call.arg(&begin.number.call).arg(begin.number.request);
        call.arg(&terms.channel).arg(schedule.unwrap_or_default());
        resource.write_gate(call);
    }

    fn decode(answer: &Answer) -> Result<Tried<CronReply>, Malformed> {
        let us = || answer.number(0).map(Duration::from_micros);
        // How long the holder's lease lasts; zero for a lock without an end.
        let rest = || {
            let ms = answer.signed(0)?.max(0).unsigned_abs();
            Ok(Duration::from_millis(ms))
        };
        let told = match answer.tag() {
            "granted" => RunReply::Run(CronRun {
                attempt: answer.small(4)?,
                tick: Tick::from_answer(answer, 5)?.ok_or(Malformed)?,
            }),
            "behind" => RunReply::Behind(None),
            "busy" | "waiting" | "quarantined" | "disagrees" => RunReply::Busy,
            "early" => RunReply::NoRun(Claim::Early { wait: us()? }),
            "over" => RunReply::NoRun(Claim::Over),
            "running" => RunReply::NoRun(Claim::Running { rest: rest()? }),
            "overlap" => RunReply::NoRun(Claim::Overlap { rest: rest()? }),
            "missed" => RunReply::NoRun(Claim::Missed { late: us()? }),
            _ => return Err(Malformed),
        };
        told.tried(answer)
    }
}

operation! {
    /// Records that a run has finished, and gives the name back. Runs `cron/finish`.
    pub(super) struct FinishTick<'a> {
        held: &'a Held,
    }
    script held.resource.script(&FINISH_TICK);
    fn encode(call) {
        let Held { resource, token } = *held;
        resource.write_keys(call);
        call.arg(token);
    }
    fn decode(answer) -> Ended<Tick> {
        "done" => Ok(()),
        "stale" => Err(Tick::from_answer(answer, 0)?),
    }
}

operation! {
    /// Reads what is known of the ticks. Runs `cron/inspect`.
    pub(super) struct InspectTicks<'a> {
        resource: &'a Resource,
    }
    script &INSPECT_TICKS;
    fn encode(call) {
        call.key(&resource.lock).key(resource.beside("cron"));
    }
    fn decode(answer) -> CronState {
        "absent" => state(answer, None)?,
        "running" => state(answer, Some(TickState::Running))?,
        "done" => state(answer, Some(TickState::Done))?,
        "crashed" => state(answer, Some(TickState::Crashed))?,
    }
}

fn state(answer: &Answer, state: Option<TickState>) -> Result<CronState, Malformed> {
    let time = |at| Ok(Tick::from_answer(answer, at)?.map(Tick::time));
    let known = |at| time(at)?.ok_or(Malformed);
    Ok(CronState {
        latest: state.map(|_| known(3)).transpose()?,
        state,
        attempt: state.map_or(Ok(0), |_| answer.small(4))?,
        skipped: time(0)?,
        now: known(1)?,
        // Any client that may claim writes it, so it is not trusted.
        schedule: answer.text(2)?.split_once(' ').and_then(|(late_us, text)| {
            let late = Duration::from_micros(late_us.parse().ok()?);
            Some((late, text.to_owned()))
        }),
    })
}
