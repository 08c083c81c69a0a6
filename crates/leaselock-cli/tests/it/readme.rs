//! The first commands of README.md, as a reader pastes them.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::{env, fs};

use crate::common::{Running, Store, object};

const README: &str = include_str!("../../../../README.md");
const CI: &str = include_str!("../../../../.ci/run");

/// The lines of the first shell block.
fn first_commands() -> Vec<&'static str> {
    let (_, block) = README.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.lines().collect()
}

/// Building the command once more would take minutes, so `cargo` is the program that `cargo run` would start.
#[test]
fn the_first_command_of_the_readme_runs_a_job_under_a_lock_without_a_server() {
    let store = Store::file();
    let cargo = store.path("cargo");
    let program = env!("CARGO_BIN_EXE_leaselock");
    let script =
        format!("#!/bin/sh\n[ \"$1 $2\" = 'run --' ] && shift 2 && exec {program} \"$@\"\n");
    fs::write(&cargo, script).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o700)).unwrap();
    let mut shell = store.command("sh", &["-c", first_commands()[0]]);
    let path = env::var("PATH").unwrap();
    shell.env("PATH", format!("{}:{path}", store.path("").display()));
    let done = Running::start(shell).end().gives(0);
    assert!(!done.out.is_empty(), "the job has printed");
    let said = [": acquired ", ": released, "];
    assert!(
        said.iter().all(|said| done.err.contains(said)),
        "{}",
        done.err
    );
}

#[test]
fn cargo_run_at_the_root_starts_the_command() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    let out = cargo.args(["--manifest-path", manifest]).output().unwrap();
    let all = object(&String::from_utf8(out.stdout).unwrap());
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap();
    let members = list(&all["workspace_default_members"]);
    let packages = list(&all["packages"]).into_iter();
    let of_default = packages.filter(|package| members.contains(&package["id"]));
    let targets = of_default.flat_map(|package| list(&package["targets"]));
    let programs = targets.filter(|target| list(&target["kind"]).contains(&"bin".into()));
    let names: Vec<_> = programs.map(|target| target["name"].clone()).collect();
    assert_eq!(names, ["leaselock"]);
}

#[test]
fn the_second_command_of_the_readme_is_the_one_that_ci_runs() {
    let [_, tests] = first_commands()[..] else {
        panic!("two commands: {:?}", first_commands())
    };
    let tests = tests.split('#').next().unwrap().trim_end();
    // Before it stand the time that CI gives it, and no more than that.
    let last = CI.lines().last().unwrap();
    let limited = last.strip_prefix("timeout --kill-after=20s 60m ");
    assert_eq!(limited, Some(tests));
}
