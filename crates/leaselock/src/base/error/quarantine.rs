//! The reason of a quarantine in strict mode.

use std::fmt;

/// Why no new lease is granted for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Quarantine {
    /// The server has no gate, the key in which strict mode keeps its state.
    ///
    /// Strict mode was not set up here ([`Client::init_strict`](crate::Client::init_strict)), or the server lost its
    /// data, by a restart without persistence or by `FLUSHALL`.
    Missing,
    /// The gate was that of another server process: this one was restarted, or promoted.
    Moved,
}

impl Quarantine {
    pub(crate) fn from_answer(why: &str) -> Self {
        match why {
            "moved" => Quarantine::Moved,
            _ => Quarantine::Missing,
        }
    }
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Quarantine::Missing => {
                "this server has lost its data, or strict mode was not set up on it"
            }
            Quarantine::Moved => "another server process replies than before",
        })
    }
}
