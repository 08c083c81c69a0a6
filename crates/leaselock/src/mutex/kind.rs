//! The mutex as a kind of lock: its scripts, which are in `lua/mutex/`.

use super::shortcut;
use crate::client::views::GRANT;
use crate::engine::compare_and_delete::COMPARE_AND_DELETE;
use crate::engine::kind::{BatchScripts, Kind, Step};
use crate::script::script;

pub(crate) static MUTEX: Kind = Kind {
    name: "mutex",
    side_keys: &["queue", "waiters", "fence"],
    acquire: Step::new(
        script!("mutex/acquire")
            .with(GRANT)
            .shortcut(shortcut::acquire),
        script!("mutex/acquire", strict).with(GRANT),
    ),
    extend: script!("mutex/extend").shortcut(shortcut::extend),
    release: Step::new(
        script!("mutex/release")
            .with(GRANT)
            .shortcut(shortcut::release),
        script!("mutex/release", strict).with(GRANT),
    ),
    cancel: Step::new(
        script!("mutex/cancel").with(GRANT),
        script!("mutex/cancel", strict).with(GRANT),
    ),
    release_alone: Some(&COMPARE_AND_DELETE),
    position: Some(script!("mutex/position", reads_only)),
    confirm: Some(script!("mutex/confirm")),
    detach: Some(script!("mutex/detach")),
    note: Some(script!("mutex/note")),
    batch: Some(BatchScripts {
        acquire_many: script!("mutex/acquire_many"),
        extend_many: script!("mutex/extend_many"),
        release_many: script!("mutex/release_many"),
    }),
    local_hand_over: true,
    votes: true,
};
