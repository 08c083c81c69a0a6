//! A folder store knows which processes live: what a killed wrapper's job means for the lock.

use std::os::unix::net::UnixDatagram;

use testkit::process::{Signal, signal};

use crate::common::{Store, object, on_both, until};

/// So long that no test waits for a lease to expire.
const LONG: [&str; 2] = ["--ttl", "10m"];

#[test]
fn a_killed_wrapper_leaves_the_lock_to_its_job_until_the_last_descriptor_is_closed() {
    let store = Store::file();
    // The job leaves a second process behind, which lives until its input is closed.
    let script = "exec 3<&0; { cat <&3; echo last ends >> log; } & echo $$ > job; \
                  while [ -e job ] && [ ! -e go ]; do sleep 0.02; done; echo first ends >> log; echo > gone";
    let run = [&["run"], &LONG[..], &["job", "--", "sh", "-c", script]].concat();
    let mut wrapper = store.start(&run);
    let job: u32 = store.line_in("job").parse().unwrap();
    let waiter = store.start(&["run", "job", "--", "sh", "-c", "echo waiter starts >> log"]);
    store.until_queued(1);

    let input = wrapper.take_stdin();
    wrapper.kill();
    assert!(testkit::process::is_alive(job));
    std::fs::write(store.path("go"), "").unwrap();
    store.line_in("gone");
    until("the end of the job", || !testkit::process::is_alive(job));
    store.run(&["run", "-n", "job", "--", "true"]).gives(75);
    assert_eq!(store.lines("log"), ["first ends"]);

    drop(input);
    waiter.end().gives(0);
    assert_eq!(
        store.lines("log"),
        ["first ends", "last ends", "waiter starts"]
    );
}

#[test]
fn a_job_that_must_not_keep_the_lock_is_dead_before_the_next_starts() {
    let store = Store::file();
    let beats = "trap '' TERM; echo $$ > job; while echo beat >> log; do sleep 0.01; done";
    let run = ["run", "-o", "--ttl", "2s", "job", "--", "sh", "-c", beats];
    let mut wrapper = store.start(&run);
    store.line_in("job");
    let next = store.start(&[
        "run",
        "job",
        "--",
        "sh",
        "-c",
        "echo next >> log; cat; echo end >> log",
    ]);
    store.until_queued(1);
    wrapper.kill();
    until("the next one", || store.read("log").contains("next"));
    next.end().gives(0);
    let log = store.lines("log");
    let place = log.iter().position(|line| line == "next").unwrap();
    assert_eq!(log[place..], ["next", "end"]);
}

#[test]
fn a_break_of_what_only_a_job_keeps_says_that_it_lasts_with_the_job() {
    let store = Store::file();
    let script = "echo $$ > job; exec cat";
    let run = [&["run"], &LONG[..], &["job", "--", "sh", "-c", script]].concat();
    let mut wrapper = store.start(&run);
    store.line_in("job");
    let input = wrapper.take_stdin();
    store.run(&["acquire", "--ttl", "10m", "other"]).gives(0);
    let other = store.run(&["break", "--json", "--yes", "other"]).gives(0);
    assert_eq!(object(&other.out)["broken"]["lasts_with_job"], false);
    wrapper.kill();
    let broken = store.run(&["break", "--json", "--yes", "job"]).gives(0);
    assert_eq!(object(&broken.out)["broken"]["lasts_with_job"], true);
    let told = store.run(&["break", "--yes", "job"]).gives(0);
    assert!(told.err.contains("when its job has ended"), "{told:?}");
    store.run(&["run", "-n", "job", "--", "true"]).gives(75);
    drop(input);
    store.run(&["run", "job", "--", "true"]).gives(0);
}

#[test]
fn a_killed_wrapper_whose_job_keeps_no_lock_frees_it_at_once() {
    let store = Store::file();
    let run = [
        &["run", "-o"],
        &LONG[..],
        &["job", "--", "sh", "-c", "echo $$ > job; exec cat"],
    ];
    let mut wrapper = store.start(&run.concat());
    let job: u32 = store.line_in("job").parse().unwrap();
    wrapper.kill();
    // Not before the limit of a test is the lease over, so this is no expiry.
    store.run(&["run", "job", "--", "true"]).gives(0);
    assert!(!testkit::process::is_alive(job));
}

#[test]
fn with_a_longest_hold_a_job_does_not_outlive_its_wrapper() {
    let store = Store::file();
    let run = [
        &["run", "--max-hold", "20m"],
        &LONG[..],
        &["job", "--", "sh", "-c", "echo $$ > job; exec cat"],
    ];
    let mut wrapper = store.start(&run.concat());
    let job: u32 = store.line_in("job").parse().unwrap();
    wrapper.kill();
    // The lock would go to the next holder at the end of the longest hold, with no process there to end the job first.
    store.run(&["run", "job", "--", "true"]).gives(0);
    assert!(!testkit::process::is_alive(job));
}

#[test]
fn a_waiter_that_was_killed_is_skipped() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let mut dead = store.start(&["run", "--priority", "1", "job", "--", "touch", "dead-ran"]);
        store.until_queued(1);
        let living = store.start(&["run", "job", "--", "touch", "living-ran"]);
        store.until_queued(2);
        dead.kill();
        holder.end().gives(0);
        living.end().gives(0);
        assert!(store.path("living-ran").exists() && !store.path("dead-ran").exists());
    });
}

#[test]
fn the_lock_is_free_as_soon_as_wrapper_and_job_are_killed() {
    let store = Store::file();
    let mut holder = store.hold(&LONG);
    let job: u32 = store.line_in("held").parse().unwrap();
    holder.kill();
    store.run(&["run", "-n", "job", "--", "true"]).gives(75);
    assert!(signal(job, Signal::KILL));
    store.run(&["run", "job", "--", "true"]).gives(0);
}

/// As after hundreds of short runs, or of processes that were killed.
#[test]
fn what_dead_processes_left_in_a_folder_is_gone_while_one_job_runs() {
    let store = Store::file();
    store.run(&["run", "other", "--", "true"]).gives(0);
    let folder = store.url.strip_prefix("file://").unwrap();
    let path = |name: String| std::path::Path::new(folder).join(name);
    for number in 0..300 {
        for name in [format!("{number:08}"), format!("{number:08}.main")] {
            std::fs::write(path(format!("sessions/{name}")), "").unwrap();
        }
        // Dropping it leaves the file.
        drop(UnixDatagram::bind(path(format!("wake/{number}"))).unwrap());
    }
    let holder = store.hold(&[]);
    let left = |files: &str| std::fs::read_dir(path(files.to_owned())).unwrap().count();
    until("only files of the living", || {
        left("sessions") <= 2 && left("wake") <= 1
    });
    holder.end().gives(0);
}
