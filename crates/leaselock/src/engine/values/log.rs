//! The event log: an entry, its text on the store, and the requests that write and read entries.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use leaselock_fence::{Fence, Name};

use super::calls::operation;
use crate::base::clock;
use crate::base::printable::printable;
use crate::base::process::tame;
#[cfg(feature = "serde")]
use crate::base::serde_units::at_unix_ms;
use crate::quorum::tally::{TallyVerdict, Votable, Votes};
use crate::script::{Malformed, Script, Scripts, Value, script};

/// So many entries are kept, the newest, and for how long after the latest.
pub(crate) const KEPT: u64 = 1_000;
const KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// So many are written at once, because one call removes as many.
pub(crate) const AT_ONCE: usize = 8;
/// The longest text of an entry, in bytes.
const ENTRY_MAX: usize = 1024;
/// The longest id and name of a process in it.
const PART_MAX: usize = 200;
/// The longest text of an entry that is read: strangers may write any.
const READ_MAX: usize = 1024;

/// An entry of the event log: see [`Client::log`](crate::Client::log).
///
/// It is not proven: every client that may take a lock may write one. Show it, do not trust it; its texts are
/// [printable]. `Display` is `broken by alice@host: stuck since 3`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LogEntry {
    /// When the store got it, by the store's clock; of a majority, the earliest. Of an [event](crate::Client::events),
    /// when it happened by this machine's clock.
    #[cfg_attr(feature = "serde", serde(rename = "at_unix_ms", with = "at_unix_ms"))]
    pub at: SystemTime,
    /// What happened, as a word such as `lost` or `broken`; `unknown` for text that is no entry.
    pub kind: String,
    /// Tells it from others of its kind. What several clients see has the same id, and is one entry.
    pub id: String,
    /// The name that it is about.
    pub name: Option<String>,
    /// The fencing token of the lease that it is about.
    pub fence: Option<Fence>,
    /// The id of the client that wrote it; `None` when several may have.
    pub client: Option<String>,
    /// Who did it.
    pub by: Option<String>,
    /// What is to be said of it.
    pub text: String,
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if let Some(by) = &self.by {
            write!(f, " by {by}")?;
        }
        match self.text.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.text),
        }
    }
}

impl LogEntry {
    /// Reads what a client has written; text that is no entry is shown as it is.
    fn read(entry: &str, at_ms: u64) -> LogEntry {
        let fields = fields(entry);
        let unknown = || BTreeMap::from([("text".to_owned(), entry.to_owned())]);
        let mut fields = fields.unwrap_or_else(unknown);
        let mut take = |key: &str| fields.remove(key).map(|text| tame(&text, READ_MAX));
        let fence = take("fence").and_then(|fence| fence.parse().ok());
        LogEntry {
            at: clock::from_unix_ms(at_ms).unwrap_or(SystemTime::UNIX_EPOCH),
            kind: take("kind").unwrap_or_else(|| "unknown".to_owned()),
            id: take("id").unwrap_or_default(),
            name: take("name"),
            fence: fence.map(Fence::new),
            client: take("client"),
            by: take("by"),
            text: take("text").unwrap_or_default(),
        }
    }
}

/// An event, before it is written.
#[derive(Debug, Default)]
pub(crate) struct LogEvent {
    kind: &'static str,
    fact: Option<String>,
    name: Option<Name>,
    fence: Option<Fence>,
    by: Option<String>,
    text: String,
}

impl LogEvent {
    pub(crate) fn new(kind: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        LogEvent {
            kind,
            text,
            ..LogEvent::default()
        }
    }

    pub(crate) fn of(mut self, name: &Name, fence: Option<Fence>) -> Self {
        (self.name, self.fence) = (Some(name.clone()), fence);
        self
    }

    pub(crate) fn by(mut self, who: impl Into<String>) -> Self {
        self.by = Some(who.into());
        self
    }

    /// Several clients see it: they all write one entry, by this fact, of which the text says no more.
    pub(crate) fn fact(mut self, fact: impl fmt::Display) -> Self {
        self.fact = Some(fact.to_string());
        self
    }

    /// Returns it as it is shown to listeners of the client that saw it.
    pub(crate) fn entry(&self, client: &str, number: u64) -> LogEntry {
        let shown = |text: &str| tame(text, READ_MAX);
        LogEntry {
            at: clock::from_unix_ms(clock::wall_us() / 1000).unwrap_or(SystemTime::UNIX_EPOCH),
            kind: self.kind.to_owned(),
            client: self.fact.is_none().then(|| client.to_owned()),
            id: self.id(client, number),
            name: self.name.as_ref().map(|name| shown(name.as_str())),
            fence: self.fence,
            by: self.by.as_deref().map(shown),
            text: shown(&self.text),
        }
    }

    fn id(&self, client: &str, number: u64) -> String {
        (self.fact.clone()).unwrap_or_else(|| format!("{client}-{number}"))
    }

