//! `cargo xtask tidy`: the repository's rules that no compiler or linter knows.
//!
//! Every complaint says what would be right; every rule says here or at its function why it is one.

mod code;
mod documents;
mod text;

use crate::complaint::{Complaint, report};
use crate::files::{self, File};

/// Checks the whole repository and collects all complaints before it fails.
pub(crate) fn run() -> Result<String, String> {
    let root = files::root();
    let all = files::below(&root, "");
    let mut found = check(&all);
    documents::check(&root, &all, &mut found);
    report(found, &format!("tidy ({} files)", all.len()))
}

/// The rules that need nothing but the texts.
fn check(all: &[File]) -> Vec<Complaint> {
    let mut found = Vec::new();
    for file in all {
        let source = Source::of(file);
        if source.is_code() {
            text::check(&source, &mut found);
        }
        if file.path.ends_with(".rs") {
            code::check(&source, &mut found);
        }
    }
    found
}

/// A file and what its place says about it.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    path: &'a str,
    text: &'a str,
}

impl<'a> Source<'a> {
    fn of(file: &'a File) -> Source<'a> {
        Source {
            path: &file.path,
            text: &file.text,
        }
    }

    fn is_code(&self) -> bool {
        let endings = [".rs", ".lua", ".toml", ".sh", ".ci/run"];
        endings.iter().any(|ending| self.path.ends_with(ending))
    }

    /// Files of tests only: integration tests, `tests.rs` beside a module, and the test kit.
    fn is_test(&self) -> bool {
        let folder = self.path.contains("/tests/") || self.path.starts_with("crates/testkit/");
        folder || self.path.ends_with("/tests.rs")
    }

    /// The line from which on the file holds unit tests; behind its end when it holds none.
    fn tests_from(&self) -> usize {
        if self.is_test() {
            return 0;
        }
        let marked = self
            .text
            .lines()
            .position(|line| line.trim() == "#[cfg(test)]");
        marked.map_or(usize::MAX, |index| index + 1)
    }

    fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

#[cfg(test)]
mod tests;
