//! The owner of a lock that `run` holds: it waits for its job, so a `run` in the job is the same line of execution.

use leaselock::{Client, Owner};

use crate::ancestors::Ancestors;
use crate::job::OWNER;

/// A label is at most 200 characters.
const NAME_SHOWN: usize = 150;

/// The owner of the lock that `run` asks for.
pub(crate) struct JobOwner {
    pub(crate) owner: Owner,
    is_inherited: bool,
}

impl JobOwner {
    /// The owner of the `run` in whose job this process is, or one of its own.
    pub(crate) fn new(client: &Client, verb: &str, name: &str) -> JobOwner {
        let text = std::env::var(OWNER).ok().filter(|_| is_in_a_job());
        let inherited = text.and_then(|text| client.inherit_owner(&text).ok());
        JobOwner {
            is_inherited: inherited.is_some(),
            owner: inherited.unwrap_or_else(|| {
                let name = name.chars().filter(|c| !c.is_control()).take(NAME_SHOWN);
                client.owner(format!("leaselock {verb} {}", String::from_iter(name)))
            }),
        }
    }

    /// True if the job that it was inherited from has left this process behind, and waits for it no more.
    pub(crate) fn is_left_behind(&self) -> bool {
        self.is_inherited && !is_in_a_job()
    }

    /// What the job inherits.
    pub(crate) fn to_inherit(&self) -> Option<String> {
        (!self.is_left_behind()).then(|| self.owner.to_inherit())
    }
}

fn is_in_a_job() -> bool {
    Ancestors::of_this_process().are_there()
}
