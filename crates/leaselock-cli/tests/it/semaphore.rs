//! `leaselock run --permits N` and `leaselock permits`: so many at a time.

use std::fs;

use crate::common::{Running, Store, object, on_both, until};

/// `run --permits …` with a job that goes on until its standard input is closed; the file of this name shows that it
/// runs.
#[track_caller]
fn job(store: &Store, file: &str, flags: &[&str]) -> Running {
    fs::remove_file(store.path(file)).ok();
    let script = format!("echo > {file}; exec cat");
    let job = ["job", "--", "sh", "-c", &script];
    let running = store.start(&[&["run", "--permits"], flags, &job].concat());
    store.line_in(file);
    store.until_known();
    running
}

/// What `permits --json` says.
#[track_caller]
fn permits(store: &Store, words: &[&str]) -> (u64, u64, bool) {
    let said = store.run(&[&["permits", "--json", "job"], words].concat());
    let permits = &object(&said.gives(0).out)["permits"];
    let number = |field: &str| permits[field].as_u64().unwrap();
    (
        number("total"),
        number("used"),
        permits["pinned"].as_bool().unwrap(),
    )
}

#[test]
fn four_of_ten_jobs_run_at_a_time() {
    on_both(|store| {
        let script = "echo begins >> log; mkdir at.$$; ls -d at.* | wc -l >> most; sleep 0.2; rmdir at.$$; \
                      echo ends >> log";
        let jobs: Vec<Running> = (0..10)
            .map(|_| store.start(&["run", "--permits", "4", "job", "--", "sh", "-c", script]))
            .collect();
        for job in jobs {
            job.end().gives(0);
        }
        let most = store.lines("most");
        let most: Vec<u32> = most
            .iter()
            .map(|line| line.trim().parse().unwrap())
            .collect();
        assert_eq!((most.len(), store.lines("log").len()), (10, 20));
        assert!(most.iter().all(|count| *count <= 4), "{most:?}");
        assert!(most.iter().any(|count| *count > 1), "{most:?}");
        assert_eq!(permits(store, &[]), (4, 0, false));
    });
}

#[test]
fn busy_says_how_many_permits_are_free_and_a_plain_run_waits_for_all() {
    on_both(|store| {
        let held = job(store, "held", &["4", "--take", "3"]);
        let busy = store.run(&[
            "run",
            "-n",
            "--permits",
            "4",
            "--take",
            "2",
            "job",
            "--",
            "true",
        ]);
        let busy = busy.refuses(
            75,
            "`job` is held by 1 holder of permits (1 of 4 is free): ",
        );
        assert!(busy.err.contains("sh["), "{busy:?}");
        store
            .run(&["run", "-n", "--permits", "4", "job", "--", "true"])
            .gives(0);
        let alone = store.start(&["run", "job", "--", "touch", "drained"]);
        store.until_queued(1);
        let one = ["run", "-n", "--permits", "4", "job", "--", "true"];
        let busy = store.run(&one).refuses(75, "(1 of 4 is free)");
        assert!(busy.err.contains("; 1 ahead in the queue"), "{busy:?}");
        store
            .run(&["run", "-n", "-s", "job", "--", "true"])
            .refuses(75, "holder of permits");
        assert!(!store.path("drained").exists());
        held.end().gives(0);
        alone.end().gives(0);
        store.run(&one).gives(0);
    });
}

#[test]
fn permits_of_a_name_that_is_held_otherwise_shows_its_holder() {
    on_both(|store| {
        store.run(&["permits", "job", "set", "2"]).gives(0);
        store.run(&["acquire", "--ttl", "10m", "job"]).gives(0);
        let text = store.run(&["permits", "job"]).gives(0).out;
        let holder = "job: held by leaselock acquire[";
        let permits = "\n  0 of 2 permits are used, set by an operator\n";
        assert!(
            text.starts_with(holder) && text.ends_with(permits),
            "{text}"
        );
    });
}

#[test]
fn permits_shows_who_holds_how_many_and_sets_and_unsets_their_number() {
    on_both(|store| {
        let nothing = store.run(&["permits", "job"]).gives(0).out;
        assert!(
            nothing.starts_with("job: no permits are known"),
            "{nothing}"
        );
        let held = job(store, "held", &["2", "--take", "2"]);
        let text = store.run(&["permits", "job"]).gives(0).out;
        assert!(text.starts_with("job: 2 of 2 permits are used\n"), "{text}");
        assert!(
            text.contains(": 2 permits for ") && text.contains("; fence "),
            "{text}"
        );
        let waits = store.start(&["run", "--permits", "2", "job", "--", "touch", "ran"]);
        store.until_queued(1);
        let text = store.run(&["permits", "job"]).gives(0).out;
        assert!(
            text.contains("  1. ") && text.contains(", for 1 permit\n"),
            "{text}"
        );
        assert_eq!(permits(store, &["set", "3"]).0, 3);
        waits.end().gives(0);
        assert_eq!(permits(store, &[]), (3, 2, true));
        let text = store.run(&["permits", "job"]).gives(0).out;
        assert!(text.contains("are used, set by an operator\n"), "{text}");
        // What a run says of the number does not count now.
        let nine = [
            "run",
            "-n",
            "--permits",
            "9",
            "--take",
            "2",
            "job",
            "--",
            "true",
        ];
        store.run(&nine).refuses(75, "(1 of 3 is free)");
        assert!(!permits(store, &["unset"]).2);
        store.run(&nine).gives(0);
        assert_eq!(permits(store, &[]).0, 9);
        held.end().gives(0);
    });
}

