//! One file under the rules.

use crate::files::File;

/// A file and what its place says about it.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

impl<'a> Source<'a> {
    pub(super) fn of(file: &'a File) -> Source<'a> {
        Source {
            path: &file.path,
            text: &file.text,
        }
    }

    pub(super) fn is_code(&self) -> bool {
        let endings = [".rs", ".lua", ".toml", ".sh", ".ci/run"];
        endings.iter().any(|ending| self.path.ends_with(ending))
    }

    /// Files of tests only: integration tests, `tests.rs` beside a module, and the test kit.
    pub(super) fn is_test(&self) -> bool {
        let folder = ["/tests/", "/script_tests/"]
            .iter()
            .any(|it| self.path.contains(it))
            || self.path.starts_with("crates/testkit/");
        folder || self.path.ends_with("/tests.rs")
    }

    /// The line from which on the file holds unit tests; behind its end when it holds none.
    pub(super) fn tests_from(&self) -> usize {
        if self.is_test() {
            return 0;
        }
        let marked = self
            .text
            .lines()
            .position(|line| line.trim() == "#[cfg(test)]");
        marked.map_or(usize::MAX, |index| index + 1)
    }

    pub(super) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}
