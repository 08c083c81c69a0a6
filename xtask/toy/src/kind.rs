//! The toy as a kind of lock: its scripts, which are in `lua/toy/`.

use crate::engine::values::kind::{Kind, kind, step};
use crate::script::script;

pub(crate) static TOY: Kind = kind! {
    name: "toy",
    no_majority: Some("servers that vote have no queue"),
    side_keys: &["queue", "waiters", "fence"],
    acquire: step!("toy/acquire"),
    extend: script!("toy/extend"),
    release: step!("toy/release"),
    cancel: step!("toy/cancel"),
};
