//! Permits as a kind of lock: their scripts, which are in `lua/semaphore/` and `lua/hold/`.

use super::resize::{RESIZE, RESIZE_STRICT};
use crate::engine::values::kind::{BatchScripts, Kind, Step};
use crate::engine::values::release_alone::RELEASE_ALONE;
use crate::script::script;

pub(crate) static PERMITS: Kind = Kind {
    name: "semaphore",
    side_keys: &["queue", "waiters", "fence", "usage"],
    acquire: Step::new(
        script!("semaphore/acquire"),
        script!("semaphore/acquire", strict),
    ),
    extend: script!("hold/extend"),
    extend_many: Some(script!("hold/extend_many")),
    release: Step::new(
        script!("semaphore/release"),
        script!("semaphore/release", strict),
    ),
    release_keys: &[],
    cancel: Step::new(
        script!("semaphore/cancel"),
        script!("semaphore/cancel", strict),
    ),
    release_alone: Some(&RELEASE_ALONE),
    position: None,
    confirm: Some(script!("hold/confirm")),
    detach: Some(script!("hold/detach")),
    detach_keys: &["usage"],
    note: None,
    batch: Some(BatchScripts {
        mode: Some(b'w'),
        takes_mode: true,
        side_keys: &["usage"],
        acquire_many: script!("semaphore/acquire_many"),
        always_fences: false,
        release_many: script!("semaphore/release_many"),
    }),
    acquire_all: None,
    local_hand_over: false,
    votes: false,
    others: &[&RESIZE, &RESIZE_STRICT],
};
