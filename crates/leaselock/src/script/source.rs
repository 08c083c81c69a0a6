//! The text of one `.lua` file, joined with the fragments it uses.

use std::sync::OnceLock;

/// A script: one file under `lua/`, joined with the fragments it uses.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    /// The file, with its markers.
    text: &'static str,
    /// With the lines for strict mode, which makes it another script to a server.
    strict: bool,
    /// Changes nothing, so a folder runs it without its lock and a server takes it for a function that does not write.
    pub(crate) reads_only: bool,
    /// What a store runs, joined on first use.
    source: OnceLock<String>,
    /// The SHA-1 by which a Redis server knows it, computed on first use.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "only servers cache scripts")
    )]
    pub(crate) sha1: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Script {
            name,
            text,
            strict: false,
            reads_only: false,
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

    /// What a store runs.
    pub(crate) fn source(&self) -> &str {
        self.source.get_or_init(|| joined(self.text, self.strict))
    }
}

/// The value of `lua/NAME.lua`: as it is, with its lines for strict mode, or as one that changes nothing.
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
    (@of $name:expr, $file:literal $(, $kind:ident)?) => {{
        static SCRIPT: $crate::script::Script =
            $crate::script::Script::new($name, $crate::script::source::lua!($file))$(.$kind())?;
        &SCRIPT
    }};
}
pub(crate) use script;

macro_rules! lua {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/lua/", $name, ".lua"))
    };
}
pub(crate) use lua;

/// The functions that scripts share, each in a file of this name.
macro_rules! fragments {
    ($($name:literal)+) => { &[$(($name, lua!($name)),)+] };
}
const FRAGMENTS: &[(&str, &str)] =
    fragments!["prelude" "many" "fence" "queue" "mutex/grant" "proposal" "callers" "gate"];

/// How the lines begin that say how a script is joined:
///
/// - `--#include prelude fence`: here stand these fragments. What stands above is served without them: making their
///   functions costs more than a plain acquisition.
/// - `--#strict` and `--#end`: what stands between them is there in strict mode only.
const MARKER: &str = "--#";

/// The text of a script with its fragments.
fn joined(text: &str, strict: bool) -> String {
    let (mut joined, mut left_out) = (String::new(), false);
    for line in text.split_inclusive('\n') {
        match line.trim_end().strip_prefix(MARKER) {
            Some("strict") => left_out = !strict,
            Some("end") => left_out = false,
            _ if left_out => {}
            Some(marker) => joined.extend(included(marker)),
            None => joined.push_str(line),
        }
    }
    joined
}

/// The texts that `include prelude fence` asks for.
fn included(marker: &str) -> impl Iterator<Item = &'static str> {
    let names = marker.strip_prefix("include ").unwrap_or_default();
    let texts = names.split_whitespace().map(|name| {
        let known = FRAGMENTS.iter().find(|(known, _)| *known == name);
        known.map(|(_, text)| *text)
    });
    texts.flatten()
}

/// The scripts of a noun, for whoever needs all there are.
#[cfg(feature = "redis")]
pub(crate) type Scripts = &'static [fn() -> &'static Script];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn fragments_stand_where_the_file_says_so_and_lines_for_strict_mode_only_there() {
        let text = "-- a\n--#strict\n--#include gate\nfront()\n--#end\nplain()\n--#include prelude many\nrest()\n";
        let [prelude, many, gate] = ["prelude", "many", "gate"].map(|name| {
            FRAGMENTS
                .iter()
                .find(|(known, _)| *known == name)
                .unwrap()
                .1
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
            for marker in markers.filter(|marker| !matches!(*marker, "strict" | "end")) {
                let names = marker.strip_prefix("include ").unwrap();
                asked.extend(names.split_whitespace().map(str::to_owned));
            }
        }
    }
}
