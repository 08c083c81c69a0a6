//! A run as a kind of lock: it holds the name as a mutex does, and its scripts keep the record beside it.
//!
//! No caller queues for a run: all of them want its result, which a broadcast announces.

use super::calls::{FINISH, FINISH_STRICT, FORGET, INSPECT};
use crate::engine::values::compare_and_delete::COMPARE_AND_DELETE;
use crate::engine::values::kind::{Kind, Step};
use crate::script::script;

pub(crate) static ONCE: Kind = Kind {
    name: "once",
    side_keys: &["queue", "waiters", "fence", "once"],
    acquire: Step::new(script!("once/acquire"), script!("once/acquire", strict)),
    extend: script!("mutex/extend"),
    extend_many: Some(script!("mutex/extend_many")),
    release: Step::new(script!("once/release"), script!("once/release", strict)),
    release_keys: &[],
    cancel: Step::new(script!("once/cancel"), script!("once/cancel", strict)),
    release_alone: Some(&COMPARE_AND_DELETE),
    position: None,
    confirm: None,
    detach: None,
    detach_keys: &[],
    note: Some(script!("mutex/note")),
    batch: None,
    acquire_all: None,
    local_hand_over: false,
    votes: false,
    others: &[&FINISH, &FINISH_STRICT, &INSPECT, &FORGET],
};
