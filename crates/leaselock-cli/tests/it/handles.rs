//! `acquire`, `extend`, `release`: a lease that outlives the process that took it.

use std::fs;
use std::process::Stdio;

use crate::common::{Running, Store, object, on_both};

fn acquire(store: &Store, flags: &[&str]) -> String {
    let done = store
        .run(&[&["acquire"], flags, &["job"]].concat())
        .gives(0);
    assert_eq!((done.err.as_str(), done.out.lines().count()), ("", 1));
    done.out
}

#[test]
fn the_handle_is_all_that_is_printed_and_its_lease_outlives_the_process() {
    on_both(|store| {
        let handle = acquire(store, &["--ttl", "1m", "--note", "maintenance"]);
        assert!(
            handle.starts_with("ll1.") && handle.ends_with('\n'),
            "{handle:?}"
        );
        let seen = store.status();
        assert_eq!(seen["state"], "held");
        assert_eq!(seen["holder"]["note"], "maintenance");
        assert_eq!(seen["holder"]["process"]["name"], "leaselock acquire");
        store
            .run(&["acquire", "-n", "job"])
            .refuses(75, "`job` is held by leaselock acquire[");
        store.run_with_input(&["release"], &handle).gives(0);
        assert_eq!(store.status()["state"], "free");
    });
}

#[test]
fn a_lease_is_extended_by_the_ttl_that_it_was_acquired_with_unless_another_is_given() {
    on_both(|store| {
        let handle = acquire(store, &["--ttl", "10m"]);
        for (more, ttl_ms) in [
            (&[][..], 600_000),
            (&["--ttl", "20s"], 20_000),
            (&[], 600_000),
        ] {
            let extend = [&["extend", "--json"], more].concat();
            let done = store.run_with_input(&extend, &handle).gives(0);
            assert_eq!(object(&done.out)["ttl_ms"], ttl_ms, "{done:?}");
        }
    });
}

#[test]
fn a_handle_is_read_from_input_file_or_environment() {
    on_both(|store| {
        let handle = acquire(store, &[]);
        let left = || store.status()["holder"]["remaining_ms"].as_u64().unwrap();
        store
            .run_with_input(&["extend", "--ttl", "2m"], &handle)
            .gives(0);
        assert!(left() > 100_000);
        fs::write(store.path("handle"), &handle).unwrap();
        store
            .run(&["extend", "--ttl", "10m", "--handle-file", "handle"])
            .gives(0);
        assert!(left() > 500_000);
        let mut release = store.leaselock(&["release", "--json"]);
        release.env("LEASELOCK_HANDLE", handle.trim());
        let released = object(&Running::start(release).end().gives(0).out);
        assert_eq!(
            (&released["name"], &released["released"]),
            (&"job".into(), &true.into())
        );
        assert_eq!(store.status()["state"], "free");
    });
}

/// The handle says how the lock is held, so neither `extend` nor `release` is told.
#[test]
fn a_handle_of_a_reader_or_of_permits_is_extended_and_released_without_a_flag() {
    on_both(|store| {
        for (flags, mode, permits) in [
            (&["-s"][..], "shared", None),
            (&["--permits", "3", "--take", "2"], "permits", Some(2)),
        ] {
            let handle = acquire(store, &[flags, &["--ttl", "1m"]].concat());
            assert!(handle.starts_with("ll1."), "{handle:?}");
            let other = acquire(store, &[&flags[..flags.len().min(2)], &["-n"]].concat());
            store.run_with_input(&["release"], &other).gives(0);
            store
                .run(&["acquire", "-n", "job"])
                .refuses(75, "is held by");
            let seen = store.status();
            let holder = &seen["holders"][0];
            assert_eq!(seen["holder_count"], 1, "{seen}");
            assert_eq!(
                (&holder["mode"], &holder["permits"]),
                (&mode.into(), &permits.into())
            );
            assert_eq!(holder["process"]["name"], "leaselock acquire");
            store
                .run_with_input(&["extend", "--ttl", "10m"], &handle)
                .gives(0);
            let left = &store.status()["holders"][0]["remaining_ms"];
            assert!(left.as_u64().unwrap() > 500_000, "{left}");
            store.run_with_input(&["release"], &handle).gives(0);
            assert_eq!(store.status()["state"], "free");
            store
                .run_with_input(&["release"], &handle)
                .refuses(79, "`job` was not held any more");
            store
                .run_with_input(&["extend"], &handle)
                .refuses(79, "it is gone from the store");
        }
    });
}

