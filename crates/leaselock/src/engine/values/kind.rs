//! What is locked, as a kind, which is a table of scripts, and the keys of one name; how it is held and by which token, and
//! the table of what an owner that holds it in one way gets when it asks for it in another.

use std::ops::Deref;
use std::sync::Arc;

use leaselock_fence::{Fence, Name, Sequencer};

use crate::base::{Token, Ttl, debug_as};
use crate::script::keys::QuarantineKey;
use crate::script::{Call, LockKeys, Script};

/// The scripts of one primitive. An optional script is a feature that the primitive has or lacks.
pub(crate) struct Kind {
    /// The name in messages, such as "mutex".
    pub(crate) name: &'static str,
    /// What it is counted as; its name unless the table says otherwise.
    pub(crate) label: &'static str,
    /// The side keys that `acquire`, `release` and `cancel` take behind the lock, in this order.
    pub(crate) side_keys: &'static [&'static str],
    pub(crate) acquire: StepScripts,
    pub(crate) extend: Script,
    /// Extends many leases in one call; without it, each renewal is a call of its own.
    pub(crate) extend_many: Option<Script>,
    pub(crate) release: StepScripts,
    /// The side keys that `release` and `cancel` take behind those of `acquire`.
    pub(crate) release_keys: &'static [&'static str],
    pub(crate) cancel: StepScripts,
    /// Releases with the lock's own key alone, for a cluster node that does not have the side keys at the moment.
    pub(crate) release_alone: Option<&'static Script>,
    /// Reads a waiter's position; without it, every poll is a complete acquire request.
    pub(crate) position: Option<Script>,
    /// Writes a lease once more, so that the client can wait for replicas.
    pub(crate) confirm: Option<Script>,
    /// Gives a lease another token, with which another process continues it.
    pub(crate) detach: Option<Script>,
    pub(crate) detach_keys: &'static [&'static str],
    /// Writes the holder's note beside a lease.
    pub(crate) note: Option<Script>,
    /// Acquires and releases many in one call; without them, each request is a call of its own.
    pub(crate) batch: Option<BatchScripts>,
    /// Acquires all of several locks or none, for a lease of several names.
    pub(crate) acquire_all: Option<StepScripts>,
    /// True if a grant can pass from task to task of one client without a request.
    pub(crate) local_hand_over: bool,
    /// Why a majority of servers cannot have it; `None` for a lock that is one string with its holder's token, on which they
    /// can vote.
    pub(crate) no_majority: Option<&'static str>,
    /// Its other scripts, for the library of functions.
    pub(crate) others: &'static [&'static Script],
}

/// A script that grants or lets another client be granted, and so asks at the gate in strict mode.
#[derive(Debug)]
pub(crate) struct StepScripts {
    pub(crate) plain: Script,
    pub(crate) strict: Script,
}

/// Many requests in one call. Both scripts take the locks and their queues.
#[derive(Debug)]
pub(crate) struct BatchScripts {
    /// The ways of holding that they serve, for kinds with several ways: the first byte of their modes.
    pub(crate) mode: Option<u8>,
    /// True if both scripts take the mode, which all items of a call share.
    pub(crate) takes_mode: bool,
    /// The side keys that both scripts take behind the queues.
    pub(crate) side_keys: &'static [&'static str],
    pub(crate) acquire_many: Script,
    /// True if `acquire_many` takes the fences without fencing too.
    pub(crate) always_fences: bool,
    pub(crate) release_many: Script,
}

