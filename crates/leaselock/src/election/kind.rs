//! A leadership as a kind of lock: the mutex, but for the step in which the leader gives it up.
//!
//! Campaigners queue with those who acquire the mutex of that name. A leadership belongs to one task, so it is not
//! handed over among the tasks of a client.

use super::calls::{OBSERVE, PROCLAIM};
use crate::engine::values::compare_and_delete::COMPARE_AND_DELETE;
use crate::engine::values::{Kind, kind, step};
use crate::script::script;

pub(crate) static LEADERSHIP: Kind = kind! {
    name: "leader election",
    label: "leader",
    no_majority: Some("servers that vote have no one place for what a leader proclaims"),
    side_keys: &["queue", "waiters", "fence"],
    acquire: step!("mutex/acquire"),
    extend: script!("mutex/extend"),
    release: step!("election/resign"),
    cancel: step!("mutex/cancel"),
    release_keys: &["leader"],
    extend_many: script!("mutex/extend_many"),
    release_alone: &COMPARE_AND_DELETE,
    position: script!("mutex/position", reads_only),
    confirm: script!("mutex/confirm"),
    note: script!("mutex/note"),
    others: &[&PROCLAIM, &OBSERVE],
};
