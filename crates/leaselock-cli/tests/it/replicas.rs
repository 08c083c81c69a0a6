//! `--min-replicas`: a lock that too few servers have is none.

use testkit::Server;
use testkit::process::Signal;

use crate::common::{Store, until};

#[test]
fn a_lock_that_no_replica_has_is_69_and_the_job_does_not_run() {
    let store = Store::redis();
    let replica = Server::builder().replica_of(store.server()).start();
    let few = [
        "--min-replicas",
        "1",
        "--replica-timeout",
        "10s",
        "--ttl",
        "20s",
    ];
    let job: [&str; 4] = ["job", "--", "touch", "ran"];
    store.run(&[&["run"], &few[..], &job].concat()).gives(0);
    assert!(store.path("ran").exists());
    std::fs::remove_file(store.path("ran")).unwrap();

    let frozen = replica.pause();
    let job = [
        &["run", "--min-replicas", "1", "--replica-timeout", "200ms"],
        &job[..],
    ]
    .concat();
    store.run(&job).refuses(69, "0 of 1 replicas confirmed it");
    assert!(!store.path("ran").exists());
    store.run(&["run", "-n", "job", "--", "true"]).gives(0);
    let acquire = [
        "acquire",
        "--min-replicas",
        "1",
        "--replica-timeout",
        "200ms",
        "job",
    ];
    store.run(&acquire).refuses(69, "given back");
    drop(frozen);

    for (wrong, says) in [
        (&["--min-replicas", "0"][..], "at least one"),
        (
            &["--min-replicas", "1", "--replica-timeout", "10s"][..],
            "less than the ttl",
        ),
        (&["--replica-timeout", "1s"][..], "--min-replicas"),
    ] {
        let line = [&["run"], wrong, &["job", "--", "true"]].concat();
        store.run(&line).refuses(64, says);
    }
}

#[test]
fn a_change_of_a_counter_that_no_replica_has_is_69_and_counts_all_the_same() {
    let store = Store::redis();
    let replica = Server::builder().replica_of(store.server()).start();
    let flags = ["count", "builds", "--min-replicas", "1"];
    let patient = [&flags[..], &["--replica-timeout", "30s"]].concat();
    assert_eq!(store.run(&patient).gives(0).out, "1\n");
    let frozen = replica.pause();
    let hurried = [&flags[..], &["--replica-timeout", "200ms"]].concat();
    store
        .run(&hurried)
        .refuses(69, "is 2, but 0 of 1 replicas confirmed it");
    drop(frozen);
    assert_eq!(store.run(&["count", "builds", "--get"]).gives(0).out, "2\n");
}

#[test]
fn a_result_that_no_replica_has_is_69_and_is_told_all_the_same() {
    let store = Store::redis();
    let replica = Server::builder().replica_of(store.server()).start();
    let once = |key, timeout| {
        let flags = ["once", "--min-replicas", "1", "--replica-timeout", timeout];
        let rest = ["--ttl", "60s", key, "-c", "echo ran >> ran; echo paid"];
        store.run(&[&flags[..], &rest].concat())
    };
    assert_eq!(once("charge/1", "30s").gives(0).out, "paid\n");
    let frozen = replica.pause();
    let unconfirmed = once("charge/2", "200ms").gives(69);
    assert_eq!(unconfirmed.out, "paid\n");
    let why = "a failover may lose it: 0 of 1 replicas";
    assert!(unconfirmed.err.contains(why), "{}", unconfirmed.err);
    drop(frozen);
    assert_eq!(once("charge/2", "30s").gives(0).out, "paid\n");
    assert_eq!(store.lines("ran").len(), 2, "each key once");
}

#[test]
fn a_tick_whose_claim_no_replica_has_is_not_run() {
    let store = Store::redis();
    let replica = Server::builder().replica_of(store.server()).start();
    let frozen = replica.pause();
    let flags = ["cron", "--min-replicas", "1", "--replica-timeout", "500ms"];
    let rest = ["* * * * * *", "job", "-c", "echo $LEASELOCK_TICK >> ran"];
    let service = store.start(&[&flags[..], &rest].concat());
    until("it says so", || service.said().contains("0 of 1 replicas"));
    assert_eq!(store.read("ran"), "");
    drop(frozen);
    until("a tick was run", || !store.read("ran").is_empty());
    service.signal(Signal::TERM);
    service.end_with_stdin_open();
    let ticks = store.lines("ran");
    assert!(ticks.is_sorted_by(|one, next| one < next), "{ticks:?}");
}