/// Writes the table of a kind: what each kind has, and behind it what this one has more than others, in this order.
macro_rules! kind {
    (
        name: $name:literal,
        $(label: $label:literal,)?
        no_majority: $no_majority:expr,
        side_keys: $side_keys:expr,
        acquire: $acquire:expr,
        extend: $extend:expr,
        release: $release:expr,
        cancel: $cancel:expr,
        $(release_keys: $release_keys:expr,)?
        $(extend_many: $extend_many:expr,)?
        $(release_alone: $release_alone:expr,)?
        $(position: $position:expr,)?
        $(confirm: $confirm:expr,)?
        $(detach: $detach:expr,)?
        $(detach_keys: $detach_keys:expr,)?
        $(note: $note:expr,)?
        $(batch: $batch:expr,)?
        $(acquire_all: $acquire_all:expr,)?
        $(local_hand_over: $local_hand_over:literal,)?
        $(others: $others:expr,)?
    ) => {
        $crate::engine::values::kind::Kind {
            name: $name,
            label: kind!(@label $name $(, $label)?),
            side_keys: $side_keys,
            acquire: $acquire,
            extend: $extend,
            extend_many: kind!(@script $($extend_many)?),
            release: $release,
            release_keys: kind!(@keys $($release_keys)?),
            cancel: $cancel,
            release_alone: kind!(@script $($release_alone)?),
            position: kind!(@script $($position)?),
            confirm: kind!(@script $($confirm)?),
            detach: kind!(@script $($detach)?),
            detach_keys: kind!(@keys $($detach_keys)?),
            note: kind!(@script $($note)?),
            batch: kind!(@script $($batch)?),
            acquire_all: kind!(@script $($acquire_all)?),
            local_hand_over: kind!(@is $($local_hand_over)?),
            no_majority: $no_majority,
            others: kind!(@keys $($others)?),
        }
    };
    (@label $name:literal) => { $name };
    (@label $name:literal, $label:literal) => { $label };
    (@script) => { None };
    (@script $script:expr) => { Some($script) };
    (@keys) => { &[] };
    (@keys $keys:expr) => { $keys };
    (@is) => { false };
    (@is $is:literal) => { $is };
}
pub(crate) use kind;

/// Creates the step of `lua/NAME.lua`.
macro_rules! step {
    ($name:literal) => {
        $crate::engine::values::kind::StepScripts::new(
            $crate::script::script!($name),
            $crate::script::script!($name, strict),
        )
    };
}
pub(crate) use step;

impl StepScripts {
    pub(crate) const fn new(plain: Script, strict: Script) -> Self {
        StepScripts { plain, strict }
    }

    pub(crate) fn script(&self, is_strict: bool) -> &Script {
        if is_strict { &self.strict } else { &self.plain }
    }
}

impl Kind {
    pub(crate) fn scripts(&'static self) -> impl Iterator<Item = &'static Script> {
        let steps = [&self.acquire, &self.release, &self.cancel];
        let steps = steps
            .into_iter()
            .chain(&self.acquire_all)
            .flat_map(|step| [&step.plain, &step.strict]);
        let optional = [
            &self.extend_many,
            &self.position,
            &self.confirm,
            &self.detach,
            &self.note,
        ];
        let batch = self.batch.iter();
        let batch = batch.flat_map(|batch| [&batch.acquire_many, &batch.release_many]);
        steps
            .chain(std::iter::once(&self.extend))
            .chain(optional.into_iter().flatten())
            .chain(self.release_alone)
            .chain(batch)
            .chain(self.others.iter().copied())
    }
}

impl PartialEq for Kind {
    /// Each kind is one `static`.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Kind {}

debug_as!(Kind, it => "{}", it.name);

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

    /// Writes the keys that `acquire` takes: the lock, its side keys, and the quarantine key in strict mode.
    pub(crate) fn write_keys(&self, call: &mut Call) {
        self.write_keys_and(call, &[]);
    }

    /// Writes the keys that `release` and `cancel` take.
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

/// A lock, and the token by which the store knows who holds it or asks for it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) resource: Resource,
    pub(crate) token: Token,
}

impl Held {
    pub(crate) fn of(resource: &Resource, token: &Token) -> Self {
        let (resource, token) = (resource.clone(), token.clone());
        Held { resource, token }
    }

    pub(crate) fn for_ttl(&self, ttl: Ttl) -> HeldFor<'_> {
        HeldFor { held: self, ttl }
    }
}

/// A lease, and how long it is to last from a request on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldFor<'a> {
    pub(crate) held: &'a Held,
    pub(crate) ttl: Ttl,
}

