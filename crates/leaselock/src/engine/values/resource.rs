//! A resource: what is locked, as the kind and the keys of one name.

use std::ops::Deref;
use std::sync::Arc;

use super::kind::{Kind, StepScripts};
use crate::script::quarantine_key::QuarantineKey;
use crate::script::{Call, LockKeys, Script};

/// Returns the first word of how a name is held.
pub(crate) fn mode_word(mode: Option<&str>) -> Option<&str> {
    mode?.split(' ').next()
}

/// The lock of one name. Every lease stores this value.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) kind: &'static Kind,
    keys: LockKeys,
    /// How it is held, for kinds with several ways. The scripts of the kind take it as one argument; its first word is
    /// also in the queue entry (`lua/holds.lua`).
    pub(crate) mode: Option<Arc<str>>,
}

impl Resource {
    pub(crate) fn new(kind: &'static Kind, keys: LockKeys) -> Self {
        Resource {
            kind,
            keys,
            mode: None,
        }
    }

    pub(crate) fn with_mode(mut self, mode: Option<Arc<str>>) -> Self {
        self.mode = mode;
        self
    }

    /// Returns the first word of how it is held, which queue entries and renewals have.
    pub(crate) fn mode_word(&self) -> Option<&str> {
        mode_word(self.mode.as_deref())
    }

    /// Creates the lock of this kind at this key.
    pub(crate) fn at(
        kind: &'static Kind,
        lock: Arc<str>,
        gate: Option<&Arc<QuarantineKey>>,
    ) -> Self {
        Resource::new(kind, LockKeys::at(lock).behind(gate))
    }

    /// Returns the script of a step, with the gate in strict mode.
    pub(crate) fn script(&self, step: &'static StepScripts) -> &'static Script {
        step.script(self.gate.is_some())
    }

    /// Writes the keys that `acquire` and `cancel` take: the lock, its side keys, and the quarantine key in
    /// strict mode.
    pub(crate) fn write_keys(&self, call: &mut Call) {
        self.write_keys_and(call, &[]);
    }

    pub(crate) fn write_release_keys(&self, call: &mut Call) {
        self.write_keys_and(call, self.kind.release_keys);
    }

    fn write_keys_and(&self, call: &mut Call, more: &[&'static str]) {
        call.key(&self.lock);
        let sides = self.kind.side_keys.iter().chain(more);
        call.keys(sides.map(|side| self.beside(side)));
        self.write_gate_key(call);
    }

    /// Writes the last two arguments of what grants, in strict mode.
    pub(crate) fn write_gate(&self, call: &mut Call) {
        if let Some(gate) = &self.gate {
            call.arg(gate.longest.as_ms()).arg(gate.quarantine_ms());
        }
    }
}

impl Deref for Resource {
    type Target = LockKeys;

    fn deref(&self) -> &LockKeys {
        &self.keys
    }
}
