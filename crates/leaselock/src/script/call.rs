//! An atomic step as a Rust value: the text of its script, its keys and arguments, and what its answer means.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::answer::{Answer, Malformed};
use super::keyspace::Keyspace;
use crate::base::error::{ErrorKind, Result, StoreError};
use crate::base::token::Token;

/// The same step as a script, for its plain cases.
///
/// The Lua file decides; the shortcut gives the same result with a tenth of the work. It leaves every other case to the
/// Lua: it returns `None`, and has changed nothing.
pub(crate) type Shortcut = fn(&Parameters, &mut dyn Keyspace) -> Option<Answer>;

/// A script: one file under `lua/`, joined with the fragments it uses.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    /// The file, with its markers.
    text: &'static str,
    /// True with the lines for strict mode, which make it another script for a server.
    strict: bool,
    /// True if it only reads: a folder runs it without its lock, a server as a function that does not write.
    pub(crate) reads_only: bool,
    /// The plain cases without Lua, where the script has such.
    pub(crate) shortcut: Option<Shortcut>,
    /// The joined text, built on first use.
    source: OnceLock<String>,
    /// The SHA-1 by which a Redis server knows it, computed on first use.
    pub(crate) sha1: OnceLock<String>,
    /// As what its requests are counted, found on first use.
    pub(crate) counted_as: OnceLock<usize>,
}

impl Script {
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Script {
            name,
            text,
            strict: false,
            reads_only: false,
            shortcut: None,
            source: OnceLock::new(),
            sha1: OnceLock::new(),
            counted_as: OnceLock::new(),
        }
    }

    pub(crate) const fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    pub(crate) const fn reads_only(mut self) -> Self {
        self.reads_only = true;
        self
    }

    /// Adds the plain cases without Lua.
    pub(crate) const fn shortcut(mut self, shortcut: Shortcut) -> Self {
        self.shortcut = Some(shortcut);
        self
    }

    pub(crate) fn source(&self) -> &str {
        self.source.get_or_init(|| joined(self.text, self.strict))
    }
}

/// Creates the value of `lua/NAME.lua`, for a `static`: plain, with its lines for strict mode, or read-only.
macro_rules! script {
    ($name:literal) => {
        $crate::script::call::script!(@of $name, $name)
    };
    ($name:literal, strict) => {
        $crate::script::call::script!(@of concat!($name, ".strict"), $name, strict)
    };
    ($name:literal, reads_only) => {
        $crate::script::call::script!(@of $name, $name, reads_only)
    };
    (@of $name:expr, $file:literal $(, $kind:ident)?) => {
        $crate::script::Script::new($name, $crate::script::call::lua!($file))$(.$kind())?
    };
}
pub(crate) use script;

macro_rules! lua {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/lua/", $name, ".lua"))
    };
}
pub(crate) use lua;

/// Lists the functions that scripts share, each in a file of this name.
macro_rules! fragments {
    ($($name:literal)+, $($other:literal = $text:expr)+) => { &[$(($name, lua!($name)),)+ $(($other, $text),)+] };
}
const FRAGMENTS: &[Fragment] = fragments![
    "prelude" "inline/broken" "inline/holder" "inline/mint" "inline/now" "inline/number" "many" "fence" "permits_many" "queue" "member"
        "holds" "grant" "handover" "proposal" "callers" "gate"
        "gate_queue" "broadcast" "kind" "leader" "latch" "barrier" "limiter" "once" "cron",
        "fence_checker" = leaselock_fence::redis::ADMIT // also for scripts of users, so it is that crate's
];

/// A file of functions that scripts include: its name, without `.lua`, and its text.
type Fragment = (&'static str, &'static str);

/// The prefix of the lines that say how a script is joined.
///
/// - `--#include prelude fence`: inserts these fragments. The cases above it run without them: creating their functions
///   costs more than a plain acquisition.
/// - `--#inline mint`: inserts `inline/mint`, lines without a function, in a function or above all of them.
/// - `--#strict` and `--#end`: the lines between them are for strict mode only.
/// - `--#plain` and `--#end`: the lines between them serve plain cases, as the lines below them would.
const MARKER: &str = "--#";

fn joined(text: &str, strict: bool) -> String {
    let (mut all, mut left_out) = (String::new(), false);
    for line in text.split_inclusive('\n') {
        match line.trim_end().strip_prefix(MARKER) {
            Some("strict") => left_out = !strict,
            Some("end") => left_out = false,
            Some("plain") => {}
            _ if left_out => {}
            Some(marker) => included(marker).for_each(|text| all += &joined(text, strict)),
            None => all.push_str(line),
        }
    }
    all
}

