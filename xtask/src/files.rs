//! The repository's files.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The repository's root. Asked at run time, so that worktrees may share a target folder.
pub(crate) fn root() -> PathBuf {
    let own =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&own)
        .parent()
        .expect("xtask lies in the repository")
        .to_owned()
}

/// Where results of builds go.
pub(crate) fn target() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    // A relative one is relative to where cargo was called, and commands run in the root.
    let root = root();
    target.map_or_else(|| root.join("target"), |target| root.join(target))
}

/// A file with its path from the root, with slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All files of text below `folder` in order; empty when the folder does not exist.
/// Build results and hidden folders are left out, apart from those that are ours.
pub(crate) fn below(root: &Path, folder: &str) -> Vec<File> {
    let mut found = Vec::new();
    visit(root, &root.join(folder), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn visit(root: &Path, folder: &Path, found: &mut Vec<File>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ours = [".ci", ".cargo", ".github"].contains(&&*name);
        if name == "target" || (name.starts_with('.') && !ours) {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            visit(root, &path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path = path.strip_prefix(root).expect("the walk began at the root");
            found.push(File {
                path: path.to_string_lossy().into_owned(),
                text,
            });
        }
    }
}
