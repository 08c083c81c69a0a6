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

/// Building the command once more would take minutes, so `cargo` builds nothing, and the command is there.
#[test]
fn the_first_command_of_the_readme_runs_two_jobs_under_a_lock_without_a_server() {
    let store = Store::file();
    fs::write(store.path("cargo"), "#!/bin/sh\n[ \"$1\" = build ]\n").unwrap();
    fs::set_permissions(store.path("cargo"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir(store.path("debug")).unwrap();
    let program = env!("CARGO_BIN_EXE_leaselock");
    std::os::unix::fs::symlink(program, store.path("debug/leaselock")).unwrap();
    let mut shell = store.command("sh", &["-c", first_commands()[0]]);
    let path = format!("{}:{}", store.path("").display(), env::var("PATH").unwrap());
    shell
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", store.path(""));
    shell.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let done = Running::start(shell).end().gives(0);
    let jobs: Vec<&str> = done
        .out
        .lines()
        .filter(|line| line.starts_with("job "))
        .collect();
    let [begins, ends, then_begins, then_ends] = jobs[..] else {
        panic!("{done:?}")
    };
    let name = |line: &str| line.split(' ').nth(1).unwrap().to_owned();
    assert!(
        begins.ends_with("begins") && then_begins.ends_with("begins"),
        "{jobs:?}"
    );
    assert_eq!(
        (name(begins), name(then_begins)),
        (name(ends), name(then_ends)),
        "one after the other"
    );
    assert_eq!(done.err.matches(": acquired ").count(), 2, "{}", done.err);
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
    // Around it stand the time that CI gives it, and that no user is there to ask, and no more than that.
    let last = CI.lines().last().unwrap();
    assert_eq!(last, format!("timeout --kill-after=20s 60m {tests} -y"));
}
