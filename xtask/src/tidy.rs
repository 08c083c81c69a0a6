//! `cargo xtask tidy`: the repository's rules that no compiler or linter knows.
//!
//! Every complaint says what would be right; every rule says here or at its function why it is one.

mod anchors;
mod code;
mod documents;
mod lists;
mod prose;
mod source;
mod text;
mod times;

use std::fs;

use self::source::Source;
use crate::arrows;
use crate::complaint::{Complaint, report};
use crate::files::{self, File};

/// Checks the whole repository and collects all complaints before it fails.
pub(crate) fn run() -> Result<String, String> {
    let root = files::root();
    let all = files::below(&root, "");
    let mut found = check(&all);
    arrows::check(&all, &mut found);
    documents::check(&root, &all, &mut found);
    anchors::check(&all, &mut found);
    lists::check(&all, &mut found);
    prose::check(&all, &mut found);
    times::check(&all, &mut found);
    report(found, &format!("tidy ({} files)", all.len()))
}

/// Renews the pages that are made from the source.
pub(crate) fn write() -> Result<String, String> {
    let root = files::root();
    let mut found = Vec::new();
    let page = times::page(&files::below(&root, ""), &mut found);
    fs::write(root.join(times::PAGE), page).map_err(|error| format!("{}: {error}", times::PAGE))?;
    report(found, times::PAGE)
}

/// How much library there is.
pub(crate) fn count() -> Result<String, String> {
    Ok(arrows::count(&files::below(&files::root(), "")))
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

#[cfg(test)]
mod tests;