/// Returns the text of a file without its plain cases, for the test that compares both.
#[cfg(test)]
pub(crate) fn without_plain_cases(text: &str) -> String {
    let mut is_plain = false;
    let mut general = String::new();
    for line in text.split_inclusive('\n') {
        is_plain = line == "--#plain\n" || is_plain;
        if !is_plain {
            general.push_str(line);
        }
        is_plain &= line != "--#end\n";
    }
    general
}

/// Returns the texts that `include prelude fence` names.
fn included(marker: &str) -> impl Iterator<Item = &'static str> {
    let (how, names) = marker.split_once(' ').unwrap_or_default();
    names.split_whitespace().map(move |name| {
        let is = |known: &str| match how {
            "inline" => known.strip_prefix("inline/") == Some(name),
            _ => known == name,
        };
        let text = FRAGMENTS.iter().find(|(known, _)| is(known));
        text.map_or(UNKNOWN, |(_, text)| *text)
    })
}

/// Stands for a fragment that does not exist: the server refuses the script, and a test finds it before that.
pub(crate) const UNKNOWN: &str = "error: unknown fragment\n";

/// Lists the scripts of a primitive, for callers that need all of them.
pub(crate) type Scripts = &'static [&'static Script];

/// An atomic step of a primitive.
pub(crate) trait Operation {
    type Reply: Send + 'static;
    fn script(&self) -> &'static Script;
    /// Writes keys and arguments in the order of the script's header.
    fn encode(&self, call: &mut Call);
    /// Reads every tag of the header, and no other.
    fn decode(answer: &Answer) -> Result<Self::Reply, Malformed>;

    /// Returns the server's time in the answer, in microseconds, if the step carries it.
    fn time_us(_answer: &Answer) -> Option<u64> {
        None
    }

    fn call(&self) -> Call {
        let mut call = Call::of(self.script());
        self.encode(&mut call);
        call
    }

    /// Reads an answer; one that is not understood may come from a step that was taken.
    fn read(script: &Script, answer: &Answer) -> Result<Self::Reply> {
        Self::decode(answer).map_err(|Malformed| {
            let script = script.name;
            StoreError::unknown(
                ErrorKind::Malformed,
                format!("unexpected reply to {script}: is something else listening there, or a proxy in between?"),
            )
        })
    }
}

/// A key, and the answer to the call about it if the store has read its lock for the list.
pub(crate) type Listed = (String, Option<Answer>);

/// One call of one script, for a store to run.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    pub(crate) parameters: Parameters,
    /// The script for the most important part, on the first key alone with the same arguments, when the keys are in
    /// several slots.
    pub(crate) alone: Option<&'static Script>,
    /// A waiter is probably told by this call: its message is to leave before the reply.
    pub(crate) message_first: bool,
}

/// Tokens are among the arguments, so `Debug` hides them.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Call({} {:?}, {} args)",
            self.script.name,
            self.parameters.keys().collect::<Vec<_>>(),
            self.parameters.count() - self.parameters.key_count()
        )
    }
}

impl Call {
    pub(crate) fn of(script: &'static Script) -> Self {
        Call {
            script,
            parameters: Parameters {
                framed: Vec::with_capacity(256), // enough for nearly every call, so that it does not grow step by step
                count: 0,
                keys: 0,
            },
            alone: None,
            message_first: false,
        }
    }

    /// Returns a call with the same arguments for a script that needs the first key only.
    pub(crate) fn on_first_key(&self, script: &'static Script) -> Call {
        let mut call = Call::of(script);
        self.parameters.keys().take(1).for_each(|key| {
            call.key(key);
        });
        call.args(self.parameters.args());
        call
    }

    /// Adds a key; keys precede arguments.
    pub(crate) fn key(&mut self, key: impl Arg) -> &mut Self {
        self.parameters.push_key(key);
        self
    }

    pub(crate) fn keys<W: Arg>(&mut self, keys: impl Iterator<Item = W>) {
        for key in keys {
            self.key(key);
        }
    }

    pub(crate) fn args<W: Arg>(&mut self, args: impl Iterator<Item = W>) {
        args.for_each(|arg| self.parameters.push(arg));
    }

    pub(crate) fn arg(&mut self, arg: impl Arg) -> &mut Self {
        self.parameters.push(arg);
        self
    }
}

/// Keys and arguments in one allocation, because a batch has hundreds.
#[derive(Clone)]
pub(crate) struct Parameters {
    /// All of them in sequence, each after its length.
    framed: Vec<u8>,
    count: usize,
    /// How many of them are keys; the others are arguments.
    keys: usize,
}

impl Parameters {
    fn push(&mut self, word: impl Arg) {
        let unknown = 0_usize.to_ne_bytes();
        let start = self.framed.len() + unknown.len();
        self.framed.extend_from_slice(&unknown);
        word.write_to(&mut self.framed);
        let length = (self.framed.len() - start).to_ne_bytes();
        self.framed[start - length.len()..start].copy_from_slice(&length);
        self.count += 1;
    }

