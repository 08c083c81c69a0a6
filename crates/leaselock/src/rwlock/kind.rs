//! Reading as a kind of lock, and the two requests that change how a name is held: their scripts, which are in
//! `lua/rwlock/` and `lua/hold/`. To write is to acquire the mutex.

use crate::engine::values::kind::{BatchScripts, Kind, Step};
use crate::engine::values::release_alone::RELEASE_ALONE;
use crate::script::script;

/// The modes of readers in `lua/holds.lua`.
pub(super) const SHARED: &str = "s";
pub(super) const UPGRADABLE: &str = "u";
/// The mode of a request to upgrade.
pub(super) const UPGRADE_MODE: &str = "x";

pub(crate) static READ: Kind = Kind {
    name: "read-write lock",
    side_keys: &["queue", "waiters", "fence"],
    acquire: Step::new(script!("rwlock/acquire"), script!("rwlock/acquire", strict)),
    extend: script!("hold/extend"),
    extend_many: Some(script!("hold/extend_many")),
    release: Step::new(script!("rwlock/release"), script!("rwlock/release", strict)),
    release_keys: &[],
    cancel: Step::new(script!("rwlock/cancel"), script!("rwlock/cancel", strict)),
    release_alone: Some(&RELEASE_ALONE),
    position: None,
    confirm: Some(script!("hold/confirm")),
    detach: Some(script!("hold/detach")),
    detach_keys: &[],
    note: None,
    // An upgradable reader, of which there is one at a time, asks by itself.
    batch: Some(BatchScripts {
        mode: Some(b's'),
        takes_mode: false,
        side_keys: &[],
        acquire_many: script!("rwlock/acquire_many"),
        always_fences: true, // a reader without fencing may have to take the mark of other readers off
        release_many: script!("rwlock/release_many"),
    }),
    acquire_all: None,
    local_hand_over: false,
    votes: false,
    others: &[],
};

/// To make an upgradable read exclusive. No lease is of this kind: a grant makes it one of the mutex.
pub(crate) static UPGRADE: Kind = Kind {
    name: "upgrade",
    side_keys: &["queue", "waiters", "fence"],
    acquire: Step::new(script!("rwlock/upgrade"), script!("rwlock/upgrade", strict)),
    extend: script!("hold/extend"),
    extend_many: None,
    release: Step::new(script!("rwlock/release"), script!("rwlock/release", strict)),
    release_keys: &[],
    cancel: Step::new(script!("rwlock/stay"), script!("rwlock/stay", strict)),
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

/// To go on as a reader. No lease is of this kind: a grant makes it one of [`READ`].
pub(crate) static DOWNGRADE: Kind = Kind {
    name: "downgrade",
    side_keys: &["queue", "waiters", "fence"],
    acquire: Step::new(
        script!("rwlock/downgrade"),
        script!("rwlock/downgrade", strict),
    ),
    extend: script!("hold/extend"),
    extend_many: None,
    release: Step::new(script!("rwlock/release"), script!("rwlock/release", strict)),
    release_keys: &[],
    cancel: Step::new(script!("rwlock/cancel"), script!("rwlock/cancel", strict)),
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
