//! A kind of lock, as a table: the scripts in which it differs from the others.
//!
//! The engine waits, batches, renews and cleans up in one way for all kinds. A primitive brings its scripts and names
//! them here; what a script takes and answers stands in [`calls`](super::calls) and [`grant`](super::grant).

use std::fmt;

use crate::script::Script;

/// The scripts of one primitive, and what it can do beside being acquired, extended and released.
pub(crate) struct Kind {
    /// As messages call it: "mutex".
    pub(crate) name: &'static str,
    /// The keys beside the lock that `acquire`, `release` and `cancel` take, in this order.
    pub(crate) side_keys: &'static [&'static str],
    pub(crate) acquire: Step,
    pub(crate) extend: Script,
    pub(crate) release: Step,
    pub(crate) cancel: Step,
    /// Releases with the lock's own key alone, for the time when the others are not beside it.
    pub(crate) release_alone: Option<&'static Script>,
    /// Reads a waiter's position; without it, every poll is a whole request.
    pub(crate) position: Option<Script>,
    /// Writes a lease once more, so that replicas can be waited for.
    pub(crate) confirm: Option<Script>,
    /// Gives a lease another token, under which another process continues it.
    pub(crate) detach: Option<Script>,
    /// Leaves the holder's note beside a lease.
    pub(crate) note: Option<Script>,
    /// Many requests in one call; without them, each request is a call of its own.
    pub(crate) batch: Option<BatchScripts>,
    /// True if a grant can pass from task to task of one client without a request.
    pub(crate) local_hand_over: bool,
    /// True if the lock is a string with its holder's token, on which the servers of a quorum can vote.
    pub(crate) votes: bool,
}

/// A step that grants or makes room for a grant, and so has another script in strict mode.
pub(crate) struct Step {
    plain: Script,
    strict: Script,
}

/// Many requests in one call.
pub(crate) struct BatchScripts {
    pub(crate) acquire_many: Script,
    pub(crate) extend_many: Script,
    pub(crate) release_many: Script,
}

impl Step {
    pub(crate) const fn new(plain: Script, strict: Script) -> Self {
        Step { plain, strict }
    }

    /// Returns the script to run.
    pub(crate) fn script(&self, is_strict: bool) -> &Script {
        if is_strict { &self.strict } else { &self.plain }
    }
}

impl Kind {
    /// Lists every script of the kind.
    #[cfg(feature = "redis")]
    pub(crate) fn scripts(&'static self) -> impl Iterator<Item = &'static Script> {
        let steps = [&self.acquire, &self.release, &self.cancel];
        let steps = steps
            .into_iter()
            .flat_map(|step| [&step.plain, &step.strict]);
        let singles = [&self.position, &self.confirm, &self.detach, &self.note];
        let batch = self
            .batch
            .iter()
            .flat_map(|batch| [&batch.acquire_many, &batch.extend_many, &batch.release_many]);
        steps
            .chain(std::iter::once(&self.extend))
            .chain(singles.into_iter().flatten())
            .chain(batch)
    }
}

impl PartialEq for Kind {
    /// Each kind is one `static`.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Kind {}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
