//! Rules about the words of pages and comments.
//!
//! A reader searches for the standard term, and a home-made word hides the page from that search. `words.rs` has the
//! words that this project once made up, each with the term to write; `docs/glossary.md` explains the terms.

mod text;
mod words;

use self::text::Line;
pub(super) use self::text::outside_code;
use self::words::OLD;
use crate::complaint::Complaint;
use crate::files::File;

/// The pages for users and maintainers. Of a changelog the rule reads the part that is not released; the rest is history.
const PAGES: [&str; 11] = [
    ".github/",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/",
    "crates/leaselock-cli/README.md",
    "crates/leaselock-cron/README.md",
    "crates/leaselock-fence/README.md",
    "crates/leaselock-tower/README.md",
];

/// Folders whose rustdoc is on docs.rs.
const LIBRARIES: [&str; 4] = [
    "crates/leaselock/src/",
    "crates/leaselock-cron/src/",
    "crates/leaselock-fence/src/",
    "crates/leaselock-tower/src/",
];

pub(super) fn check(all: &[File], found: &mut Vec<Complaint>) {
    let under = |path: &str, starts: &[&str]| starts.iter().any(|start| path.starts_with(start));
    for file in all {
        if file.path.ends_with(".md") && under(&file.path, &PAGES) {
            headerless_tables(file, found);
            old_words(file, text::of_page(file), found);
        }
        old_words(file, text::of_comments(file), found);
        if under(&file.path, &LIBRARIES) {
            pages_in_rustdoc(file, found);
        }
    }
}

/// On docs.rs there are no pages: what a reader needs stands in the text, or in that of an item.
fn pages_in_rustdoc(file: &File, found: &mut Vec<Complaint>) {
    for (number, line) in (1..).zip(file.text.lines()) {
        let is_page = |word: &str| word.contains("docs/") && !word.contains("://");
        let line = line.trim_start();
        let is_rustdoc = ["///", "//!"].iter().any(|start| line.starts_with(start));
        if is_rustdoc && line.split_whitespace().any(is_page) {
            let right = "say it here, link to an item, or give the address on the web";
            let wrong = "names a page that docs.rs does not have";
            found.push(Complaint::new(&file.path, number, wrong, right));
        }
    }
}

/// Names each old word with its line, and the standard term.
pub(super) fn old_words(file: &File, lines: Vec<Line>, found: &mut Vec<Complaint>) {
    for line in lines {
        let prose = words::without_allowed(&line.prose);
        for (forms, instead) in OLD {
            for form in forms.iter().filter(|form| words::contains(&prose, form)) {
                let wrong = format!("says {form:?}");
                let right = format!("the standard term: {instead}");
                found.push(Complaint::new(&file.path, line.number, wrong, right));
            }
        }
    }
}

/// GitHub shows rows without a header as raw text with pipes.
fn headerless_tables(file: &File, found: &mut Vec<Complaint>) {
    let lines = text::outside_code(&file.text);
    let is_row = |at: usize| lines.get(at).is_some_and(|(_, line)| line.starts_with('|'));
    for (at, (number, _)) in lines.iter().enumerate() {
        let begins = is_row(at) && (at == 0 || !is_row(at - 1));
        let next = lines.get(at + 1).map_or("", |(_, line)| *line);
        let ruled =
            next.starts_with('|') && next.contains("---") && !next.contains(char::is_alphanumeric);
        if begins && !ruled {
            let right = "a header row and a row of dashes: GitHub shows raw pipes otherwise";
            found.push(Complaint::new(
                &file.path,
                *number,
                "a table without a header",
                right,
            ));
        }
    }
}

#[cfg(test)]
mod tests;
