//! What `-v` tells of a wait and of a lock, on standard error and in pipes too.

use std::io::Write as _;

use serde_json::Value;
use testkit::Server;
use testkit::process::Signal;

use crate::common::{Done, Store, on_both, until};

/// Every line is in the command's own form, about this lock.
#[track_caller]
fn story(done: &Done, lock: &str) -> Vec<String> {
    let begin = format!("leaselock: {lock}: ");
    let line = |line: &str| match line.strip_prefix(&begin) {
        Some(text) => text.to_owned(),
        None => panic!("{line:?} in {done:?}"),
    };
    done.err.lines().map(line).collect()
}

#[test]
fn a_wait_in_a_pipe_tells_behind_whom_when_it_was_granted_and_that_it_was_given_back() {
    on_both(|store| {
        let holder = store.hold(&["--note", "July numbers"]);
        let waiter = store.start(&["-v", "run", "job", "--", "true"]);
        until("its first line", || waiter.said().contains('\n'));
        let pid = holder.pid();
        holder.end().gives(0);
        let done = waiter.end().gives(0);
        let told = story(&done, "job");
        let queued = format!("queued at position 1; held by sh[{pid}] on ");
        assert!(told[0].starts_with(&queued), "{told:?}");
        assert!(told[0].contains(": July numbers; expires in "), "{told:?}");
        assert!(told[1].starts_with("acquired after "), "{told:?}");
        assert!(told[1].contains(" (fence "), "{told:?}");
        assert!(told[2].starts_with("released, held "), "{told:?}");
        assert_eq!(told.len(), 3, "{told:?}");
    });
}

#[test]
fn acquire_and_wait_tell_theirs_and_print_as_ever() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let acquire = store.start(&["acquire", "-v", "job"]);
        let wait = store.start(&["wait", "-v", "job"]);
        for waiter in [&acquire, &wait] {
            until("its first line", || waiter.said().contains('\n'));
        }
        holder.end().gives(0);
        let done = acquire.end().gives(0);
        let told = story(&done, "job");
        assert!(
            told[0].starts_with("queued at position 1; held by "),
            "{told:?}"
        );
        assert!(told[1].starts_with("acquired after "), "{told:?}");
        assert!(done.out.starts_with("ll1."), "{done:?}");
        store.run_with_input(&["release"], &done.out).gives(0);
        let done = wait.end().gives(0);
        let told = story(&done, "job");
        assert!(told[0].ends_with("; waiting until it is free"), "{told:?}");
        assert!(told[1].starts_with("free after "), "{told:?}");
        assert_eq!(done.out, "");
    });
}

#[test]
fn once_tells_behind_whom_it_waits_and_that_a_result_is_replayed() {
    on_both(|store| {
        let once = ["once", "-v", "job", "-c", "echo > held; read line"];
        let mut first = store.start(&once);
        store.line_in("held");
        let waiter = store.start(&once);
        until("its first line", || waiter.said().contains('\n'));
        first.write("\n");
        let told = story(&first.end().gives(0), "job");
        assert!(told[0].starts_with("acquired after "), "{told:?}");
        assert!(told[1].starts_with("released, held "), "{told:?}");
        let told = story(&waiter.end().gives(0), "job");
        let waits = "waiting; held by sh[";
        assert!(told[0].starts_with(waits), "{told:?}");
        assert!(told[1].starts_with("has run (fence "), "{told:?}");
        assert!(
            told[1].contains("); its result is replayed after "),
            "{told:?}"
        );
        let later = story(&store.run(&once).gives(0), "job");
        assert_eq!(later.len(), 1);
        assert!(later[0].starts_with("has run (fence "), "{later:?}");
    });
}

#[test]
fn a_poll_that_fails_is_told_with_the_store_and_its_error_and_without_the_password() {
    let store = Store::on(Server::builder().password("geheim").start());
    let holder = store.hold(&["--ttl", "10m"]);
    let waiter = store.start(&["-v", "run", "job", "--", "touch", "ran"]);
    until("its first line", || waiter.said().contains("queued"));
    store.server().kill();
    until("the trouble", || waiter.said().contains("retrying"));
    waiter.signal(Signal::TERM);
    let done = waiter.end_with_stdin_open().gives(143);
    let told = story(&done, "job");
    let store_url = store.url.replace(":geheim@", "");
    let trouble = format!("{store_url}0 does not reply (");
    assert!(told[1].starts_with(&trouble), "{told:?}");
    assert!(told[1].ends_with("), retrying"), "{told:?}");
    assert!(told[2].starts_with("gave up after "), "{told:?}");
    assert!(told[2].ends_with(": SIGTERM"), "{told:?}");
    assert!(!done.err.contains("geheim"), "{done:?}");
    drop(holder);
}

#[test]
fn a_store_that_answers_again_is_told_too() {
    let store = Store::redis();
    let holder = store.hold(&["--ttl", "10m"]);
    let waiter = store.start(&["-v", "run", "job", "--", "true"]);
    until("its first line", || waiter.said().contains("queued"));
    let frozen = store.server().pause();
    until("the trouble", || {
        waiter
            .said()
            .contains("does not reply (timed out), retrying")
    });
    drop(frozen);
    let back = format!(
        "{}0 replies again; still queued at position 1 after ",
        store.url
    );
    until("the answer", || waiter.said().contains(&back));
    holder.end().gives(0);
    waiter.end().gives(0);
}

#[test]
fn the_librarys_events_come_with_two_and_in_the_commands_form() {
    let store = Store::redis();
    let done = store.run(&["-vv", "run", "job", "--", "true"]).gives(0);
    assert!(done.err.contains("leaselock: debug: "), "{done:?}");
    assert!(done.err.contains("leaselock: job: acquired after "));
    for line in done.err.lines() {
        assert!(line.starts_with("leaselock: "), "{done:?}");
        assert!(!line.contains("leaselock::"), "{done:?}");
    }
    assert_eq!(store.run(&["run", "job", "--", "true"]).gives(0).err, "");
}

#[test]
fn with_json_every_line_of_the_story_is_an_object() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let waiter = store.start(&["-vv", "--json", "run", "job", "--", "true"]);
        until("its first line", || waiter.said().contains("queued"));
        holder.end().gives(0);
        let done = waiter.end().gives(0);
        let said: Vec<Value> = done.err.lines().map(crate::common::object).collect();
        let events: Vec<&str> = said
            .iter()
            .filter_map(|one| one["event"].as_str())
            .filter(|event| *event != "log")
            .collect();
        assert_eq!(events, ["queued", "acquired", "released"]);
        let own = said.iter().filter(|one| one["event"] != "log");
        for one in own {
            assert_eq!(one["name"], "job");
            assert!(one["text"].is_string());
        }
    });
}

#[test]
fn a_reader_of_standard_error_that_stalls_does_not_keep_a_granted_job_from_its_start() {
    on_both(|store| {
        let (reader, mut full) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&full, true).unwrap();
        while full.write(&[b'x'; 4096]).is_ok() {}
        rustix::io::ioctl_fionbio(&full, false).unwrap();
        let mut command = store.leaselock(&["-v", "run", "job", "--", "touch", "ran"]);
        let mut child = command.stderr(full).spawn().unwrap();
        until("the job", || store.path("ran").exists());
        assert!(child.wait().unwrap().success());
        drop(reader);
    });
}
