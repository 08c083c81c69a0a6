//! `cargo xtask lua`: every script's header says what its body and its Rust half do.
//!
//! A script is read by people who know Lua, people who know Rust, and people who write a client in
//! a third language. The header is what they share, so a program sees to it that it stays true.

mod body;
mod commands;
mod fragment;
mod header;
mod readme;
mod rules;
mod rust;

use std::fs;
use std::io;
use std::path::Path;

use self::fragment::Fragments;
use self::header::Header;
use crate::complaint::{Complaint, report};
use crate::files::{self, File};
use crate::lex::{Language, Token, lex};

const FOLDER: &str = "crates/leaselock/lua";
const README: &str = "crates/leaselock/lua/README.md";
/// How the name ends of the half of a script that stands behind its fragments.
const REST: &str = ".rest.lua";
/// How the name ends of the part that stands in front of a script in strict mode.
const STRICT: &str = ".strict.lua";
const WHITELIST: &str = "crates/leaselock/src/store/embedded/whitelist.rs";

/// A file in a subfolder of `lua/`: one operation.
#[derive(Debug)]
pub(crate) struct Script {
    /// Such as `mutex/acquire`.
    name: String,
    file: File,
    header: Header,
    /// The code, without header and comments; of both halves, when there are two.
    body: Vec<Token>,
    /// The code in front of it in strict mode. Its answers and keys are in the same header.
    front: Vec<Token>,
}

impl Script {
    /// Of a way of locking that other programs share on a server: the embedded store does not run it.
    fn is_for_servers(&self) -> bool {
        self.header.summary.text().ends_with("On servers only.")
    }

    /// All that a server may run.
    fn code(&self) -> Vec<Token> {
        [self.front.as_slice(), &self.body].concat()
    }
}

/// Everything the rules look at.
#[derive(Debug)]
pub(crate) struct Sources {
    scripts: Vec<Script>,
    fragments: Fragments,
    /// The library's sources, as tokens.
    rust: Vec<(String, Vec<Token>)>,
}

impl Sources {
    fn load(root: &Path) -> Sources {
        Sources::parse(
            files::below(root, FOLDER),
            files::below(root, "crates/leaselock/src"),
        )
    }

    /// Files directly in `lua/` are fragments, those in its subfolders are scripts, some in two halves.
    fn parse(lua: Vec<File>, rust: Vec<File>) -> Sources {
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

    fn check(&self) -> Vec<Complaint> {
        let mut found = Vec::new();
        for script in &self.scripts {
            rules::check(script, &self.fragments, &mut found);
            commands::check(&script.file.path, &script.code(), &mut found);
            rust::check_decoder(script, &self.rust, &mut found);
        }
        self.fragments.check(&mut found);
        for (path, tokens) in self.fragments.tokens() {
            commands::check(path, tokens, &mut found);
        }
        commands::check_whitelist(self, &mut found);
        found
    }
}

/// Checks all scripts and the table of them, or writes the table.
pub(crate) fn run(write: bool) -> Result<String, String> {
    let root = files::root();
    let sources = Sources::load(&root);
    let mut found = sources.check();
    if found.is_empty() && !sources.scripts.is_empty() {
        let table = readme::table(&sources.scripts);
        if write {
            if let Err(error) = fs::write(root.join(README), table) {
                found.push(Complaint::new(
                    README,
                    0,
                    error.to_string(),
                    "make it writable",
                ));
            }
        } else {
            found.extend(compare(fs::read_to_string(root.join(README)), &table));
        }
    }
    let (scripts, fragments) = (sources.scripts.len(), sources.fragments.len());
    report(
        found,
        &format!("lua ({scripts} scripts, {fragments} fragments)"),
    )
}

fn compare(there: io::Result<String>, wanted: &str) -> Option<Complaint> {
    let there = there.unwrap_or_default();
    if there == wanted {
        return None;
    }
    let same = there
        .lines()
        .zip(wanted.lines())
        .take_while(|(a, b)| a == b)
        .count();
    let right = "run `cargo xtask lua --write` and look at what changed";
    Some(Complaint::new(
        README,
        same + 1,
        "is not what the headers say",
        right,
    ))
}

#[cfg(test)]
mod tests;