#[test]
fn what_acquire_cannot_do_with_readers_and_permits_is_64_and_nothing_is_held() {
    on_both(|store| {
        for (flags, right) in [
            (&["-s", "--permits", "2"][..], "give one of the two"),
            (&["--take", "2"], "give --permits N too"),
            (&["--permits", "2", "--take", "3"], "give at most 2"),
            (&["-s", "--note", "x"], "leave --note out"),
            (
                &["--permits", "2", "--like", "redis-py"],
                "--permits and --like",
            ),
        ] {
            let words = [&["acquire"][..], flags, &["job"]].concat();
            store.run(&words).refuses(64, right);
        }
        assert_eq!(store.status()["state"], "free");
    });
}

#[test]
fn a_handle_whose_lease_is_over_is_79_and_touches_nobody_elses() {
    on_both(|store| {
        let old = acquire(store, &[]);
        store.run_with_input(&["release"], &old).gives(0);
        store
            .run_with_input(&["release"], &old)
            .refuses(79, "`job` was not held any more");
        store
            .run_with_input(&["extend"], &old)
            .refuses(79, "it is gone from the store");
        let new = acquire(store, &["--ttl", "1m"]);
        store
            .run_with_input(&["release"], &old)
            .refuses(79, "another holder has it");
        store
            .run_with_input(&["extend", "--ttl", "1h"], &old)
            .refuses(79, "another holder has it");
        assert!(store.status()["holder"]["remaining_ms"].as_u64().unwrap() <= 60_000);
        store.run_with_input(&["release"], &new).gives(0);
    });
}

#[test]
fn an_expired_handle_is_79() {
    on_both(|store| {
        let handle = acquire(store, &["--ttl", "300ms"]);
        store.run(&["wait", "job"]).gives(0);
        store.run_with_input(&["extend"], &handle).gives(79);
        store.run_with_input(&["release"], &handle).gives(79);
    });
}

#[test]
fn what_is_no_handle_is_64_and_is_not_repeated() {
    let store = Store::file();
    for text in [
        "",
        "\n",
        "garbage-secret",
        "ll1.",
        "ll1.garbage-secret.x",
        "ll2.a.b.1",
        "{\"handle\":1}",
    ] {
        let done = store
            .run_with_input(&["release"], text)
            .refuses(64, "this is not a handle");
        assert!(!done.err.contains("garbage-secret"), "{done:?}");
    }
    store
        .run(&["release", "--handle-file", "nowhere"])
        .refuses(64, "nowhere: No such file");
    // An argument would be seen by every user who lists processes.
    store.run(&["release", "ll1.a.b.1"]).gives(64);
}

#[test]
fn what_acquire_prints_as_json_is_what_release_reads() {
    on_both(|store| {
        let printed = acquire(store, &["--json", "--ttl", "1m"]);
        assert_eq!(object(&printed)["name"], "job");
        store
            .run_with_input(&["extend", "--json", "--ttl", "2m"], &printed)
            .gives(0);
        store.run_with_input(&["release"], &printed).gives(0);
        assert_eq!(store.status()["state"], "free");
    });
}

#[test]
fn a_handle_that_nobody_could_read_is_given_back() {
    on_both(|store| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut acquire = store.leaselock(&["acquire", "--ttl", "10m", "job"]);
        acquire
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped());
        let output = acquire.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(74));
        assert!(said.contains("the lock was released"), "{said}");
        assert_eq!(store.status()["state"], "free");
    });
}
