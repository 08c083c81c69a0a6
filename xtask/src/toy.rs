//! `cargo xtask toy`: two primitives are written into a copy of the tree, as an author would add them: a lock, and a flag,
//! which holds nothing.
//!
//! Each touches its folders and its place in `lib.rs`, and nothing else; then the rules, the build and the suite that
//! every primitive keeps must hold. Whatever else a primitive needed to change would make this fail.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::Cargo;
use crate::complaint::Complaint;
use crate::files::{self, File};
use crate::{arrows, lua, servers};

const LIBRARY: &str = "crates/leaselock";
/// Where the toy's own files are, and where they go.
const FOLDERS: [(&str, &str); 4] = [
    ("xtask/toy/lua", "crates/leaselock/lua/toy"),
    ("xtask/toy/src", "crates/leaselock/src/toy"),
    ("xtask/toy/flag/lua", "crates/leaselock/lua/flag"),
    ("xtask/toy/flag/src", "crates/leaselock/src/flag"),
];
/// The place where a primitive is registered: each goes behind what the mutex or the latch has there.
const REGISTRATION: [(&str, &str); 5] = [
    ("\npub mod latch;", "\npub mod flag;"),
    ("\n    latch::SCRIPTS,", "\n    flag::SCRIPTS,"),
    ("\nmod mutex;", "\nmod toy;"),
    (
        "\npub use crate::mutex::Mutex;",
        "\npub use crate::toy::Toy;",
    ),
    ("\n    &mutex::MUTEX,", "\n    &toy::TOY,"),
];
/// The suite that every primitive keeps; what concerns names and not primitives is not in it.
const SUITE: [&str; 6] = [
    "engine.rs",
    "support.rs",
    "conformance/acquiring.rs",
    "conformance/holding.rs",
    "conformance/releasing.rs",
    "conformance/queueing.rs",
];
/// A promise about what the toy leaves out.
const LEFT_OUT: [&str; 1] = ["a_detached_lease_is_extended_and_released_by_another_client"];

/// Writes, registers, checks, builds and runs it.
pub(crate) fn run() -> Result<String, String> {
    let server = servers::find_or_fetch()?;
    let root = files::root();
    let copy = files::target().join("toy");
    let changed = write(&root, &copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    let registration = register(&copy)?;
    keeps_the_rules(&copy)?;
    let cargo = Cargo::new(&server).at(&copy);
    // The whole workspace, as for all tests: a package alone takes other features of its dependencies. But the suite is
    // run without TLS, whose helpers test no primitive, and the command would add that.
    cargo.run("clippy -q --workspace --all-features --lib -- -D warnings")?;
    cargo.run("test -q -p leaselock --features redis-connection,embedded --test toy")?;
    cargo.run("test -q --workspace --all-features --lib functions::")?;
    let lines = changed.join("\n  ");
    Ok(format!(
        "two primitives touch their own folders and one place:\n  {lines}\n{registration}"
    ))
}

/// Copies the tree and adds the toy's files; the paths of those, with their lines.
fn write(root: &Path, copy: &Path) -> std::io::Result<Vec<String>> {
    if copy.exists() {
        fs::remove_dir_all(copy)?;
    }
    for folder in ["crates", "xtask", "docs", "ops"] {
        copy_folder(&root.join(folder), &copy.join(folder))?;
    }
    for file in fs::read_dir(root)? {
        let file = file?;
        if file.file_type()?.is_file() {
            fs::copy(file.path(), copy.join(file.file_name()))?;
        }
    }
    let mut changed = Vec::new();
    for (from, to) in FOLDERS {
        for File { path, text } in files::below(root, from) {
            let to = path.replacen(from, to, 1);
            changed.push(format!("{to} ({} lines)", text.lines().count()));
            put(&copy.join(to), &text)?;
        }
    }
    let tests = copy.join(LIBRARY).join("tests");
    for file in SUITE {
        let text = fs::read_to_string(tests.join("it").join(file))?;
        put(&tests.join("toy").join(file), &of_the_toy(&text))?;
    }
    let conformance = fs::read_to_string(tests.join("it/conformance.rs"))?;
    put(
        &tests.join("toy/conformance.rs"),
        &of_the_toy(&suite(&conformance)),
    )?;
    for file in ["main.rs", "flag.rs"] {
        let text = fs::read_to_string(root.join("xtask/toy/tests").join(file))?;
        put(&tests.join("toy").join(file), &text)?;
    }
    Ok(changed)
}

/// The same test, of the toy in place of the mutex. Each task of the toy has a queue entry of its own.
fn of_the_toy(test: &str) -> String {
    let shared = "\"job\", 2).await; // one place for each client";
    let test = test.replace(shared, "\"job\", 4).await;");
    test.replace(".mutex(", ".toy(")
}

/// The promises on stores of one kind each, without those on a quorum, where a toy is not.
fn suite(conformance: &str) -> String {
    let end = conformance
        .find("// On a quorum")
        .unwrap_or(conformance.len());
    let lines = conformance[..end].lines();
    let kept = lines.filter(|line| !LEFT_OUT.contains(&line.trim()));
    let mut text: String = kept.map(|line| line.to_owned() + "\n").collect();
    if let (Some(first), Some(end)) = (text.find("        inspecting:"), text.rfind("    }\n}\n")) {
        text.replace_range(first..end, "");
    }
    // The promises of other primitives went with their sections.
    let is_used = |line: &str| {
        let module = line
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'));
        module.is_none_or(|module| text.contains(&format!("        {module}:")))
    };
    let kept = text.lines().filter(|line| is_used(line));
    kept.map(|line| line.to_owned() + "\n").collect()
}

/// Adds the toy's lines to `lib.rs`; what was added.
fn register(copy: &Path) -> Result<String, String> {
    let path = copy.join(LIBRARY).join("src/lib.rs");
    let mut text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let mut added = format!("  {LIBRARY}/src/lib.rs");
    for (mutex, toy) in REGISTRATION {
        if text.matches(mutex).count() != 1 {
            return Err(format!("lib.rs: `{}` is not there once", mutex.trim()));
        }
        text = text.replacen(mutex, &format!("{mutex}{toy}"), 1);
        added += &format!("\n    + {}", toy.trim());
    }
    fs::write(&path, text).map_err(|error| error.to_string())?;
    Ok(added)
}

/// The layers and the scripts' headers, as for every primitive.
fn keeps_the_rules(copy: &Path) -> Result<(), String> {
    let mut found = Vec::new();
    let mut all = files::below(copy, "crates");
    all.extend(files::below(copy, "xtask/src"));
    let page = fs::read_to_string(copy.join("ARCHITECTURE.md")).map_err(|e| e.to_string())?;
    all.push(File {
        path: "ARCHITECTURE.md".to_owned(),
        text: page.replace(arrows::BUDGETS, "### Other budgets"), // a primitive more is more lines
    });
    arrows::check(&all, &mut found);
    found.extend(lua::complaints(copy));
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = found.iter().map(Complaint::to_string).collect();
    Err(lines.join("\n"))
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target): (PathBuf, PathBuf) = (entry.path(), to.join(entry.file_name()));
        if entry.file_name() == "target" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}
