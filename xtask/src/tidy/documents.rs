//! Rules about documents, licences and what a published crate carries with it.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::complaint::Complaint;
use crate::files::File;

const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

pub(super) fn check(root: &Path, all: &[File], found: &mut Vec<Complaint>) {
    for file in all.iter().filter(|file| file.path.ends_with(".md")) {
        // What a link points to is checked where it lies; from the link's own place its links lead elsewhere.
        if !root.join(&file.path).is_symlink() {
            links(root, file, found);
        }
    }
    licences(root, all, found);
    readmes(all, found);
}

/// A link that leads nowhere is worse than none: the reader gives up on the page.
fn links(root: &Path, file: &File, found: &mut Vec<Complaint>) {
    for (line, target) in link_targets(&file.text) {
        let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        let inside = resolve(&folder.join(&target));
        let complaint = |wrong: String, right| Complaint::new(&file.path, line, wrong, right);
        match inside {
            None => found.push(complaint(
                format!("the link to {target:?} leaves the repository"),
                "name the page by its address on the web",
            )),
            Some(path) if !root.join(&path).exists() => found.push(complaint(
                format!("the link to {target:?} leads nowhere"),
                "the path from this file to one that exists",
            )),
            Some(_) => {}
        }
    }
}

/// The targets of `[text](target)` that are files, without their anchors. Code is left out.
pub(super) fn link_targets(text: &str) -> Vec<(usize, String)> {
    let files = links_of(text).into_iter().map(|(number, target)| {
        let file = target.split('#').next().unwrap_or_default();
        (number, file.to_owned())
    });
    files.filter(|(_, file)| !file.is_empty()).collect()
}

/// The targets of `[text](target)` within the repository. Code is left out.
pub(super) fn links_of(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every second part stands between backticks.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for part in prose.split("](").skip(1) {
            let target = part.split(')').next().unwrap_or_default();
            let target = target.split(' ').next().unwrap_or_default();
            if !target.is_empty() && !target.contains(':') {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// The path without `..`; `None` when it climbs out of the repository.
pub(super) fn resolve(path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => resolved.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !resolved.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

/// Both licences ask to be handed on with every copy, and a published crate is a copy.
fn licences(root: &Path, all: &[File], found: &mut Vec<Complaint>) {
    let published = all.iter().filter(|file| {
        let manifest = file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml");
        manifest
            && !file
                .text
                .lines()
                .any(|line| line.trim() == "publish = false")
    });
    let crates = published.map(|file| file.path.trim_end_matches("Cargo.toml"));
    for folder in crates.chain([""]) {
        for licence in LICENCES {
            let path = format!("{folder}{licence}");
            let text = fs::read_to_string(root.join(&path)).unwrap_or_default();
            let original = fs::read_to_string(root.join(licence)).unwrap_or_default();
            if text.is_empty() || text != original {
                let right = "a link to the one at the root, which `cargo package` follows";
                found.push(Complaint::new(&path, 0, "is not the licence", right));
            }
        }
    }
}

/// The page of a published crate leaves the repository with it: its links to other files would be dead.
fn readmes(all: &[File], found: &mut Vec<Complaint>) {
    let pages = all
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/README.md"));
    for page in pages.filter(|page| page.path.matches('/').count() == 2) {
        for (line, target) in link_targets(&page.text) {
            let wrong = format!("the link to {target:?} is dead on a crate's page");
            let right = "the address on the web, or the name of the page in plain text";
            found.push(Complaint::new(&page.path, line, wrong, right));
        }
    }
}
