//! Permits as a kind of lock: their scripts, which are in `lua/semaphore/` and `lua/hold/`.

use super::resize::{RESIZE, RESIZE_STRICT};
use crate::engine::kind::{Kind, Step};
use crate::script::script;

pub(crate) static PERMITS: Kind = Kind {
    name: "semaphore",
    side_keys: &["queue", "waiters", "fence", "usage"],
    acquire: Step::new(
        script!("semaphore/acquire"),
        script!("semaphore/acquire", strict),
    ),
    extend: script!("hold/extend"),
    release: Step::new(
        script!("semaphore/release"),
        script!("semaphore/release", strict),
    ),
    release_keys: &[],
    cancel: Step::new(
        script!("semaphore/cancel"),
        script!("semaphore/cancel", strict),
    ),
    release_alone: None,
    position: None,
    confirm: None,
    detach: None,
    note: None,
    batch: None,
    local_hand_over: false,
    votes: false,
    others: &[&RESIZE, &RESIZE_STRICT],
};
