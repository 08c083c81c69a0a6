//! Reading as a kind of lock: its scripts, which are in `lua/rwlock/` and `lua/hold/`. To write is to acquire the mutex.

use crate::engine::kind::{Kind, Step};
use crate::script::script;

pub(crate) static READ: Kind = Kind {
    name: "read-write lock",
    side_keys: &["queue", "waiters", "fence"],
    acquire: Step::new(script!("rwlock/acquire"), script!("rwlock/acquire", strict)),
    extend: script!("hold/extend"),
    release: Step::new(script!("rwlock/release"), script!("rwlock/release", strict)),
    release_keys: &[],
    cancel: Step::new(script!("rwlock/cancel"), script!("rwlock/cancel", strict)),
    release_alone: None,
    position: None,
    confirm: None,
    detach: None,
    note: None,
    batch: None,
    local_hand_over: false,
    votes: false,
    others: &[],
};