/// How a lock is held or asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "mode", content = "permits"))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LockMode {
    /// By one holder alone: a [`Mutex`](crate::Mutex), or the writer of a [`RwLock`](crate::RwLock).
    Exclusive,
    /// By a reader, beside others.
    Shared,
    /// By a reader that may become exclusive.
    Upgradable,
    /// By a holder of this many permits of a [`Semaphore`](crate::Semaphore).
    Permits(u32),
}

/// What a request comes to beside a hold of the same owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The hold covers the request: it costs no request.
    Covered,
    /// The store decides, as for any other client.
    Apart,
    /// The request would wait for this very hold. The text names the way out.
    WaitsForItself(&'static str),
}

impl LockMode {
    /// Returns how this resource is held, or asked for.
    pub(crate) fn of(resource: &Resource) -> LockMode {
        LockMode::of_mode(resource.mode.as_deref())
    }

    /// Reads how a name is held, as a resource and a handle have it.
    pub(crate) fn of_mode(mode: Option<&str>) -> LockMode {
        LockMode::of_word(mode_word(mode).unwrap_or_default())
    }

    /// Reads the kind of a request or of a hold, as in `lua/holds.lua`.
    pub(crate) fn of_word(word: &str) -> LockMode {
        match word {
            "s" => LockMode::Shared,
            "u" => LockMode::Upgradable,
            // A number that no client of ours can have becomes the largest.
            word => match word.strip_prefix('w') {
                Some(count) => LockMode::Permits(count.parse().unwrap_or(u32::MAX)),
                None => LockMode::Exclusive,
            },
        }
    }

    /// Returns how many permits; 0 for any other way.
    pub(crate) fn permits(self) -> u32 {
        match self {
            LockMode::Permits(count) => count,
            _ => 0,
        }
    }

    /// Returns what a holder in this way shows to a protected resource. `None`: no number that we grant.
    pub(crate) fn sequencer(self, name: &Name, fence: Fence, owner: &str) -> Option<Sequencer> {
        let owner = match self {
            LockMode::Exclusive | LockMode::Permits(_) => owner,
            // Readers that hold together have one fencing token.
            LockMode::Shared | LockMode::Upgradable => Sequencer::SHARED,
        };
        Sequencer::new(name.clone(), fence, owner).ok()
    }

    /// What a request comes to while its owner holds the name in this way.
    pub(crate) fn beside(self, asked: LockMode) -> Beside {
        use Beside::{Apart, Covered, WaitsForItself};
        use LockMode::{Exclusive, Permits, Shared, Upgradable};
        match (self, asked) {
            (Exclusive, Exclusive) | (Exclusive | Shared | Upgradable, Shared) => Covered,
            (Permits(_), Permits(_)) => Apart,
            (Shared, Exclusive) => WaitsForItself(
                "release the read first and then check again what was read, or write from the beginning",
            ),
            (Upgradable, Exclusive) => WaitsForItself("upgrade the lease that it holds"),
            (_, Upgradable) => WaitsForItself("use the lease that it holds, or release it first"),
            (_, Permits(_)) => WaitsForItself("release that lease before it takes permits"),
            (Permits(_), _) => WaitsForItself("release the permits first"),
        }
    }
}

#[cfg(test)]
mod lock_mode_tests {
    use super::*;

    /// Rows: held. Columns: asked for. `=` costs no request, `+` is a hold of its own, `x` would wait for itself.
    #[test]
    fn the_table_of_modes() {
        use LockMode::{Exclusive, Permits, Shared, Upgradable};
        let all = [Exclusive, Shared, Upgradable, Permits(1)];
        let table = [
            (Exclusive, "==xx"),
            (Shared, "x=xx"),
            (Upgradable, "x=xx"),
            (Permits(2), "xxx+"),
        ];
        for (held, row) in table {
            let seen = all.map(|asked| match held.beside(asked) {
                Beside::Covered => '=',
                Beside::Apart => '+',
                Beside::WaitsForItself(_) => 'x',
            });
            assert_eq!(String::from_iter(seen), row, "{held:?}");
        }
    }
}
