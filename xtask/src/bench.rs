//! `cargo xtask bench`: builds the benchmark, which is a workspace of its own, and runs it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{cargo, files, servers, test};

/// What the benchmark writes elsewhere than on the terminal comes from its own options, which are
/// passed on; `micro` runs the micro-benchmarks instead.
pub(crate) fn run(arguments: &[&str]) -> Result<String, String> {
    let root = files::root();
    let server = if measures(arguments) {
        Some(servers::find_or_fetch()?)
    } else {
        None
    };
    if let ["micro", rest @ ..] = arguments {
        let mut micro = bench_cargo(&root, "bench");
        micro.args(["--bench", "micro", "--"]).args(rest);
        cargo::run(micro)?;
        return Ok("measured".to_owned());
    }
    let mut build = bench_cargo(&root, "build");
    build.arg("--release");
    cargo::run(build)?;
    let mut bench = Command::new(target(&root, "bench").join("release/bench"));
    bench.args(arguments);
    if let Some(server) = &server {
        bench.env("LEASELOCK_TEST_SERVER", server);
    }
    if measures_peers(arguments) {
        bench.env("LEASELOCK_BENCH_PEERS", test::install_measured_peers());
    }
    if starts_the_command(arguments) {
        let mut build = cargo_at(&root, "build");
        build.args(["--release", "-p", "leaselock-cli"]);
        cargo::run(build)?;
        bench
            .arg("--command")
            .arg(target(&root, "").join("release/leaselock"));
    }
    cargo::run(bench)?;
    Ok("measured".to_owned())
}

/// Charts of a run that is kept need no server.
fn measures(arguments: &[&str]) -> bool {
    !arguments.contains(&"--from")
}

/// W6 measures how long the command takes to start.
fn starts_the_command(arguments: &[&str]) -> bool {
    runs_one_of(&["W6"], arguments)
}

/// The libraries of others that have more than mutexes and counters are mostly from npm and PyPI.
fn measures_peers(arguments: &[&str]) -> bool {
    runs_one_of(&["W8", "W9", "W10", "W11", "W13"], arguments)
}

/// Whether one of these workloads is measured, as in a run of everything.
fn runs_one_of(wanted: &[&str], arguments: &[&str]) -> bool {
    if !measures(arguments) {
        return false;
    }
    let mut workloads = arguments
        .iter()
        .filter(|argument| is_workload(argument))
        .peekable();
    workloads.peek().is_none() || workloads.any(|name| wanted.contains(name))
}

/// As in `W10`.
fn is_workload(argument: &str) -> bool {
    let number = argument.strip_prefix('W');
    number.is_some_and(|number| number.parse::<u8>().is_ok())
}

/// Cargo for the benchmark's own workspace.
fn bench_cargo(root: &Path, verb: &str) -> Command {
    let mut command = cargo_at(root, verb);
    command
        .arg("--manifest-path")
        .arg(root.join("bench/Cargo.toml"))
        .arg("--target-dir")
        .arg(target(root, "bench"));
    command
}

fn cargo_at(root: &Path, verb: &str) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command
        .arg(verb)
        .current_dir(root)
        // What cargo told us about ourselves is not true of the packages it builds next.
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("CARGO_PKG_NAME");
    command
}

/// Where results go: what the environment says, or a part of the usual folder.
fn target(root: &Path, part: &str) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target").join(part), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_from_npm_and_pypi_are_installed_only_for_what_measures_them() {
        assert!(measures_peers(&["--quick"]));
        assert!(measures_peers(&["W7", "W10"]));
        assert!(!measures_peers(&["W1", "W7", "W12"]));
    }

    #[test]
    fn the_command_is_built_only_for_what_starts_it() {
        assert!(starts_the_command(&[]));
        assert!(starts_the_command(&["--quick", "--json", "out.json"]));
        assert!(starts_the_command(&["W1", "W6"]));
        assert!(!starts_the_command(&["W1", "--quick"]));
        assert!(!starts_the_command(&["W10"]));
        assert!(!starts_the_command(&["--from", "run.json", "--svg", "img"]));
    }
}
