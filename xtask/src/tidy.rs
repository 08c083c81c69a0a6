//! `cargo xtask tidy`: the repository's rules that no compiler or linter knows.
//!
//! Every complaint says what would be right; every rule says here or at its function why it is one.

mod anchors;
mod code;
mod demo;
mod documents;
mod figures;
mod lists;
mod named;
mod pages;
mod prose;
mod source;
mod text;
mod times;

use std::fs;
use std::path::Path;

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
    demo::check(&all, &mut found);
    documents::check(&root, &all, &mut found);
    anchors::check(&all, &mut found);
    figures::check(&all, &mut found);
    lists::check(&all, &mut found);
    named::check(&all, &mut found);
    pages::check(&all, &mut found);
    prose::check(&all, &mut found);
    times::check(&all, &mut found);
    report(found, &format!("tidy ({} files)", all.len()))
}

/// Renews the pages that are made from the source.
pub(crate) fn write() -> Result<String, String> {
    let root = files::root();
    let mut found = Vec::new();
    let all = files::below(&root, "");
    let times = times::page(&all, &mut found);
    let made = [(times::PAGE.to_owned(), times)];
    let made = made
        .into_iter()
        .chain(named::with_fields(&all))
        .chain(demo::made(&all));
    let mut count = renew(&root, made)?;
    count += renew(&root, pages::with_navigation(&files::below(&root, "")))?;
    count += renew(&root, pages::lowered(&files::below(&root, "")))?;
    report(found, &format!("{count} files renewed"))
}

/// Writes those that are not as they should be, and counts them.
fn renew(root: &Path, made: impl IntoIterator<Item = (String, String)>) -> Result<usize, String> {
    let mut count = 0;
    for (path, text) in made {
        let problem = |error: std::io::Error| format!("{path}: {error}");
        let file = root.join(&path);
        if fs::read_to_string(&file).map_err(problem)? != text {
            fs::write(&file, text).map_err(problem)?;
            count += 1;
        }
    }
    Ok(count)
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
