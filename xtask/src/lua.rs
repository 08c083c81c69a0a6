//! `cargo xtask lua`: every script's header says what its body and its Rust half do.
//!
//! A script is read by people who know Lua, people who know Rust, and people who write a client in
//! a third language. The header is what they share, so a program sees to it that it stays true.

mod body;
mod commands;
mod constants;
mod fragment;
mod header;
mod includes;
mod markers;
mod readme;
mod rules;
mod rust;
mod sources;

use std::fs;
use std::io;
use std::path::Path;

use self::sources::Sources;
use crate::complaint::{Complaint, report};
use crate::files;

const README: &str = "crates/leaselock/lua/README.md";

/// Checks all scripts and the tables of them, or writes the tables.
pub(crate) fn run(write: bool) -> Result<String, String> {
    let root = files::root();
    let sources = Sources::load(&root);
    let mut found = check(&sources);
    if found.is_empty() && !sources.scripts.is_empty() {
        let table = readme::table(&sources.scripts, &sources.fragments);
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

/// What the rules find in another tree, apart from the table.
pub(crate) fn complaints(root: &Path) -> Vec<Complaint> {
    check(&Sources::load(root))
}

fn compare(there: io::Result<String>, wanted: &str) -> Option<Complaint> {
    let made = ("the headers", "cargo xtask lua --write");
    Complaint::of_page(README, &there.unwrap_or_default(), wanted, made)
}

/// Every rule on every script.
fn check(sources: &Sources) -> Vec<Complaint> {
    let mut found = Vec::new();
    let mut shared = rust::SharedDecoders::default();
    for script in &sources.scripts {
        rules::check(script, &sources.fragments, &mut found);
        includes::check(script, &sources.fragments, &mut found);
        commands::check(&script.file.path, &script.code(), &mut found);
        rust::check_decoder(script, &sources.rust, &mut shared, &mut found);
    }
    shared.check(&sources.rust, &mut found);
    sources.fragments.check(&mut found);
    for (path, tokens) in sources.fragments.tokens() {
        commands::check(path, tokens, &mut found);
    }
    constants::check(sources, &mut found);
    commands::check_whitelist(sources, &mut found);
    found
}

#[cfg(test)]
mod tests;
