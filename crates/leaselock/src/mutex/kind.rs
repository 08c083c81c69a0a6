//! The mutex as a kind of lock: its scripts, which are in `lua/mutex/`.

use crate::engine::values::compare_and_delete::COMPARE_AND_DELETE;
use crate::engine::values::kind::{BatchScripts, Kind, Step};
use crate::engine::values::shortcut;
use crate::script::script;

pub(crate) static MUTEX: Kind = Kind {
    name: "mutex",
    side_keys: &["queue", "waiters", "fence"],
    acquire: Step::new(
        script!("mutex/acquire").shortcut(shortcut::acquire),
        script!("mutex/acquire", strict),
    ),
    extend: script!("mutex/extend"),
    extend_many: Some(script!("mutex/extend_many")),
    release: Step::new(
        script!("mutex/release").shortcut(shortcut::release),
        script!("mutex/release", strict),
    ),
    release_keys: &[],
    cancel: Step::new(script!("mutex/cancel"), script!("mutex/cancel", strict)),
    release_alone: Some(&COMPARE_AND_DELETE),
    position: Some(script!("mutex/position", reads_only)),
    confirm: Some(script!("mutex/confirm")),
    detach: Some(script!("mutex/detach")),
    detach_keys: &[],
    note: Some(script!("mutex/note")),
    batch: Some(BatchScripts {
        mode: None,
        takes_mode: false,
        side_keys: &[],
        acquire_many: script!("mutex/acquire_many"),
        always_fences: false,
        release_many: script!("mutex/release_many"),
    }),
    acquire_all: Some(Step::new(
        script!("mutex/acquire_all"),
        script!("mutex/acquire_all", strict),
    )),
    local_hand_over: true,
    votes: true,
    others: &[],
};
