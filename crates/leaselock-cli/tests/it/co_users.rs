//! A user of a shared folder puts something else in place of a file: no command of another user hangs.

use std::path::PathBuf;

use testkit::process::Signal;

use crate::common::{Store, fifo_in_place_of, until};

/// Each verb that reads the lock `job`, with the exit code where its file is none and where only its holder's
/// session is none.
const VERBS: [(&[&str], i32, i32); 7] = [
    (&["status", "job"], 65, 0),
    (&["ls"], 0, 0),
    (&["wait", "-w", "1s", "job"], 65, 75),
    (&["run", "-n", "job", "--", "touch", "ran"], 65, 75),
    (&["run", "-w", "1s", "job", "--", "touch", "ran"], 65, 75),
    (&["acquire", "-n", "job"], 65, 75),
    (&["acquire", "-w", "1s", "job"], 65, 75),
];

fn files_in(store: &Store, folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(store.path("locks").join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn shared() -> Store {
    use std::os::unix::fs::PermissionsExt;
    let store = Store::file();
    let folder = store.path("locks");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o1777)).unwrap();
    store
}

#[test]
fn no_command_waits_for_a_fifo_in_place_of_a_holders_session() {
    let store = shared();
    let _holder = store.hold(&["--ttl", "10m"]);
    for file in files_in(&store, "sessions") {
        fifo_in_place_of(&file);
    }
    for (verb, _, code) in VERBS {
        store.run(verb).gives(code);
    }
    store.run(&["run", "-n", "other", "--", "true"]).gives(0);
    assert!(!store.path("ran").exists());
}

#[test]
fn no_command_waits_for_a_fifo_in_place_of_a_lock_file() {
    let store = shared();
    store.run(&["run", "job", "--", "true"]).gives(0);
    let [file] = &files_in(&store, "locks")
        .into_iter()
        .filter(|path| path.to_str().unwrap().contains("/job-"))
        .collect::<Vec<_>>()[..]
    else {
        panic!("one file of the lock")
    };
    fifo_in_place_of(file);
    for (verb, code, _) in VERBS {
        let done = store.run(verb).gives(code);
        let named = done.err.contains(file.to_str().unwrap()) && done.err.contains("a FIFO");
        assert!(code == 0 || named, "{done:?}");
    }
    store.run(&["run", "-n", "other", "--", "true"]).gives(0);
    assert!(!store.path("ran").exists());
}

#[test]
fn a_wait_behind_a_holder_without_a_session_ends_with_sigterm() {
    let store = shared();
    let _holder = store.hold(&["--ttl", "10m"]);
    for file in files_in(&store, "sessions") {
        fifo_in_place_of(&file);
    }
    let mut waiter = store.start(&["run", "job", "--", "touch", "ran"]);
    store.until_queued(1);
    waiter.signal(Signal::TERM);
    until("the end of the waiter", || waiter.has_ended());
    waiter.end().gives(143);
    assert!(!store.path("ran").exists());
}
