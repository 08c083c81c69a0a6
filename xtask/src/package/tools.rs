//! What the steps have in common: where things lie, and programs that are run there.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{cargo, files};

/// Where the tools find what they pack: the paths in the command's Cargo.toml begin so, from the root.
const STAGE: &str = "target/package";

pub(super) fn staged(file: &str) -> PathBuf {
    files::root().join(STAGE).join(file)
}

/// The target is named, so that the flags of the static binary do not reach build scripts.
pub(super) fn host() -> Result<String, String> {
    let lines = stdout(Command::new("rustc").arg("-vV"))?;
    let host = lines.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or("rustc names no host".to_owned())
}

pub(super) fn size(file: &Path) -> Result<String, String> {
    let bytes = std::fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(format!("{} kB", bytes.len() / 1000))
}

pub(super) fn run_in_root(mut command: Command) -> Result<(), String> {
    command.current_dir(files::root());
    // What cargo told us about ourselves is not true of the package that is built.
    command
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("CARGO_PKG_NAME");
    cargo::run(command)
}

/// What a program prints, if it ends well.
pub(super) fn stdout(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.current_dir(files::root()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{program} ended with {}: {said}", output.status)),
    }
}
