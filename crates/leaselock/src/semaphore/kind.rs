//! Permits as a kind of lock: their scripts, which are in `lua/semaphore/` and `lua/hold/`.

use crate::engine::values::calls::RELEASE_ALONE;
use crate::engine::values::kind::{BatchScripts, Kind, StepScripts, kind, step};
use crate::script::script;

pub(crate) static PERMITS: Kind = kind! {
    name: "semaphore",
    label: "permits",
    no_majority: Some("two majorities may have one server in common, so one permit too many could be granted"),
    side_keys: &["queue", "waiters", "fence", "usage"],
    acquire: step!("semaphore/acquire"),
    extend: script!("hold/extend"),
    release: step!("semaphore/release"),
    cancel: step!("semaphore/cancel"),
    extend_many: script!("hold/extend_many"),
    release_alone: &RELEASE_ALONE,
    confirm: script!("hold/confirm"),
    detach: script!("hold/detach"),
    detach_keys: &["usage"],
    batch: BatchScripts {
        mode: Some(b'w'),
        takes_mode: true,
        side_keys: &["usage"],
        acquire_many: script!("semaphore/acquire_many"),
        always_fences: false,
        release_many: script!("semaphore/release_many"),
    },
    others: &[&RESIZE.plain, &RESIZE.strict],
};

pub(super) static RESIZE: StepScripts = step!("semaphore/resize");