    fn push_key(&mut self, key: impl Arg) {
        debug_assert_eq!(self.keys, self.count, "a key behind an argument");
        self.push(key);
        self.keys += 1;
    }

    /// Iterates over keys and arguments, as a server gets them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let mut rest = self.framed.as_slice();
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first_chunk()?;
            let (word, left) = behind.split_at(usize::from_ne_bytes(*length));
            rest = left;
            Some(word)
        })
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.iter().take(self.keys).map(text)
    }

    /// Iterates over the arguments; one that is no text is empty here.
    pub(crate) fn args(&self) -> impl Iterator<Item = &str> + Clone {
        self.arg_bytes().map(text)
    }

    pub(crate) fn arg_bytes(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.iter().skip(self.keys)
    }

    pub(crate) fn key_count(&self) -> usize {
        self.keys
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns their total length, at most.
    pub(crate) fn bytes(&self) -> usize {
        self.framed.len()
    }
}

/// Reads a word that was written as text.
fn text(word: &[u8]) -> &str {
    std::str::from_utf8(word).unwrap_or_default()
}

/// A key or an argument that is written into a call.
///
/// Not by `Display`, whose machinery costs a short call as much as all else.
pub(crate) trait Arg {
    fn write_to(&self, text: &mut Vec<u8>);
}

impl<W: Arg + ?Sized> Arg for &W {
    fn write_to(&self, text: &mut Vec<u8>) {
        (**self).write_to(text);
    }
}

macro_rules! as_bytes {
    ($($Text:ty),+) => {
        $(impl Arg for $Text {
            fn write_to(&self, text: &mut Vec<u8>) {
                text.extend_from_slice(self.as_bytes());
            }
        })+
    };
}
as_bytes!(str, String, Arc<str>, Token);

/// Bytes of any value, for arguments that are no text.
impl Arg for [u8] {
    fn write_to(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(self);
    }
}

/// Writes decimal digits.
impl Arg for u64 {
    fn write_to(&self, text: &mut Vec<u8>) {
        let (mut digits, mut rest, mut first) = ([b'0'; 20], *self, 20);
        loop {
            first -= 1;
            digits[first] += (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        text.extend_from_slice(&digits[first..]);
    }
}

/// In whole milliseconds.
impl Arg for Duration {
    fn write_to(&self, text: &mut Vec<u8>) {
        u64::try_from(self.as_millis())
            .unwrap_or(u64::MAX)
            .write_to(text);
    }
}

#[cfg(test)]
mod source_tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn fragments_stand_where_the_file_says_so_and_lines_for_strict_mode_only_there() {
        let text = "-- a\n--#strict\n--#include gate\nfront()\n--#end\nplain()\n--#include prelude many\nrest()\n";
        let [prelude, many, gate] = ["prelude", "many", "gate"].map(|name| {
            let found = FRAGMENTS.iter().find(|(known, _)| *known == name);
            joined(found.unwrap().1, false)
        });
        let as_it_is = format!("-- a\nplain()\n{prelude}{many}rest()\n");
        assert_eq!(Script::new("a", text).source(), as_it_is);
        let strict = format!("-- a\n{gate}front()\nplain()\n{prelude}{many}rest()\n");
        assert_eq!(Script::new("a", text).strict().source(), strict);
    }

    #[test]
    fn every_fragment_that_a_script_asks_for_is_known_and_each_is_asked_for() {
        let mut asked = BTreeSet::new();
        asked_for_in(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("lua"),
            &mut asked,
        );
        let known = FRAGMENTS.iter().map(|(name, _)| (*name).to_owned());
        assert_eq!(asked, known.collect());
    }

    fn asked_for_in(folder: &Path, asked: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                asked_for_in(&path, asked);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let markers = text.lines().filter_map(|line| line.strip_prefix(MARKER));
            for marker in markers.filter(|marker| !matches!(*marker, "strict" | "plain" | "end")) {
                let (how, names) = marker.split_once(' ').unwrap();
                let folder = ["", "inline/"][usize::from(how == "inline")];
                asked.extend(
                    names
                        .split_whitespace()
                        .map(|name| format!("{folder}{name}")),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_arguments_are_told_apart_and_numbers_are_digits() {
        static SCRIPT: Script = Script::new("test", "").reads_only();
        let mut call = Call::of(&SCRIPT);
        call.key("one").key("");
        call.arg(0).arg(u64::MAX).arg(1_000).arg("ü");
        let parameters = &call.parameters;
        assert_eq!(parameters.keys().collect::<Vec<_>>(), ["one", ""]);
        let args: Vec<_> = parameters.args().collect();
        assert_eq!(args, ["0", "18446744073709551615", "1000", "ü"]);
        assert_eq!(
            (
                parameters.key_count(),
                parameters.count(),
                parameters.iter().count()
            ),
            (2, 6, 6)
        );
    }
}
