//! A leadership as a kind of lock: the mutex, but for the step in which the leader gives it up.
//!
//! Campaigners queue with those who acquire the mutex of that name. A leadership belongs to one task, so it is not
//! handed over among the tasks of a client.

use super::calls::{OBSERVE, PROCLAIM};
use crate::engine::values::compare_and_delete::COMPARE_AND_DELETE;
use crate::engine::values::kind::{Kind, Step};
use crate::engine::values::shortcut;
use crate::script::script;

pub(crate) static LEADERSHIP: Kind = Kind {
    name: "leader election",
    side_keys: &["queue", "waiters", "fence"],
    acquire: Step::new(
        script!("mutex/acquire").shortcut(shortcut::acquire),
        script!("mutex/acquire", strict),
    ),
    extend: script!("mutex/extend"),
    extend_many: Some(script!("mutex/extend_many")),
    release: Step::new(
        script!("election/resign"),
        script!("election/resign", strict),
    ),
    release_keys: &["leader"],
    cancel: Step::new(script!("mutex/cancel"), script!("mutex/cancel", strict)),
    release_alone: Some(&COMPARE_AND_DELETE),
    position: Some(script!("mutex/position", reads_only)),
    confirm: Some(script!("mutex/confirm")),
    detach: None,
    detach_keys: &[],
    note: Some(script!("mutex/note")),
    batch: None,
    acquire_all: None,
    local_hand_over: false,
    votes: false,
    others: &[&PROCLAIM, &OBSERVE],
};
