//! The toy as a kind of lock: its scripts, which are in `lua/toy/`.

use crate::engine::values::kind::{Kind, Step};
use crate::script::script;

pub(crate) static TOY: Kind = Kind {
    name: "toy",
    side_keys: &["queue", "waiters", "fence"],
    acquire: Step::new(
        script!("toy/acquire"),
        script!("toy/acquire", strict),
    ),
    extend: script!("toy/extend"),
    extend_many: None,
    release: Step::new(
        script!("toy/release"),
        script!("toy/release", strict),
    ),
    release_keys: &[],
    cancel: Step::new(
        script!("toy/cancel"),
        script!("toy/cancel", strict),
    ),
    release_alone: None,
    position: None,
    confirm: None,
    detach: None,
    detach_keys: &[],
    note: None,
    batch: None,
    acquire_all: None,
    local_hand_over: false,
    votes: false,
    others: &[],
};
