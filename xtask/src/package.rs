//! `cargo xtask package [SUITE …]`: a deb and an rpm with a static binary, and what shows that they work.
//!
//! Not part of `cargo xtask test`, because an optimised build takes minutes and clean roots come from the network.
//! docs/packages.md says what is in them, and docs/versions.md when this is run.

mod checks;
mod licences;
mod roots;
mod stage;
mod tools;

use std::process::Command;

use self::tools::{host, run_in_root, size, staged, stdout};
use crate::clock;

const DEB: &str = "leaselock.deb";
const RPM: &str = "leaselock.rpm";
/// Version 0.21.1 of the second writes folders as files.
const TOOLS: [(&str, &str); 2] = [("cargo-deb", "3.8.0"), ("cargo-generate-rpm", "0.20.0")];

/// Builds and checks; `suites` are releases of Debian on whose clean roots the deb is installed, on the
/// first the rpm too.
pub(crate) fn run_all(suites: &[&str]) -> Result<String, String> {
    for (tool, version) in TOOLS {
        let found = stdout(Command::new(tool).arg("--version")).unwrap_or_default();
        if !found.contains(version) {
            return Err(format!("cargo install --locked {tool}@{version}"));
        }
    }
    let suites = if suites.is_empty() {
        &["bookworm"]
    } else {
        suites
    };
    let mut summary = Vec::new();
    let mut step = |name: &str, work: &dyn Fn() -> Result<String, String>| {
        println!("\n==> {name}");
        let start = clock::now();
        let outcome = work()?;
        let took = clock::since(start).as_secs();
        summary.push(format!("{took:>5} s  {name}: {outcome}"));
        Ok::<(), String>(())
    };
    step("static binary", &stage::binary)?;
    step("pages, completions, licences", &stage::texts)?;
    step("deb", &deb)?;
    step("rpm", &rpm)?;
    step("lintian", &|| checks::lintian(&staged(DEB)))?;
    step("rpmlint", &|| checks::rpmlint(&staged(RPM)))?;
    step("manifests of Kubernetes", &checks::manifests)?;
    step("the binary alone", &roots::scratch)?;
    for suite in suites {
        step(suite, &|| roots::deb(suite, &staged(DEB)))?;
    }
    let suite = suites.first().copied().unwrap_or_default();
    step("the rpm", &|| roots::rpm(suite, &staged(RPM)))?;
    Ok(format!("\n{}", summary.join("\n")))
}

fn deb() -> Result<String, String> {
    let mut command = Command::new("cargo");
    command.args(["deb", "--no-build", "--no-strip", "-p", "leaselock-cli"]);
    pack(command, DEB)
}

fn rpm() -> Result<String, String> {
    let mut command = Command::new("cargo");
    command.args(["generate-rpm", "-p", "crates/leaselock-cli"]);
    command.args(["--auto-req", "disabled", "--payload-compress", "xz"]);
    pack(command, RPM)
}

fn pack(mut command: Command, file: &str) -> Result<String, String> {
    let out = staged(file);
    command.args(["--target", &host()?]);
    command.arg("--output").arg(&out);
    run_in_root(command)?;
    size(&out)
}
