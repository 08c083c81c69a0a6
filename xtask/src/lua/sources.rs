//! The scripts, their shared pieces and the library's code, read once for all rules.

use std::collections::BTreeSet;
use std::path::Path;

use super::fragment::Fragments;
use super::header::Header;
use super::markers::{FENCE_FOLDER, FOLDER, Include, Marked, name_of};
use crate::files::{self, File};
use crate::lex::{Language, Token, lex};

pub(super) const WHITELIST: &str = "crates/leaselock/src/store/embedded/whitelist.rs";

/// A file in a subfolder of `lua/`: one operation.
#[derive(Debug)]
pub(super) struct Script {
    /// Such as `mutex/acquire`.
    pub(super) name: String,
    pub(super) file: File,
    pub(super) header: Header,
    /// The code, without header and comments, and without what is there in strict mode only.
    pub(super) body: Vec<Token>,
    /// The code that is there in strict mode only. Its answers and keys are in the same header.
    pub(super) front: Vec<Token>,
    /// Where which fragments stand.
    pub(super) includes: Vec<Include>,
    /// Markers that mean nothing, and where.
    pub(super) wrong_markers: Vec<(usize, String)>,
}

impl Script {
    fn parse(file: File) -> Script {
        let marked = Marked::parse(&file.text);
        Script {
            name: name_of(&file).to_owned(),
            header: Header::parse(&file.text),
            body: lex(&marked.plain, Language::Lua),
            front: lex(&marked.strict, Language::Lua),
            includes: marked.includes,
            wrong_markers: marked.wrong,
            file,
        }
    }

    /// Of a way of locking that other programs share on a server: the embedded store does not run it.
    pub(super) fn is_for_servers(&self) -> bool {
        self.header.summary.text().ends_with("On servers only.")
    }

    /// All that a server may run.
    pub(super) fn code(&self) -> Vec<Token> {
        [self.front.as_slice(), &self.body].concat()
    }
}

/// Everything the rules read.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) scripts: Vec<Script>,
    pub(super) fragments: Fragments,
    /// The library's sources, as tokens.
    pub(super) rust: Vec<(String, Vec<Token>)>,
}

impl Sources {
    pub(super) fn load(root: &Path) -> Sources {
        let lua = [FOLDER, FENCE_FOLDER].map(|folder| files::below(root, folder));
        Sources::parse(lua.concat(), files::below(root, "crates/leaselock/src"))
    }

    /// Files directly in `lua/` are fragments, and so is what a script includes of a subfolder; all others are scripts.
    pub(super) fn parse(lua: Vec<File>, rust: Vec<File>) -> Sources {
        let lua = lua.into_iter().filter(|file| file.path.ends_with(".lua"));
        let (inlines, mut lua): (Vec<File>, Vec<File>) =
            lua.partition(|file| name_of(file).starts_with("inline/"));
        for file in &mut lua {
            file.text = with_inlines(&file.text, &inlines);
        }
        let marked = lua.iter().map(|file| Marked::parse(&file.text));
        let included: BTreeSet<String> = marked
            .flat_map(|marked| marked.includes)
            .flat_map(|include| include.names)
            .collect();
        let (scripts, fragments): (Vec<File>, Vec<File>) = lua.into_iter().partition(|file| {
            let name = name_of(file);
            name.contains('/') && !included.contains(name)
        });
        let rust = rust.into_iter().filter(|file| file.path.ends_with(".rs"));
        Sources {
            scripts: scripts.into_iter().map(Script::parse).collect(),
            fragments: Fragments::parse(fragments),
            rust: rust
                .map(|file| (file.path, lex(&file.text, Language::Rust)))
                .collect(),
        }
    }
}

/// The text with the lines of each inline file where its marker stands, as one line, so that line numbers stay right.
///
/// The time that such a file reads is not that of the script.
fn with_inlines(text: &str, inlines: &[File]) -> String {
    let mut all = String::new();
    for line in text.split_inclusive('\n') {
        let name = line.trim_end().strip_prefix("--#inline ");
        let found = name.and_then(|name| {
            let path = format!("inline/{name}");
            inlines.iter().find(|file| name_of(file) == path)
        });
        let Some(file) = found else {
            all.push_str(line);
            continue;
        };
        let code = file.text.lines().map(|line| {
            let code = line.split("--").next().unwrap_or_default().trim();
            code.replace("redis.call('TIME')", "{}")
        });
        all.push_str(&code.collect::<Vec<_>>().join(" "));
        all.push('\n');
    }
    all
}