    /// Writes it as a client's event of this number.
    pub(crate) fn encode(&self, client: &str, number: u64) -> String {
        let mut entry = String::from("{");
        put(&mut entry, "id", &self.id(client, number), PART_MAX);
        put(&mut entry, "kind", self.kind, PART_MAX);
        if let Some(name) = &self.name {
            put(&mut entry, "name", name.as_str(), usize::MAX);
        }
        if let Some(fence) = self.fence {
            entry.push_str(&format!("\"fence\":{fence},"));
        }
        if self.fact.is_none() {
            put(&mut entry, "client", client, PART_MAX);
        }
        if let Some(by) = &self.by {
            put(&mut entry, "by", by, PART_MAX);
        }
        // `"text":"` and `"}`, and a last character of several bytes.
        let left = ENTRY_MAX.saturating_sub(entry.len() + 16);
        put(&mut entry, "text", &self.text, left);
        entry.pop();
        entry.push('}');
        entry
    }
}

/// Appends a field of at most so many bytes. What is printable needs an escape for two characters only.
fn put(entry: &mut String, key: &str, value: &str, most: usize) {
    entry.push_str(&format!("\"{key}\":\""));
    let begin = entry.len();
    for c in printable(value).chars() {
        if entry.len() - begin >= most {
            break;
        }
        if matches!(c, '"' | '\\') {
            entry.push('\\');
        }
        entry.push(c);
    }
    entry.push_str("\",");
}

/// Reads an object of texts and numbers; nothing for any other text.
fn fields(entry: &str) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut rest = entry.trim().strip_prefix('{')?.strip_suffix('}')?;
    loop {
        let (key, behind) = text(rest.trim_start().strip_prefix('"')?)?;
        rest = behind.trim_start().strip_prefix(':')?.trim_start();
        let (value, behind) = match rest.strip_prefix('"') {
            Some(value) => text(value)?,
            None => {
                let (value, behind) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                (value.trim().to_owned(), behind)
            }
        };
        found.insert(key, value);
        match behind.trim_start().strip_prefix(',') {
            Some(next) => rest = next,
            None => return behind.trim().is_empty().then_some(found),
        }
    }
}

/// Reads a text up to its closing quote, and returns what is behind it. An escape that no entry of ours has is not shown.
fn text(quoted: &str) -> Option<(String, &str)> {
    let (mut text, mut chars) = (String::new(), quoted.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((text, &quoted[at + 1..])),
            '\\' => match chars.next()?.1 {
                c @ ('"' | '\\' | '/') => text.push(c),
                _ => text.push(char::REPLACEMENT_CHARACTER),
            },
            c => text.push(c),
        }
    }
    None
}

pub(crate) static SCRIPTS: Scripts = &[&NOTE_EVENTS, &READ_LOG];

static NOTE_EVENTS: Script = script!("log/note");
static READ_LOG: Script = script!("log/read", reads_only);

operation! {
    /// Writes entries. Runs `lua/log/note.lua`.
    pub(crate) struct NoteEvents<'a> {
        events: &'a str,
        entries: &'a [String],
    }
    script &NOTE_EVENTS;
    votes elsewhere;
    fn encode(call) {
        call.key(events).arg(KEPT).arg(KEPT_MS);
        call.args(entries.iter());
    }
    fn decode(answer) -> () {
        "noted" => (),
    }
}

impl Votable for NoteEvents<'_> {
    /// Every node gets them, and one is enough to be read.
    fn count(votes: &Votes<()>) -> TallyVerdict<()> {
        match votes.silent() == 0 && votes.count(|()| true) > 0 {
            true => TallyVerdict::Decided(()),
            false => TallyVerdict::Open,
        }
    }
}

operation! {
    /// Reads the newest entries. Runs `lua/log/read.lua`.
    pub(crate) struct ReadLog<'a> {
        events: &'a str,
        /// How old an entry may be.
        back: Duration,
        most: u64,
    }
    script &READ_LOG;
    votes elsewhere;
    fn encode(call) {
        call.key(events).arg((*back).min(Duration::from_millis(KEPT_MS))).arg(*most);
    }
    fn decode(answer) -> Written {
        "entries" => answer.array(0)?.chunks_exact(2).map(written).collect::<Result<_, _>>()?,
    }
}

/// The entries as they lie there, each with its time in milliseconds.
pub(crate) type Written = BTreeMap<String, u64>;

/// Returns them as entries, the newest last.
pub(crate) fn entries(written: &Written) -> Vec<LogEntry> {
    let read = written.iter();
    let mut all: Vec<LogEntry> = read
        .map(|(entry, at_ms)| LogEntry::read(entry, *at_ms))
        .collect();
    all.sort_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
    all
}

fn written(pair: &[Value]) -> Result<(String, u64), Malformed> {
    let [Value::Bytes(entry), Value::Bytes(at_ms)] = pair else {
        return Err(Malformed);
    };
    let at_ms = String::from_utf8_lossy(at_ms).parse();
    let entry = String::from_utf8_lossy(entry).into_owned();
    Ok((entry, at_ms.map_err(|_| Malformed)?))
}

impl Votable for ReadLog<'_> {
    /// What any node has, each entry once, as soon as all have replied that do.
    fn count(votes: &Votes<Written>) -> TallyVerdict<Written> {
        if votes.silent() > 0 || votes.answers().next().is_none() {
            return TallyVerdict::Open;
        }
        let mut all = Written::new();
        for (entry, at_ms) in votes.answers().flat_map(|(_, written)| written) {
            let earliest = all.entry(entry.clone()).or_insert(*at_ms);
            *earliest = (*earliest).min(*at_ms);
        }
        TallyVerdict::Decided(all)
    }
}

#[cfg(test)]
mod tests;
