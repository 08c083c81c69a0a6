//! What a program or a script can call, against the pages: verbs of the command, public items, and fields of JSON.

use std::collections::BTreeSet;

use super::prose::outside_code;
use crate::complaint::Complaint;
use crate::files::File;

/// The page of the fields, the list that a test keeps, and what makes the one from the other.
const JSON: &str = "docs/json.md";
const FIELDS: &str = "crates/leaselock-cli/tests/snapshots/json-fields.txt";
const KINDS: [&str; 11] = [
    "const", "enum", "fn", "macro", "mod", "static", "struct", "trait", "type", "union", "use",
];

pub(super) fn check(all: &[File], found: &mut Vec<Complaint>) {
    verbs(all, found);
    items(all, found);
    fields(all, found);
}

/// The help of each verb is a file.
fn verbs(all: &[File], found: &mut Vec<Complaint>) {
    let pages: Vec<&File> = all.iter().filter(|file| is_page(&file.path)).collect();
    for file in all {
        let name = file
            .path
            .strip_prefix("crates/leaselock-cli/tests/snapshots/help-");
        let Some(verb) = name.and_then(|name| name.strip_suffix(".txt")) else {
            continue;
        };
        let forms = [format!("`{verb}`"), format!("`{verb} ")];
        let is_named = |page: &&File| forms.iter().any(|form| page.text.contains(form));
        if !pages.iter().any(is_named) {
            let wrong = format!("no page names the verb {verb:?}");
            found.push(Complaint::new(
                &file.path,
                0,
                wrong,
                "a row in docs/verbs.md",
            ));
        }
    }
}

/// A name counts in the code of a page, in the text of a module (`//!`), and in that of a module in `lib.rs`.
fn items(all: &[File], found: &mut Vec<Complaint>) {
    let mut names = BTreeSet::new();
    for file in all {
        let is_library = file.path.starts_with("crates/") && file.path.contains("/src/");
        if is_page(&file.path) {
            code(&file.text)
                .iter()
                .for_each(|code| names.extend(words(code)));
        } else if is_library && file.path.ends_with(".rs") {
            let marks: &[&str] = if file.path.ends_with("/src/lib.rs") {
                &["//!", "///"]
            } else {
                &["//!"]
            };
            let text = file.text.lines().map(str::trim_start);
            let text = text.filter(|line| marks.iter().any(|mark| line.starts_with(mark)));
            text.for_each(|line| names.extend(words(line)));
        }
    }
    // A preset's constant has the name that its page has, in capitals.
    let is_named = |path: &str| {
        let name = path.rsplit("::").next().unwrap_or(path);
        let small = name.to_lowercase().replace('_', "-");
        names.contains(name) || (name == name.to_uppercase() && names.contains(&*small))
    };
    let listings = all
        .iter()
        .filter(|file| file.path.ends_with("/public-api.txt"));
    for listing in listings {
        let mut seen = BTreeSet::new();
        for (line, text) in (1..).zip(listing.text.lines()) {
            let Some(path) = item(text).filter(|path| seen.insert(*path) && !is_named(path)) else {
                continue;
            };
            let wrong = format!("no page names `{path}`");
            let right =
                "a word in docs/types.md, in the page of its part, or in the text of its module";
            found.push(Complaint::new(&listing.path, line, wrong, right));
        }
    }
}

/// The path of the item that a line of the listing declares.
fn item(line: &str) -> Option<&str> {
    let (_, declared) = line.split_once("pub ")?;
    let mut words = declared
        .split(' ')
        .skip_while(|word| ["async", "unsafe"].contains(word))
        .peekable();
    let kind = words.next().filter(|kind| KINDS.contains(kind))?;
    words.next_if(|word| kind == "const" && *word == "fn");
    let path = words.next()?.split(['(', '<']).next()?;
    Some(path.trim_end_matches([':', '!'])).filter(|path| !path.is_empty())
}

/// Compares the list on the page with the snapshot, and the table with the names in it.
fn fields(all: &[File], found: &mut Vec<Complaint>) {
    let Some(((_, wanted), page)) = with_fields(all).zip(all.iter().find(|file| file.path == JSON))
    else {
        return;
    };
    let made = (FIELDS, "cargo xtask tidy --write");
    found.extend(Complaint::of_page(JSON, &page.text, &wanted, made));
    let lines = wanted.lines().filter(|line| line.starts_with('.'));
    let paths = lines.filter_map(|line| line.split(':').next());
    let names: BTreeSet<&str> = paths
        .flat_map(|path| path.split('.'))
        .map(|name| name.trim_end_matches("[]"))
        .collect();
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        if !page.text.contains(&format!("\n| `{name}` | ")) {
            let wrong = format!("does not say what `{name}` means");
            found.push(Complaint::new(JSON, 0, wrong, "a row in its table"));
        }
    }
}

/// The page with the fields that the snapshot has.
pub(super) fn with_fields(all: &[File]) -> Option<(String, String)> {
    let text = |path: &str| {
        all.iter()
            .find(|file| file.path == path)
            .map(|file| &*file.text)
    };
    let (before, rest) = text(JSON)?.split_once("\n```text\n")?;
    let (_, after) = rest.split_once("\n```\n")?;
    let page = format!(
        "{before}\n```text\n{}\n```\n{after}",
        text(FIELDS)?.trim_end()
    );
    Some((JSON.to_owned(), page))
}

fn is_page(path: &str) -> bool {
    path == "README.md" || (path.starts_with("docs/") && path.ends_with(".md"))
}

/// What stands in blocks of code and between backticks.
fn code(text: &str) -> Vec<&str> {
    let prose = outside_code(text);
    let numbers: BTreeSet<usize> = prose.iter().map(|(number, _)| *number).collect();
    let blocks = (1..)
        .zip(text.lines())
        .filter(|(number, _)| !numbers.contains(number));
    let spans = prose
        .iter()
        .flat_map(|(_, line)| line.split('`').skip(1).step_by(2));
    blocks.map(|(_, line)| line).chain(spans).collect()
}

/// Words, also those with dashes.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let whole = text.split(move |c| !is_part(c));
    whole.chain(text.split(move |c| !is_part(c) && c != '-'))
}
