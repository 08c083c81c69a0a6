//! What the oracle has seen, and what was wrong with it.

use std::collections::BTreeMap;
use std::fmt;

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// I1: who holds alone excludes all others, and readers and permits exclude each other.
    Alone,
    /// I2: at most one reader may become exclusive.
    OneUpgradable,
    /// I3, P3: no client is granted before a waiter that is present and has come earlier, within its priority.
    Order,
    /// I4: after a step that makes room, the first waiter that is present does not fit, or was told.
    Idle,
    /// I5: an upgrade never lets go of its read, also when it is given up, and never ends before it would have.
    Upgrade,
    /// I6: the fencing token of each grant is larger than all before; readers have one of their own phase.
    Fence,
    /// P1: what is granted is never more than there are permits.
    Permits,
    /// P2: a permit comes back once: what `usage` says is what is held.
    Usage,
    /// A hold ends by a request that carries its token, by a break, or at its end; it is not shortened, nor extended
    /// when it is over, and its key lives as long.
    Lease,
    /// A message tells of a grant that was made, until no later than it lasts.
    Message,
    /// Strict mode: nothing is granted behind a closed gate, nor while a lease lasts that a server before has granted.
    Strict,
    /// The stream has lost commands.
    Gap,
}

/// A promise that was broken, and the commands that show it.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The promise.
    pub rule: Rule,
    /// Of this lock.
    pub name: String,
    /// What happened.
    pub what: String,
    /// The latest commands on this lock, the last one last.
    pub commands: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}: {}", self.rule, self.name, self.what)
    }
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Commands, of clients and of scripts.
    pub commands: u64,
    /// Scripts that ran on a lock, once for each lock that they ran on.
    pub operations: u64,
    /// How often each kind of step was seen.
    pub steps: BTreeMap<&'static str, u64>,
    /// How often a promise about waiters was compared, and how often whether a waiter was present stayed unknown.
    pub compared: u64,
    /// See [`Report::compared`].
    pub unknown: u64,
    /// What was wrong.
    pub violations: Vec<Violation>,
}

impl Report {
    /// How often this step was seen.
    pub fn count(&self, step: &str) -> u64 {
        self.steps.get(step).copied().unwrap_or_default()
    }

    pub(super) fn step(&mut self, step: &'static str) {
        *self.steps.entry(step).or_default() += 1;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let violations = self.violations.len();
        write!(
            f,
            "{} commands, {} operations, {violations} violations; order and idleness: {} compared, {} unknown",
            self.commands, self.operations, self.compared, self.unknown
        )?;
        for (step, count) in &self.steps {
            write!(f, "\n  {count:>9} {step}")?;
        }
        Ok(())
    }
}
