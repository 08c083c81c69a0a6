//! The requests of callers: to claim a tick, and to read what is known.

use std::sync::Arc;
use std::time::Duration;

use super::kind::INSPECT_TICKS;
use super::state::{Claim, CronState, Overlap, TickState};
use super::tick::Tick;
use crate::engine::shared_state::recorded_run::OnCrash;
use crate::engine::values::calls::operation;
use crate::engine::values::grant::{Acquired, seen};
use crate::engine::values::kind::Resource;
use crate::engine::ways::trying::{BeginRun, RunTerms, Tried};
use crate::script::{Answer, Call, Malformed};

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
    /// What operators are shown of the schedule, if there is one.
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

/// What a caller is told.
#[derive(Debug)]
pub(super) enum CronReply {
    /// Of this tick, which may be an earlier one than was claimed.
    Run { attempt: u32, tick: Tick },
    /// Any other claim than a run.
    NoRun(Claim),
    /// The caller waits for the run of an earlier tick.
    Behind,
    /// The caller waits for another lock of the name, or nothing is granted at present.
    Busy,
}

impl RunTerms for AskedTick {
    const NOUN: &'static str = "cron";
    type Told = CronReply;

    fn is_watched(&mut self, told: &CronReply) -> bool {
        matches!(told, CronReply::Behind)
    }

    fn encode(begin: &Acquire, call: &mut Call) {
        begin.resource.write_keys(call);
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
        let schedule = terms.schedule.as_ref();
        let schedule = schedule.map(|schedule| format!("{late_us} {schedule}"));
        let schedule = schedule.filter(|text| text.len() <= SCHEDULE_MAX);
        call.arg(&begin.token).arg(begin.ttl.as_ms());
        call.arg(tick.0).arg(late_us).arg(again).arg(overlap);
        call.arg(&begin.number.call).arg(begin.number.request);
        call.arg(&terms.channel).arg(schedule.unwrap_or_default());
        begin.resource.write_gate(call);
    }

    fn decode(answer: &Answer) -> Result<Tried<CronReply>, Malformed> {
        let why = match answer.tag() {
            "granted" => {
                let attempt = answer.small(4)?;
                let tick = Tick::from_answer(answer, 5)?.ok_or(Malformed)?;
                let granted = Acquired::decode(answer)?;
                return Ok((Some(granted), CronReply::Run { attempt, tick }));
            }
            "behind" => {
                let seen = seen(answer)?;
                return Ok((Some(Acquired::Busy { seen }), CronReply::Behind));
            }
            "busy" | "waiting" | "quarantined" | "disagrees" => {
                return Ok((Some(Acquired::decode(answer)?), CronReply::Busy));
            }
            "early" => Claim::Early {
                wait: Duration::from_micros(answer.number(0)?),
            },
            "over" => Claim::Over,
            "running" => Claim::Running {
                rest: rest(answer)?,
            },
            "overlap" => Claim::Overlap {
                rest: rest(answer)?,
            },
            "missed" => Claim::Missed {
                late: Duration::from_micros(answer.number(0)?),
            },
            _ => return Err(Malformed),
        };
        Ok((None, CronReply::NoRun(why)))
    }
}

/// How long the holder's lease lasts; zero for a lock without an end.
fn rest(answer: &Answer) -> Result<Duration, Malformed> {
    let ms = u64::try_from(answer.signed(0)?).unwrap_or(0);
    Ok(Duration::from_millis(ms))
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
    let (latest, attempt) = match state {
        Some(_) => {
            let tick = Tick::from_answer(answer, 3)?.ok_or(Malformed)?;
            (Some(tick.time()), answer.small(4)?)
        }
        None => (None, 0),
    };
    Ok(CronState {
        latest,
        state,
        attempt,
        skipped: Tick::from_answer(answer, 0)?.map(Tick::time),
        now: Tick::from_answer(answer, 1)?.ok_or(Malformed)?.time(),
        // Any client that may claim writes it, so it is not trusted.
        schedule: answer.text(2)?.split_once(' ').and_then(|(late_us, text)| {
            let late = Duration::from_micros(late_us.parse().ok()?);
            Some((late, text.to_owned()))
        }),
    })
}
