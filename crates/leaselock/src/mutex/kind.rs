//! The mutex as a kind of lock: its scripts, which are in `lua/mutex/`.

use crate::engine::values::calls::COMPARE_AND_DELETE;
use crate::engine::values::kind::{BatchScripts, Kind, StepScripts, kind, step};
use crate::engine::values::shortcut;
use crate::script::script;

pub(crate) static MUTEX: Kind = kind! {
    name: "mutex",
    no_majority: None,
    side_keys: &["queue", "waiters", "fence"],
    acquire: StepScripts::new(
        script!("mutex/acquire").shortcut(shortcut::acquire),
        script!("mutex/acquire", strict),
    ),
    extend: script!("mutex/extend"),
    release: StepScripts::new(
        script!("mutex/release").shortcut(shortcut::release),
        script!("mutex/release", strict),
    ),
    cancel: step!("mutex/cancel"),
    extend_many: script!("mutex/extend_many"),
    release_alone: &COMPARE_AND_DELETE,
    position: script!("mutex/position", reads_only),
    confirm: script!("mutex/confirm"),
    detach: script!("mutex/detach"),
    note: script!("mutex/note"),
    batch: BatchScripts {
        mode: None,
        takes_mode: false,
        side_keys: &[],
        acquire_many: script!("mutex/acquire_many"),
        always_fences: false,
        release_many: script!("mutex/release_many"),
    },
    acquire_all: step!("mutex/acquire_all"),
    local_hand_over: true,
};
