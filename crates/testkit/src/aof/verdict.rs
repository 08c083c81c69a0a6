//! What the files say of all grants.

use std::collections::BTreeMap;
use std::fmt;

/// What is wrong with the number of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A grant before has the same number, or a larger one.
    NotLarger,
    /// A reader joins readers of a server before with their number, and a grant since then has a larger one: the failover
    /// has lost that grant and kept the readers.
    JoinsBehind,
    /// Readers that hold at the same time have two numbers.
    Unlike,
    /// There is none, or none that the same request minted.
    Missing,
}

/// A grant whose number is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub fault: Fault,
    /// Of the lock.
    pub name: String,
    /// The grant, its number, and the one that it is compared with.
    pub what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {}", self.fault, self.name, self.what)
    }
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Exclusive grants with a number.
    pub alone: u64,
    /// Those of readers.
    pub readers: u64,
    /// Those of permits.
    pub permits: u64,
    /// How often a number of a holder went to another token, by name.
    pub passed_on: BTreeMap<String, u64>,
    /// How often all keys were lost, in all files; that of a replica repeats it.
    pub flushes: u64,
    /// What is wrong, in order.
    pub wrong: Vec<Wrong>,
}

impl Verdict {
    /// All grants with a number.
    pub fn grants(&self) -> u64 {
        self.alone + self.readers + self.permits
    }

    pub(super) fn pass_on(&mut self, name: &str) {
        *self.passed_on.entry(name.to_owned()).or_default() += 1;
    }

    /// How often this is wrong.
    pub fn count(&self, fault: Fault) -> usize {
        let its = |wrong: &&Wrong| wrong.fault == fault;
        self.wrong.iter().filter(its).count()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} grants ({} alone, {} to readers, {} of permits), {} passed on, {} flushes, {} wrong",
            self.grants(),
            self.alone,
            self.readers,
            self.permits,
            self.passed_on.values().sum::<u64>(),
            self.flushes,
            self.wrong.len()
        )
    }
}
