//! Reading as a kind of lock, and the two requests that change how a name is held: their scripts, which are in
//! `lua/rwlock/` and `lua/hold/`. To write is to acquire the mutex.

use crate::engine::values::calls::RELEASE_ALONE;
use crate::engine::values::kind::{BatchScripts, Kind, kind, step};
use crate::script::script;

/// The modes of readers in `lua/holds.lua`.
pub(super) const SHARED: &str = "s";
pub(super) const UPGRADABLE: &str = "u";
/// The mode of a request to upgrade.
pub(super) const UPGRADE_MODE: &str = "x";
const NO_MAJORITY: Option<&str> = Some("servers that vote have no queue for a writer");

pub(crate) static READ: Kind = kind! {
    name: "read-write lock",
    label: "read",
    no_majority: NO_MAJORITY,
    side_keys: &["queue", "waiters", "fence"],
    acquire: step!("rwlock/acquire"),
    extend: script!("hold/extend"),
    release: step!("rwlock/release"),
    cancel: step!("rwlock/cancel"),
    extend_many: script!("hold/extend_many"),
    release_alone: &RELEASE_ALONE,
    confirm: script!("hold/confirm"),
    detach: script!("hold/detach"),
    // An upgradable reader, of which there is one at a time, asks by itself.
    batch: BatchScripts {
        mode: Some(b's'),
        takes_mode: false,
        side_keys: &[],
        acquire_many: script!("rwlock/acquire_many"),
        always_fences: true, // a reader without fencing may have to take the mark of other readers off
        release_many: script!("rwlock/release_many"),
    },
};

/// To make an upgradable read exclusive. No lease is of this kind: a grant makes it one of the mutex.
pub(crate) static UPGRADE: Kind = kind! {
    name: "upgrade",
    no_majority: NO_MAJORITY,
    side_keys: &["queue", "waiters", "fence"],
    acquire: step!("rwlock/upgrade"),
    extend: script!("hold/extend"),
    release: step!("rwlock/release"),
    cancel: step!("rwlock/stay"),
};

/// To go on as a reader. No lease is of this kind: a grant makes it one of [`READ`].
pub(crate) static DOWNGRADE: Kind = kind! {
    name: "downgrade",
    no_majority: NO_MAJORITY,
    side_keys: &["queue", "waiters", "fence"],
    acquire: step!("rwlock/downgrade"),
    extend: script!("hold/extend"),
    release: step!("rwlock/release"),
    cancel: step!("rwlock/cancel"),
};
