//! `leaselock run -s`: readers beside each other, and alone is alone.

use std::fs;

use crate::common::{Running, Store, object, on_both};

/// `run -s` with a job that reads until its standard input is closed; the file of this name shows that it runs.
#[track_caller]
fn reader(store: &Store, file: &str, flags: &[&str]) -> Running {
    fs::remove_file(store.path(file)).ok();
    let script = format!("echo > {file}; exec cat");
    let job = ["job", "--", "sh", "-c", &script];
    let running = store.start(&[&["run", "-s"], flags, &job].concat());
    store.line_in(file);
    store.until_known();
    running
}

#[test]
fn readers_run_at_the_same_time_and_exclude_the_one_that_runs_alone() {
    on_both(|store| {
        let one = reader(store, "one", &[]);
        let other = reader(store, "other", &["-w", "10s"]);
        let alone = ["run", "-n", "job", "--", "touch", "ran"];
        let busy = store
            .run(&alone)
            .refuses(75, "`job` is held by 2 readers: ");
        assert_eq!(busy.err.matches("sh[").count(), 2, "{busy:?}");
        store
            .run(&["run", "-n", "-E", "9", "job", "--", "true"])
            .gives(9);
        one.end().gives(0);
        let busy = store.run(&alone);
        busy.refuses(75, "`job` is held by 1 reader: ");
        other.end().gives(0);
        store.run(&alone).gives(0);
        assert!(store.path("ran").exists());
    });
}

#[test]
fn one_that_runs_alone_keeps_readers_out_until_it_has_ended() {
    on_both(|store| {
        let alone = store.hold(&[]);
        let reads = ["run", "-s", "-n", "job", "--", "true"];
        store.run(&reads).refuses(75, "`job` is held by sh[");
        let script = "echo > read; exec cat";
        let waits = store.start(&["run", "-s", "job", "--", "sh", "-c", script]);
        store.until_queued(1);
        assert_eq!(store.status()["queue"][0]["mode"], "shared");
        assert!(!store.path("read").exists());
        alone.end().gives(0);
        store.line_in("read");
        store.run(&reads).gives(0);
        waits.end().gives(0);
    });
}

#[test]
fn a_reader_that_comes_later_is_behind_the_one_that_waits_to_run_alone() {
    on_both(|store| {
        let first = reader(store, "first", &[]);
        let alone = store.start(&["run", "job", "--", "touch", "alone"]);
        store.until_queued(1);
        let later = ["run", "-s", "-n", "job", "--", "true"];
        let busy = store.run(&later).refuses(75, "is held by 1 reader: ");
        assert!(busy.err.contains("; 1 ahead in the queue"), "{busy:?}");
        first.end().gives(0);
        alone.end().gives(0);
        store.run(&later).gives(0);
    });
}

#[test]
fn status_ls_wait_and_break_show_the_readers() {
    on_both(|store| {
        let readers = [reader(store, "one", &[]), reader(store, "other", &[])];
        let seen = store.status();
        assert_eq!(
            (&seen["state"], &seen["holder"]),
            (&"shared".into(), &().into())
        );
        assert_eq!(seen["holder_count"], 2);
        let holders = seen["holders"].as_array().unwrap();
        let fence = &holders[0]["fence"];
        assert!(fence.as_u64().unwrap() > 0);
        for holder in holders {
            assert_eq!(
                (&holder["mode"], &holder["fence"]),
                (&"shared".into(), fence)
            );
            assert!(holder["remaining_ms"].as_u64().unwrap() > 0);
        }
        let text = store.run(&["status", "job"]).gives(0).out;
        assert!(text.starts_with("job: held by 2 readers\n"), "{text}");
        assert_eq!(text.matches("  - sh[").count(), 2, "{text}");
        assert_eq!(text.matches(": reads; expires in ").count(), 2, "{text}");
        assert_eq!(store.run(&["ls", "--names"]).gives(0).out, "job\n");
        assert_eq!(store.run(&["status"]).gives(0).out.lines().count(), 3);
        let table = store.run(&["ls"]).gives(0).out;
        let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            (&row[..2], &row[3..5]),
            (&["job", "read"][..], &["2", "holders"][..])
        );
        store
            .run(&["wait", "-n", "job"])
            .refuses(75, "`job` is held by 2 readers: ");
        let waited = store.run(&["wait", "-n", "--json", "job"]).gives(75);
        let waited = object(&waited.out);
        assert_eq!(
            (&waited["held"], &waited["holder"]),
            (&true.into(), &().into())
        );
        assert_eq!(waited["holders"].as_array().unwrap().len(), 2);
        let broken = store.run(&["break", "--now", "--yes", "job"]).gives(0);
        assert!(
            broken.err.contains("`job` was taken from all 2 holders"),
            "{broken:?}"
        );
        assert_eq!(store.status()["state"], "free");
        for reader in readers {
            reader.end_with_stdin_open().gives(79);
        }
    });
}

