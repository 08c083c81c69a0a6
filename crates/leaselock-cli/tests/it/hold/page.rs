//! The examples of docs/hold.md, as they are printed.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::clients::{CLIENTS, nodes, program, pythons};
use crate::common::{Running, Store, on_both};

const PAGE: &str = include_str!("../../../../../docs/hold.md");

/// The one block of this language.
#[track_caller]
pub(super) fn example(language: &str) -> &'static str {
    let (_, block) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    let (block, rest) = block.split_once("```").unwrap();
    assert!(!rest.contains(&format!("```{language}\n")));
    assert!(block.lines().count() <= 32, "about 25 lines");
    block
}

/// The command under test is found by its name.
pub(super) fn with_command_on_path(command: &mut Command) {
    let bin = Path::new(env!("CARGO_BIN_EXE_leaselock")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", bin.display()));
}

#[track_caller]
fn says_that_it_is_done(store: &Store, interpreter: &str, file: &str) {
    let mut command = program(store, interpreter, &[file]);
    with_command_on_path(&mut command);
    // One that is busy would wait for 30 s, so it is started when the lock is free.
    let done = Running::start(command).end().gives(0);
    let last = done.out.lines().next_back().unwrap();
    let expected = if interpreter == "bash" {
        "done: exit code 0"
    } else {
        "done: 3"
    };
    assert_eq!(last, expected, "{done:?}");
    assert_eq!(done.err, "", "{done:?}");
    let nightly = store.run(&["status", "--json", "nightly"]).out;
    assert!(nightly.contains("\"state\":\"free\""), "{nightly}");
}

#[test]
fn the_examples_of_the_page_run_as_they_are_printed() {
    on_both(|store| {
        let client = fs::read(format!("{CLIENTS}/leaselock.mjs")).unwrap();
        fs::write(store.path("leaselock.mjs"), client).unwrap();
        for (language, file) in [("python", "job.py"), ("js", "job.mjs"), ("bash", "job.sh")] {
            fs::write(store.path(file), example(language)).unwrap();
        }
        for interpreter in pythons() {
            says_that_it_is_done(store, interpreter, "job.py");
        }
        for interpreter in nodes() {
            says_that_it_is_done(store, interpreter, "job.mjs");
        }
        says_that_it_is_done(store, "bash", "job.sh");
    });
}

#[test]
fn a_bash_script_whose_lock_is_busy_ends_with_the_code_of_hold() {
    let store = Store::file();
    let busy = super::Running::start(store.leaselock(&["hold", "nightly"]));
    super::until_told(&busy, "acquired");
    let script = example("bash").replace("--wait 30", "--nonblock");
    fs::write(store.path("job.sh"), script).unwrap();
    let mut command = program(&store, "bash", &["job.sh"]);
    with_command_on_path(&mut command);
    let done = Running::start(command).end().gives(75);
    assert_eq!(done.out, "no lock: exit code 75\n", "{done:?}");
    busy.end().gives(0);
}
