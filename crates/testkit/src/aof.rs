//! The fencing tokens of all grants, judged from the append-only files of the servers that made them.
//!
//! Such a file has every effect in order, with the id that a mint was given, and what one script wrote stands between
//! `MULTI` and `EXEC`. [`Judge`] follows the holds of each name through the files and says which grant has a number that
//! is not larger than all before, or not that of the readers beside it.
//!
//! Files are read in the order in which the servers reigned. That of a replica repeats what the server before it wrote: a
//! grant with the same token and number is the same grant. `FLUSHALL` ends all holds, and no number.

mod judge;
mod name;
mod read;
mod verdict;

pub use self::judge::Judge;
pub use self::verdict::{Fault, Verdict, Wrong};
use crate::server::{Builder, Server};

impl Builder {
    /// Keeps an append-only file that [`Judge`] can read: all effects, and what it begins with as commands too. It
    /// outlives the process, and not the machine.
    pub fn effects_kept(self) -> Builder {
        self.config("appendonly", "yes")
            .config("appendfsync", "no")
            .config("aof-use-rdb-preamble", "no")
            .config("auto-aof-rewrite-percentage", "0")
    }
}

/// Whether the file has all that the server got from its primary: until then it is being written anew.
pub fn is_whole(server: &Server) -> bool {
    let number = |field| server.info_number("persistence", field);
    number("aof_enabled") == Some(1)
        && number("aof_rewrite_in_progress") == Some(0)
        && number("aof_rewrite_scheduled") == Some(0)
}

#[cfg(test)]
mod tests;