#[test]
fn the_lock_of_a_killed_reader_is_free_after_its_ttl_on_a_server() {
    let store = Store::redis();
    let mut killed = reader(&store, "one", &["--ttl", "1s"]);
    killed.kill();
    store
        .run(&["run", "-w", "20s", "job", "--", "touch", "ran"])
        .gives(0);
    assert!(store.path("ran").exists());
}

#[test]
fn the_lock_of_a_reader_that_is_killed_with_its_job_is_free_at_once_in_a_folder() {
    let store = Store::file();
    let script = "echo $$ > one; exec cat";
    let mut killed = store.start(&["run", "-s", "--ttl", "10m", "job", "--", "sh", "-c", script]);
    let job: u32 = store.line_in("one").parse().unwrap();
    killed.kill();
    testkit::process::signal(job, testkit::process::Signal::KILL);
    store
        .run(&["run", "-w", "20s", "job", "--", "true"])
        .gives(0);
}

#[test]
fn a_reader_learns_the_fence_of_its_phase_and_ends_as_its_job_does() {
    on_both(|store| {
        let fence = |flags: &[&str]| -> u64 {
            let job = ["job", "--", "sh", "-c", "echo $LEASELOCK_FENCE"];
            let done = store.run(&[&["run"], flags, &job].concat()).gives(0);
            done.out.trim().parse().unwrap()
        };
        let (before, reads, after) = (fence(&[]), fence(&["-s"]), fence(&[]));
        assert!(before < reads && reads < after);
        store
            .run(&["run", "-s", "job", "--", "sh", "-c", "exit 3"])
            .gives(3);
    });
}

#[test]
fn a_wait_that_an_ancestor_who_reads_would_never_end_is_refused() {
    on_both(|store| {
        let program = env!("CARGO_BIN_EXE_leaselock");
        let inner = ["run", "job", "--", "true"];
        let outer = ["run", "-s", "job", "--", program];
        store
            .run(&[&outer[..], &inner[..]].concat())
            .refuses(75, "is held by an ancestor of this process");
        let beside = ["run", "-s", "job", "--", "true"];
        store.run(&[&outer[..], &beside[..]].concat()).gives(0);
    });
}

#[test]
fn readers_of_several_servers_of_other_libraries_or_with_a_note_are_usage_errors() {
    let store = Store::file();
    let several = "redis://127.0.0.1:1 redis://127.0.0.1:2 redis://127.0.0.1:3";
    let cases: [(&[&str], &str); 6] = [
        (&["-s", "-x"], "cannot be used with"),
        (&["-s", "-e"], "cannot be used with"),
        (
            &["-s", "--url", several],
            "--shared is not available on a majority of servers (3 given): name one with --url",
        ),
        (&["-s", "--like", "redis-py"], "--shared and --like"),
        (&["-s", "--protocol", "redisson"], "--shared and --protocol"),
        (&["-s", "--note", "x"], "leave --note out"),
    ];
    for (flags, right) in cases {
        store
            .run(&[&["run"], flags, &["job", "--", "touch", "ran"]].concat())
            .refuses(64, right);
    }
    assert!(!store.path("ran").exists());
}
