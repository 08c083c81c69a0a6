//! The toy as a kind of lock: its scripts, which are in `lua/toy/`.

use crate::engine::kind::{Kind, Step};
use crate::script::script;
use crate::script::source::{Fragment, lua};

/// How a grant is written.
const GRANT: Fragment = ("toy/grant", lua!("toy/grant"));

pub(crate) static TOY: Kind = Kind {
    name: "toy",
    side_keys: &["queue", "waiters", "fence"],
    acquire: Step::new(
        script!("toy/acquire").with(GRANT),
        script!("toy/acquire", strict).with(GRANT),
    ),
    extend: script!("toy/extend"),
    release: Step::new(
        script!("toy/release").with(GRANT),
        script!("toy/release", strict).with(GRANT),
    ),
    cancel: Step::new(
        script!("toy/cancel").with(GRANT),
        script!("toy/cancel", strict).with(GRANT),
    ),
    release_alone: None,
    position: None,
    confirm: None,
    detach: None,
    note: None,
    batch: None,
    local_hand_over: false,
    votes: false,
};
