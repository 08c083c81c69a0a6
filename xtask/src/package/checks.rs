//! What others say of the packages and of the manifests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools::{run_in_root, staged};
use crate::files;

const VALIDATE: &str = "kubernetes-validate==1.37.0";
/// A version that clusters still run, and the newest that the tool knows.
const KUBERNETES: [&str; 2] = ["1.29.0", "1.37.0"];

/// Errors and warnings fail; the file of overrides says what is meant to be so, and why.
pub(super) fn lintian(deb: &Path) -> Result<String, String> {
    let mut lintian = Command::new("lintian");
    lintian
        .args(["--fail-on", "error,warning", "--allow-root"])
        .arg(deb);
    one_that_may_be_missing(lintian, "the package lintian")
}

pub(super) fn rpmlint(rpm: &Path) -> Result<String, String> {
    let mut rpmlint = Command::new("rpmlint");
    let filters = files::root().join("ops/rpmlint.toml");
    rpmlint.arg("--config").arg(filters).arg(rpm);
    one_that_may_be_missing(rpmlint, "the package rpmlint")
}

fn one_that_may_be_missing(command: Command, of: &str) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    if Command::new(&program).arg("--version").output().is_err() {
        return Ok(format!("NOT CHECKED: {program} is missing; {of} has it"));
    }
    run_in_root(command)?;
    Ok("nothing but what is meant so".to_owned())
}

/// Each manifest by the schema of two versions.
pub(super) fn manifests() -> Result<String, String> {
    let program = staged("python/bin/kubernetes-validate");
    if !program.exists() {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(staged("python"));
        run_in_root(venv)?;
        let mut install = Command::new(staged("python/bin/pip"));
        install.args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            VALIDATE,
        ]);
        run_in_root(install)?;
    }
    let folder = files::root().join("ops/kubernetes");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let manifests: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    for version in KUBERNETES {
        let mut validate = Command::new(&program);
        validate.args(["--strict", "-k", version]).args(&manifests);
        run_in_root(validate)?;
    }
    Ok(format!(
        "{} by {}",
        manifests.len(),
        KUBERNETES.join(" and ")
    ))
}