#[test]
fn more_than_an_operator_allows_is_busy_and_not_a_wrong_command() {
    on_both(|store| {
        permits(store, &["set", "2"]);
        let three = [
            "run",
            "--permits",
            "4",
            "--take",
            "3",
            "job",
            "--",
            "touch",
            "ran",
        ];
        store
            .run(&three)
            .refuses(75, "permits were requested, and there are 2");
        let own = [
            "run",
            "-E",
            "9",
            "--permits",
            "4",
            "--take",
            "3",
            "job",
            "--",
            "true",
        ];
        store.run(&own).gives(9);
        assert!(!store.path("ran").exists());
    });
}

#[test]
fn status_ls_and_break_know_holders_of_permits() {
    on_both(|store| {
        let small = job(store, "small", &["4"]);
        let large = job(store, "large", &["4", "--take", "2"]);
        let seen = store.status();
        assert_eq!(
            (&seen["state"], &seen["holder_count"]),
            (&"shared".into(), &2.into())
        );
        let holders = seen["holders"].as_array().unwrap();
        let of = |count: u64| {
            let mut found = holders.iter().filter(|one| one["permits"] == count);
            found.next().unwrap()["fence"].as_u64().unwrap()
        };
        let (first, second) = (of(1), of(2));
        assert!(first < second);
        let text = store.run(&["status", "job"]).gives(0).out;
        assert!(
            text.starts_with("job: held by 2 holders of permits (1 of 4 is free)\n"),
            "{text}"
        );
        assert_eq!(store.run(&["ls", "--names"]).gives(0).out, "job\n");
        let fence = second.to_string();
        let broken = store
            .run(&["break", "--json", "--fence", &fence, "job"])
            .gives(0);
        let broken = &object(&broken.out)["broken"];
        assert_eq!(
            (&broken["fence"], &broken["holders"]),
            (&second.into(), &1.into())
        );
        large.end_with_stdin_open().gives(79);
        assert_eq!(permits(store, &[]), (4, 1, false));
        store.run(&["break", "--yes", "job"]).gives(0);
        small.end_with_stdin_open().gives(79);
        assert_eq!(permits(store, &[]), (4, 0, false));
    });
}

#[test]
fn the_permits_of_a_killed_job_come_back_after_its_ttl_on_a_server() {
    let store = Store::redis();
    let mut killed = job(&store, "held", &["1", "--ttl", "1s"]);
    killed.kill();
    store
        .run(&[
            "run",
            "-w",
            "20s",
            "--permits",
            "1",
            "job",
            "--",
            "touch",
            "ran",
        ])
        .gives(0);
    until("the permit is back", || {
        permits(&store, &[]) == (1, 0, false)
    });
}

#[test]
fn wrong_numbers_of_permits_are_usage_errors_that_say_what_would_be_right() {
    let store = Store::file();
    let several = "redis://127.0.0.1:1 redis://127.0.0.1:2 redis://127.0.0.1:3";
    let cases: [(&[&str], &str); 12] = [
        (&["--take", "2"], "give --permits N too"),
        (
            &["--permits", "2", "--take", "3"],
            "give at most 2, or a larger --permits",
        ),
        (&["--permits", "0"], "give 1 or more"),
        (&["--permits", "2", "--take", "0"], "give 1 or more"),
        (&["--permits", "-1"], "invalid value '-1'"),
        (&["--permits", "many"], "invalid value 'many'"),
        (&["--permits", "5000000000"], "invalid value '5000000000'"),
        (&["--permits", "2", "-s"], "give one of the two"),
        (
            &["--permits", "2", "--url", several],
            "is not available on a majority of servers (3 given): name one with --url",
        ),
        (
            &["--permits", "2", "--like", "redis-py"],
            "--permits and --like",
        ),
        (
            &["--permits", "2", "--protocol", "redisson"],
            "--permits and --protocol",
        ),
        (&["--permits", "2", "--note", "x"], "leave --note out"),
    ];
    for (flags, right) in cases {
        store
            .run(&[&["run"], flags, &["job", "--", "touch", "ran"]].concat())
            .refuses(64, right);
    }
    let cases: [(&[&str], &str); 5] = [
        (&["set"], "permits NAME set N"),
        (&["set", "0"], "give 1 or more"),
        (&["unset", "1"], "permits NAME unset"),
        (&["more"], "invalid value 'more'"),
        (
            &["--url", several],
            "is not available on a majority of servers (3 given): name one with --url",
        ),
    ];
    for (words, right) in cases {
        store
            .run(&[&["permits", "job"], words].concat())
            .refuses(64, right);
    }
    assert!(!store.path("ran").exists());
}
