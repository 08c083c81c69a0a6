//! Who is behind a lease or a queue entry.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use leaselock_fence::Name;

use super::clock;
use super::printable::printable;
#[cfg(feature = "serde")]
use super::serde_units::unix_ms;

pub(crate) const TEXT_MAX: usize = 200;
/// The longest record in bytes, as in `lua/client/who.lua`.
const RECORD_MAX: usize = 4096;

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
    /// The user that runs it, by its environment; `uid 1000` when that names none.
    pub user: Option<String>,
    /// The version of its leaselock.
    pub version: Option<String>,
    /// What holds its leases for it: the verb of the command `leaselock`, as `run`.
    pub via: Option<String>,
    /// Names whose [schedules](crate::cron) it runs.
    pub serves: Vec<Name>,
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
            user: None,
            version: None,
            via: None,
            serves: Vec::new(),
        }
    }

    /// Describes this process, under the given name or that of its program.
    pub(crate) fn this(client: &str, name: Option<String>, via: Option<String>) -> Self {
        let host = rustix::system::uname();
        let program = || {
            let path = std::env::current_exe().ok()?;
            Some(path.file_name()?.to_string_lossy().into_owned())
        };
        let shown = |text: &str| Some(tame(text, TEXT_MAX));
        Process {
            host: shown(&host.nodename().to_string_lossy()),
            pid: Some(std::process::id()),
            name: shown(&name.or_else(program).unwrap_or_default()),
            started: clock::from_unix_ms(clock::wall_us() / 1000),
            user: shown(&user(&["LOGNAME", "USER"])),
            version: shown(env!("CARGO_PKG_VERSION")),
            via: via.as_deref().and_then(shown),
            ..Process::unknown(client.to_owned())
        }
    }

    /// Encodes what others read: four lines of known order, and behind them a word and its value on each.
    pub(crate) fn encode(&self) -> String {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let mut record = format!(
            "{}\n{}\n{}\n{}",
            text(&self.host),
            self.pid.unwrap_or_default(),
            text(&self.name),
            self.started.map_or(0, unix_ms)
        );
        let single = [
            ("user", &self.user),
            ("version", &self.version),
            ("via", &self.via),
        ];
        let single = single.into_iter();
        let single = single.filter_map(|(word, value)| Some((word, value.as_deref()?)));
        let serves = self.serves.iter().map(|name| ("serves", name.as_str()));
        for (word, value) in single.chain(serves) {
            if record.len() + word.len() + value.len() + 2 <= RECORD_MAX {
                record.extend(["\n", word, " ", value]);
            }
        }
        record
    }

    /// Decodes a record; `None` for text that no client writes. Words of a later version are passed over.
    pub(crate) fn decode(record: &str) -> Option<Self> {
        let shown = |text: &str| Some(tame(text, TEXT_MAX));
        let mut lines = record.split('\n');
        let mut process = Process {
            host: shown(lines.next()?),
            pid: Some(lines.next()?.parse().ok()?),
            name: shown(lines.next()?),
            started: clock::from_unix_ms(lines.next()?.parse().ok()?),
            ..Process::unknown(String::new())
        };
        for (word, value) in lines.filter_map(|line| line.split_once(' ')) {
            match word {
                "user" => process.user = shown(value),
                "version" => process.version = shown(value),
                "via" => process.via = shown(value),
                "serves" => process.serves.extend(Name::new(value)),
                _ => {}
            }
        }
        Some(process)
    }
}

fn unix_ms(time: SystemTime) -> u128 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis())
}

/// Returns who runs this process, as `alice@office`; behind sudo, who has called that.
pub fn operator() -> String {
    let host = rustix::system::uname();
    let user = user(&["SUDO_USER", "LOGNAME", "USER"]);
    format!("{user}@{}", host.nodename().to_string_lossy())
}

/// Returns the user of this process by the first of these variables that is set, else by its number.
fn user(variables: &[&str]) -> String {
    let mut named = variables.iter().flat_map(std::env::var);
    let named = named.find(|name| !name.is_empty());
    named.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.pid, &self.host) {
            (Some(name), Some(pid), Some(host)) => write!(f, "{name}[{pid}] on {host}"),
            _ => write!(f, "client {}", tame(&self.client, TEXT_MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this() -> Process {
        Process {
            serves: ["nightly", "two words"]
                .map(|name| Name::new(name).unwrap())
                .into(),
            ..Process::this("", Some("report".into()), Some("run".into()))
        }
    }

    #[test]
    fn a_process_is_decoded_as_it_was_encoded() {
        let this = this(); // once: it has the time in it
        assert_eq!(Process::decode(&this.encode()), Some(this));
        let bare = Process::decode("vm\n7\nreport\n1500").unwrap();
        assert_eq!(Process::decode(&bare.encode()), Some(bare));
    }

    #[test]
    fn a_record_stays_short_however_many_schedules_its_client_serves() {
        let names = (0..1000).map(|number| Name::new(format!("{number:0>100}")).unwrap());
        let many = Process {
            serves: names.collect(),
            ..this()
        };
        let record = many.encode();
        let read = Process::decode(&record).unwrap();
        assert!(
            record.len() <= RECORD_MAX && read.serves.len() > 30,
            "{record}"
        );
        assert_eq!(read.serves[..], many.serves[..read.serves.len()]);
    }

    #[test]
    fn hostile_records_are_made_safe_or_refused() {
        let hostile = format!("host\u{1b}[31m\n7\n{}\n1", "x".repeat(10_000));
        let shown = Process::decode(&hostile).unwrap();
        assert_eq!(shown.host.unwrap(), "host\u{fffd}[31m");
        assert_eq!(shown.name.unwrap().len(), TEXT_MAX);
        for bad in ["", "a\nb\nc\n1", "a\n1\nc"] {
            assert_eq!(Process::decode(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn lines_of_a_later_version_are_passed_over() {
        let this = this();
        let later = format!("{}\ncolour blue\nlonely", this.encode());
        assert_eq!(Process::decode(&later), Some(this));
    }
}
