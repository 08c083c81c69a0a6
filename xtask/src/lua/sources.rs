//! The scripts, their shared pieces and the library's code, read once for all rules.

use std::path::Path;

use super::fragment::Fragments;
use super::header::Header;
use crate::files::{self, File};
use crate::lex::{Language, Token, lex};

pub(super) const FOLDER: &str = "crates/leaselock/lua";
/// How the name ends of the half of a script that stands behind its fragments.
const REST: &str = ".rest.lua";
/// How the name ends of the part that stands in front of a script in strict mode.
const STRICT: &str = ".strict.lua";
pub(super) const WHITELIST: &str = "crates/leaselock/src/store/embedded/whitelist.rs";

/// A file in a subfolder of `lua/`: one operation.
#[derive(Debug)]
pub(super) struct Script {
    /// Such as `mutex/acquire`.
    pub(super) name: String,
    pub(super) file: File,
    pub(super) header: Header,
    /// The code, without header and comments; of both halves, when there are two.
    pub(super) body: Vec<Token>,
    /// The code in front of it in strict mode. Its answers and keys are in the same header.
    pub(super) front: Vec<Token>,
}

impl Script {
    /// Of a way of locking that other programs share on a server: the embedded store does not run it.
    pub(super) fn is_for_servers(&self) -> bool {
        self.header.summary.text().ends_with("On servers only.")
    }

    /// All that a server may run.
    pub(super) fn code(&self) -> Vec<Token> {
        [self.front.as_slice(), &self.body].concat()
    }
}

/// Everything the rules look at.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) scripts: Vec<Script>,
    pub(super) fragments: Fragments,
    /// The library's sources, as tokens.
    pub(super) rust: Vec<(String, Vec<Token>)>,
}

impl Sources {
    pub(super) fn load(root: &Path) -> Sources {
        Sources::parse(
            files::below(root, FOLDER),
            files::below(root, "crates/leaselock/src"),
        )
    }

    /// Files directly in `lua/` are fragments, those in its subfolders are scripts, some in two halves.
    pub(super) fn parse(lua: Vec<File>, rust: Vec<File>) -> Sources {
        let prefix = format!("{FOLDER}/");
        let lua = lua.into_iter().filter(|file| file.path.ends_with(".lua"));
        let (scripts, fragments): (Vec<File>, Vec<File>) =
            lua.partition(|file| file.path.trim_start_matches(&prefix).contains('/'));
        let (rests, scripts): (Vec<File>, Vec<File>) = scripts
            .into_iter()
            .partition(|file| file.path.ends_with(REST));
        let (fronts, scripts): (Vec<File>, Vec<File>) = scripts
            .into_iter()
            .partition(|file| file.path.ends_with(STRICT));
        let script = |file: File| {
            let stem = file.path.trim_end_matches(".lua");
            let rest = rests
                .iter()
                .filter(|rest| rest.path.trim_end_matches(REST) == stem);
            let mut body = lex(&file.text, Language::Lua);
            body.extend(rest.flat_map(|rest| lex(&rest.text, Language::Lua)));
            let front = fronts
                .iter()
                .filter(|front| front.path.trim_end_matches(STRICT) == stem);
            let front = front.flat_map(|front| lex(&front.text, Language::Lua));
            Script {
                name: stem.trim_start_matches(&prefix).to_owned(),
                header: Header::parse(&file.text),
                body,
                front: front.collect(),
                file,
            }
        };
        let rust = rust.into_iter().filter(|file| file.path.ends_with(".rs"));
        Sources {
            scripts: scripts.into_iter().map(script).collect(),
            fragments: Fragments::parse(fragments),
            rust: rust
                .map(|file| (file.path, lex(&file.text, Language::Rust)))
                .collect(),
        }
    }
}
