//! Who is behind a lease or a queue entry.

use std::fmt;
use std::time::SystemTime;

use super::printable::printable;
#[cfg(feature = "serde")]
use super::serde_units::unix_ms;

pub(crate) const TEXT_MAX: usize = 200;

/// Makes text from a store safe to show: at most `most` characters of it, and no others are read.
pub fn tame(text: &str, most: usize) -> String {
    let end = text.char_indices().nth(most);
    printable(&text[..end.map_or(text.len(), |(at, _)| at)]).into_owned()
}

/// The process behind a lease or a queue entry, by its own description. It is not proven: show it, do not trust it.
///
/// `Display` is `report[27293] on vm`, or the id of the client when nothing more is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Process {
    /// The id of its client.
    pub client: String,
    /// Host name.
    pub host: Option<String>,
    /// Process id on that host.
    pub pid: Option<u32>,
    /// Name of the process.
    pub name: Option<String>,
    /// When the client was built, by that host's clock.
    #[cfg_attr(feature = "serde", serde(rename = "started_unix_ms", with = "unix_ms"))]
    pub started: Option<SystemTime>,
}

impl Process {
    /// Creates a process of which only the id of its client is known.
    pub(crate) fn unknown(client: String) -> Self {
        Process {
            client,
            host: None,
            pid: None,
            name: None,
            started: None,
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.pid, &self.host) {
            (Some(name), Some(pid), Some(host)) => write!(f, "{name}[{pid}] on {host}"),
            _ => write!(f, "client {}", tame(&self.client, TEXT_MAX)),
        }
    }
}
