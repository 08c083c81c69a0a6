//! What is run on a server, and what came of it.

/// What is run on each server: how the column of the table is called, which tests, and those of them that are meant.
pub(super) const PARTS: [(&str, Tests, &[&str]); 3] = [
    ("the promises", Tests::It, &["conformance::redis"]),
    (
        "scripts and connections",
        Tests::Lib,
        &[
            "script_tests",
            "store::redis::tests",
            "store::redis::doctor",
        ],
    ),
    (
        "users, TLS, functions",
        Tests::It,
        &["access::", "tls::", "functions::"],
    ),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tests {
    Lib,
    It,
}

/// How many tests of one part went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Outcome {
    pub(super) passed: u32,
    pub(super) failed: u32,
}

impl Outcome {
    /// From `test result: ok. 12 passed; 0 failed; …`.
    pub(super) fn read(said: &str) -> Option<Outcome> {
        let summary = said
            .lines()
            .find_map(|line| line.strip_prefix("test result: "))?;
        let number = |word: &str| {
            let words: Vec<&str> = summary.split([' ', ';']).collect();
            let place = words.iter().position(|found| *found == word)?;
            words.get(place.checked_sub(1)?)?.parse().ok()
        };
        Some(Outcome {
            passed: number("passed")?,
            failed: number("failed")?,
        })
    }
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) tls: bool,
    pub(super) outcomes: Vec<Outcome>,
}

impl Row {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_well(&self) -> bool {
        self.outcomes
            .iter()
            .all(|outcome| outcome.failed == 0 && outcome.passed > 0)
    }
}
