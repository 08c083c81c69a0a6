//! The licences of the crates that are compiled into the binary, which ask to be handed on with it.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools::{host, stdout};

const HEAD: &str = "\
Software of others that is compiled into leaselock
==================================================

The binary is linked statically with the C library of GNU (glibc, LGPL 2.1 or later) and with the standard library of
Rust (MIT or Apache-2.0). leaselock comes with its source: `cargo build --release -p leaselock-cli` links it with the C
library of a machine in its place.

Crates, each with the licence that it names. Texts of licences follow; of each the crates that come with it.

";

/// A line for each crate, then each text once.
pub(super) fn text() -> Result<String, String> {
    let mut tree = Command::new("cargo");
    tree.args([
        "tree",
        "--locked",
        "-p",
        "leaselock-cli",
        "-e",
        "normal,no-proc-macro",
    ]);
    tree.args([
        "--prefix",
        "none",
        "--format",
        "{p}|{l}",
        "--target",
        &host()?,
    ]);
    let tree = stdout(&mut tree)?;
    let mut crates: Vec<(&str, &str)> = tree.lines().filter_map(parts).collect();
    crates.sort_unstable();
    crates.dedup();
    let sources = sources()?;
    let mut texts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut text = HEAD.to_owned();
    for (package, licence) in crates {
        text.push_str(&format!("{package}: {licence}\n"));
        let folder = package.replace(" v", "-");
        for found in sources
            .iter()
            .flat_map(|source| texts_in(&source.join(&folder)))
        {
            texts.entry(found).or_default().push(package);
        }
    }
    for (licence, packages) in texts {
        text.push_str(&format!(
            "\n==== {}\n\n{}\n",
            packages.join(", "),
            licence.trim_end()
        ));
    }
    Ok(text)
}

/// Name and version, and the licence. Our own crates have a path behind the version.
fn parts(line: &str) -> Option<(&str, &str)> {
    let (package, licence) = line.split_once('|')?;
    let licence = licence.trim_end_matches(" (*)");
    (!package.contains(" (/")).then_some((package, licence))
}

/// Where cargo unpacks the sources of each registry.
fn sources() -> Result<Vec<PathBuf>, String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let usual = || env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let home = home.or_else(usual).ok_or("HOME is not set")?;
    let folder = home.join("registry/src");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn texts_in(folder: &Path) -> Vec<String> {
    const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_text = |name: &str| {
        NAMES
            .iter()
            .any(|begin| name.to_uppercase().starts_with(begin))
    };
    let files = files.filter(|file| is_text(&file.file_name().to_string_lossy()));
    files
        .filter_map(|file| fs::read_to_string(file.path()).ok())
        .collect()
}
