//! The text of one `.lua` file, joined with the fragments it uses.

use std::sync::OnceLock;

use super::keyspace::Shortcut;

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
        $crate::script::source::script!(@of $name, $name)
    };
    ($name:literal, strict) => {
        $crate::script::source::script!(@of concat!($name, ".strict"), $name, strict)
    };
    ($name:literal, reads_only) => {
        $crate::script::source::script!(@of $name, $name, reads_only)
    };
    (@of $name:expr, $file:literal $(, $kind:ident)?) => {
        $crate::script::Script::new($name, $crate::script::source::lua!($file))$(.$kind())?
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
        "gate_queue" "broadcast" "leader" "latch" "barrier" "limiter" "once" "cron",
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

#[cfg(test)]
mod tests {
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
