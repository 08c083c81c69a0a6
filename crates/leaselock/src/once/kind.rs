//! A run as a kind of lock: it holds the name as a mutex does, and its scripts keep the record beside it.
//!
//! No caller queues for a run: all of them want its result, which a broadcast announces.

use crate::engine::values::compare_and_delete::COMPARE_AND_DELETE;
use crate::engine::values::kind::{Kind, StepScripts, kind, step};
use crate::script::{Script, script};

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

pub(super) static FINISH: StepScripts = step!("once/finish");
pub(super) static INSPECT_RUN: Script = script!("once/inspect", reads_only);
pub(super) static FORGET: Script = script!("once/forget");
