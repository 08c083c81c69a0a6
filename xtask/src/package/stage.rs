//! What goes into the packages and is no file of the repository: the binary, and what it prints of itself.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::licences;
use super::tools::{host, run_in_root, size, staged, stdout};
use crate::files;

/// Static, so that it runs on systems that are older than this one. glibc 2.34 and later find names in files and by DNS
/// themselves, and load no library for it. The random numbers come from the kernel by name: a static binary would not
/// find the function, and ask for /dev/urandom.
const FLAGS: &str = "-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\"";

/// Debian has its text once for all packages.
const APACHE: &str = "
Or, as you like, the Apache License, Version 2.0: /usr/share/common-licenses/Apache-2.0

The crates that are compiled in, and their licences: THIRD-PARTY.gz beside this file.
";

pub(super) fn binary() -> Result<String, String> {
    let host = host()?;
    let mut build = Command::new("cargo");
    build.args([
        "build",
        "--release",
        "--locked",
        "-p",
        "leaselock-cli",
        "--target",
        &host,
    ]);
    build.env("RUSTFLAGS", FLAGS);
    run_in_root(build)?;
    let built = files::target().join(&host).join("release/leaselock");
    fs::create_dir_all(staged("")).map_err(|error| error.to_string())?;
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(program()).arg(built);
    run_in_root(strip)?;
    let headers = stdout(Command::new("readelf").arg("-lW").arg(program()))?;
    if headers.contains("INTERP") {
        return Err("the binary is not static: it asks for a loader".to_owned());
    }
    size(&program())
}

pub(super) fn program() -> PathBuf {
    staged("leaselock")
}

/// Pages, completions, licences and the changelog of Debian.
pub(super) fn texts() -> Result<String, String> {
    let folder = staged("man");
    fs::remove_dir_all(&folder).ok();
    let whole = page(None)?;
    // The page of the command names those of its verbs.
    let plain = whole.replace("\\-", "-");
    let verbs = plain.split("leaselock-").skip(1);
    let verbs = verbs.filter_map(|rest| rest.split_once("(1)"));
    let is_word = |verb: &&str| verb.chars().all(|c| c.is_ascii_lowercase());
    let verbs: BTreeSet<&str> = verbs.map(|(verb, _)| verb).filter(is_word).collect();
    write(&folder.join("leaselock.1.gz"), &gzip(&whole)?)?;
    for verb in &verbs {
        let file = folder.join(format!("leaselock-{verb}.1.gz"));
        write(&file, &gzip(&page(Some(verb))?)?)?;
    }
    for shell in ["bash", "zsh", "fish"] {
        let text = stdout(Command::new(program()).args(["completions", shell]))?;
        write(&staged("completions").join(shell), text.as_bytes())?;
    }
    write(&staged("empty"), b"")?; // of a folder in the rpm
    let third_party = licences::text()?;
    write(&staged("THIRD-PARTY.gz"), &gzip(&third_party)?)?;
    let changes = text_of("CHANGELOG.md")?;
    write(&staged("CHANGELOG.md.gz"), &gzip(&changes)?)?;
    write(&staged("changelog"), debian_changelog()?.as_bytes())?;
    let mit = text_of("LICENSE-MIT")?;
    write(&staged("copyright"), format!("{mit}{APACHE}").as_bytes())?;
    let count = third_party.matches("\n==== ").count();
    Ok(format!(
        "{} pages, {count} texts of licences",
        verbs.len() + 1
    ))
}

fn text_of(file: &str) -> Result<String, String> {
    fs::read_to_string(files::root().join(file)).map_err(|error| format!("{file}: {error}"))
}

fn page(verb: Option<&str>) -> Result<String, String> {
    stdout(Command::new(program()).arg("man").args(verb))
}

/// In Debian's form; the changes themselves lie beside it.
fn debian_changelog() -> Result<String, String> {
    let version = env!("CARGO_PKG_VERSION");
    let date = stdout(Command::new("git").args(["log", "-1", "--format=%cD"]))?;
    Ok(format!(
        "leaselock ({version}-1) unstable; urgency=medium\n\n  * Version {version}: changelog.gz has the changes.\n\n \
         -- The leaselock authors <leaselock@localhost>  {}\n",
        date.trim()
    ))
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(file, bytes));
    written.map_err(|error| format!("{}: {error}", file.display()))
}

/// Without name and time, so that the same text gives the same bytes.
fn gzip(text: &str) -> Result<Vec<u8>, String> {
    let gzip = Command::new("gzip")
        .arg("-9n")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut gzip = gzip.map_err(|error| format!("gzip: {error}"))?;
    let (stdin, text) = (gzip.stdin.take(), text.to_owned());
    let writer = std::thread::spawn(move || stdin.map(|mut to| to.write_all(text.as_bytes())));
    let output = gzip
        .wait_with_output()
        .map_err(|error| format!("gzip: {error}"))?;
    match writer.join() {
        Ok(Some(Ok(()))) if output.status.success() => Ok(output.stdout),
        _ => Err("gzip did not take the text".to_owned()),
    }
}
