//! The run of a tick as a kind of lock: it holds the name as a mutex does, and its scripts keep the record beside it.
//!
//! No caller queues for a tick: it belongs to the first one that asks, and is over for all others.

use super::calls::INSPECT;
use super::finish::{FINISH, FINISH_STRICT};
use crate::engine::values::compare_and_delete::COMPARE_AND_DELETE;
use crate::engine::values::kind::{Kind, Step};
use crate::script::script;

pub(crate) static CRON: Kind = Kind {
    name: "cron",
    side_keys: &["queue", "waiters", "fence", "cron"],
    acquire: Step::new(script!("cron/acquire"), script!("cron/acquire", strict)),
    extend: script!("mutex/extend"),
    extend_many: Some(script!("mutex/extend_many")),
    release: Step::new(script!("cron/release"), script!("cron/release", strict)),
    release_keys: &[],
    cancel: Step::new(script!("cron/cancel"), script!("cron/cancel", strict)),
    release_alone: Some(&COMPARE_AND_DELETE),
    position: None,
    confirm: Some(script!("mutex/confirm")),
    detach: None,
    detach_keys: &[],
    note: Some(script!("mutex/note")),
    batch: None,
    acquire_all: None,
    local_hand_over: false,
    votes: false,
    others: &[&FINISH, &FINISH_STRICT, &INSPECT],
};
