//! The run of a tick as a kind of lock, and the request that ends it.
//!
//! It holds the name as a mutex does, and its scripts keep the record beside it. No caller queues for a tick: it belongs to
//! the first one that asks, and is over for all others.

use super::tick::Tick;
use crate::base::Token;
use crate::engine::shared_state::recorded_run::Ended;
use crate::engine::values::calls::{COMPARE_AND_DELETE, operation};
use crate::engine::values::kind::{Kind, Resource, StepScripts, kind, step};
use crate::script::{Script, script};

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
pub(super) static INSPECT_TICKS: Script = script!("cron/inspect", reads_only);

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
    fn decode(answer) -> Ended<Tick> {
        "done" => Ok(()),
        "stale" => Err(Tick::from_answer(answer, 0)?),
    }
}
