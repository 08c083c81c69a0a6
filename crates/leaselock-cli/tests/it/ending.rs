//! How long the command stays after its job when the store does not reply: one request timeout, and then it says what
//! is left.

use std::time::Duration;

use testkit::process::Signal;

use crate::common::{Store, seconds, until, uptime};

/// One request timeout is 1 s. Before there was a bound this took 4 to 6 s: two requests of the release, and three
/// times two seconds of cleaning up.
const BOUND: Duration = Duration::from_millis(3_500);

/// A job that waits for a line and then writes when it ends.
const JOB: [&str; 3] = [
    "sh",
    "-c",
    "echo $$ > job; read go; cat /proc/uptime > end; exit 5",
];

fn since_the_end_of_the_job(store: &Store) -> Duration {
    since(seconds(&store.line_in("end")))
}

fn since(then: f64) -> Duration {
    let (now, then) = (uptime(), Duration::from_secs_f64(then));
    Duration::from_secs_f64(now).saturating_sub(then)
}

#[test]
fn with_a_frozen_server_the_command_ends_soon_after_its_job_and_says_what_is_left() {
    let store = Store::redis();
    let run = [&["run", "--ttl", "30s", "job", "--"], &JOB[..]].concat();
    let mut wrapper = store.start(&run);
    store.line_in("job");
    let frozen = store.server().pause();
    wrapper.write("go\n");
    until("the end of the command", || wrapper.has_ended());
    let stayed = since_the_end_of_the_job(&store);
    drop(frozen);
    let done = wrapper.end().gives(5);
    let words = format!(
        "leaselock: job finished; the lock could not be released (no reply from {}0 in time) and expires in ",
        store.url
    );
    assert!(done.err.starts_with(&words), "{done:?}");
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
    assert!(stayed < BOUND, "{stayed:?}: {done:?}");
}

#[test]
fn with_a_killed_server_the_command_ends_soon_after_its_job_and_says_what_is_left() {
    let store = Store::redis();
    let run = [&["run", "--ttl", "30s", "job", "--"], &JOB[..]].concat();
    let mut wrapper = store.start(&run);
    store.line_in("job");
    store.server().kill();
    wrapper.write("go\n");
    until("the end of the command", || wrapper.has_ended());
    let stayed = since_the_end_of_the_job(&store);
    let done = wrapper.end().gives(5);
    assert!(
        done.err
            .starts_with("leaselock: job finished; the lock could not be released (")
            && done.err.contains(") and expires in "),
        "{done:?}"
    );
    assert!(stayed < BOUND, "{stayed:?}: {done:?}");
}

#[test]
fn after_a_loss_the_command_does_not_wait_for_a_store_that_is_known_to_be_silent() {
    let store = Store::redis();
    let script =
        "trap 'cat /proc/uptime > end; exit 0' TERM; echo $$ > job; while :; do sleep 0.02; done";
    let mut wrapper = store.start(&["run", "--ttl", "3s", "job", "--", "sh", "-c", script]);
    store.line_in("job");
    let frozen = store.server().pause();
    until("the end of the command", || wrapper.has_ended());
    let stayed = since_the_end_of_the_job(&store);
    drop(frozen);
    let done = wrapper.end().gives(79);
    assert!(stayed < BOUND, "{stayed:?}: {done:?}");
}

#[test]
fn a_signal_ends_a_wait_soon_although_the_server_does_not_answer() {
    let store = Store::redis();
    let holder = store.hold(&["--ttl", "10m"]);
    let mut waiter = store.start(&["run", "job", "--", "touch", "ran"]);
    store.until_queued(1);
    let frozen = store.server().pause();
    let signalled = uptime();
    waiter.signal(Signal::INT);
    until("the end of the waiter", || waiter.has_ended());
    let stayed = since(signalled);
    drop(frozen);
    let done = waiter.end().gives(130);
    assert!(stayed < BOUND, "{stayed:?}: {done:?}");
    assert!(!store.path("ran").exists());
    holder.end().gives(0);
}

/// A server that is back within the time has the lock given back after all, and nothing is left to say.
#[test]
fn a_lock_is_given_back_as_long_as_there_is_time() {
    let store = Store::redis();
    let run = [&["run", "--ttl", "30s", "job", "--"], &JOB[..]].concat();
    let mut wrapper = store.start(&run);
    store.line_in("job");
    let frozen = store.server().pause();
    wrapper.write("go\n");
    store.line_in("end");
    drop(frozen);
    let done = wrapper.end().gives(5);
    assert_eq!(done.err, "");
    assert_eq!(store.status()["state"], "free");
}

#[test]
fn a_lock_that_another_has_when_the_job_ends_in_time_was_lost() {
    let store = Store::redis();
    let run = [&["run", "--ttl", "10m", "job", "--"], &JOB[..]].concat();
    let mut wrapper = store.start(&run);
    store.line_in("job");
    let server = store.server();
    server.cli(&["SET", "job", "another", "PX", "600000"]);
    wrapper.write("go\n");
    let done = wrapper.end().gives(79);
    assert!(
        done.err.starts_with("leaselock: job finished; "),
        "{done:?}"
    );
    assert_eq!(server.cli(&["GET", "job"]).text(), Some("another"));
}
