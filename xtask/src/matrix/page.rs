//! The table on the page about compatibility.

use std::fs;

use super::row::{Outcome, PARTS, Row};
use crate::files;

const PAGE: &str = "docs/compatibility.md";
const BEGIN: &str = "| server |";

/// One row a server; the last column says whose TLS it was.
pub(super) fn table(rows: &[Row]) -> String {
    let parts = PARTS.map(|(title, _, _)| format!(" {title} |")).concat();
    let mut text = format!(
        "{BEGIN}{parts} TLS |\n|---|{}---|\n",
        "---|".repeat(PARTS.len())
    );
    for row in rows {
        let outcomes: String = row.outcomes.iter().map(cell).collect();
        let tls = if row.tls { "its own" } else { "in front of it" };
        text += &format!("| {} |{outcomes} {tls} |\n", row.name);
    }
    text
}

/// Without the number of tests: it would be another with each new promise.
fn cell(outcome: &Outcome) -> String {
    match outcome.failed {
        0 => " passed |".to_owned(),
        failed => format!(" **{failed} of {} failed** |", outcome.passed + failed),
    }
}

/// Puts the table in place of the one that is there.
pub(super) fn write(rows: &[Row]) -> Result<(), String> {
    let path = files::root().join(PAGE);
    let problem = |error: std::io::Error| format!("{PAGE}: {error}");
    let page = fs::read_to_string(&path).map_err(problem)?;
    let text = replaced(&page, &table(rows)).ok_or_else(|| format!("{PAGE} has no table"))?;
    fs::write(&path, text).map_err(problem)
}

fn replaced(page: &str, table: &str) -> Option<String> {
    let begin = page.find(BEGIN)?;
    let old: usize = page[begin..]
        .split_inclusive('\n')
        .take_while(|line| line.starts_with('|'))
        .map(str::len)
        .sum();
    Some(format!("{}{table}{}", &page[..begin], &page[begin + old..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_table_goes_and_the_rest_of_the_page_stays() {
        let rows = [Row {
            name: "Redis 1.2".to_owned(),
            tls: true,
            outcomes: vec![
                Outcome {
                    passed: 7,
                    failed: 0,
                },
                Outcome {
                    passed: 4,
                    failed: 1,
                },
                Outcome::default(),
            ],
        }];
        let page = "# Title\n\n| server | old |\n|---|---|\n| x | y |\n\nAfter.\n| other |\n";
        let new = replaced(page, &table(&rows)).unwrap();
        assert!(
            new.starts_with("# Title\n\n| server | the promises |"),
            "{new}"
        );
        assert!(new.contains("| Redis 1.2 | passed | **1 of 5 failed** | passed | its own |\n\nAfter.\n| other |\n"), "{new}");
        assert!(!new.contains("old") && replaced("no table", "").is_none());
    }
}
