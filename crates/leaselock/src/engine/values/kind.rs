//! A kind of lock, as a table of the scripts in which it differs from other kinds.
//!
//! The engine waits, batches, renews and cleans up in the same way for all kinds. A primitive has one table of this
//! type in its own folder. [`calls`](super::calls) encodes the requests of the scripts, [`grant`](super::grant) decodes
//! their replies.

use crate::base::debug_as;
use crate::script::Script;

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
    /// The side keys that `release` takes behind those of all three.
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
