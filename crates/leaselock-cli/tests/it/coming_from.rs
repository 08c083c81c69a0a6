//! What users of other lock commands find here: the rows of docs/from-shell.md that name this file.

use std::collections::BTreeSet;

use testkit::process::{Signal, is_alive};

use crate::common::{Store, object, on_both, until};

const PAGE: &str = include_str!("../../../../docs/from-shell.md");
const THIS: &str = include_str!("coming_from.rs");

#[test]
fn each_test_here_has_a_row_and_each_row_a_test() {
    let links = PAGE.split(" | [").skip(1).filter_map(|rest| {
        let (name, file) = rest.split_once("](")?;
        file.starts_with("../crates/leaselock-cli/tests/it/coming_from.rs)")
            .then_some(name)
    });
    let named: BTreeSet<&str> = links.collect();
    let tests = THIS.split("#[test]\nfn ").skip(1);
    let tests: BTreeSet<&str> = tests
        .filter_map(|rest| rest.split('(').next())
        .filter(|name| *name != "each_test_here_has_a_row_and_each_row_a_test")
        .collect();
    assert_eq!(named, tests);
    assert!(tests.len() > 10);
}

#[test]
fn a_command_or_a_script_runs_alone_and_its_exit_code_is_kept() {
    on_both(|store| {
        let holder = store.hold(&[]);
        store.run(&["run", "-n", "job", "--", "true"]).gives(75);
        holder.end().gives(0);
        let done = store.run(&["run", "job", "--", "sh", "-c", "echo $0; exit 3", "a b"]);
        assert_eq!(done.gives(3).out, "a b\n");
        let done = store.run(&["run", "job", "-c", "echo one | tr o 0; exit 4"]);
        assert_eq!(done.gives(4).out, "0ne\n");
    });
}

#[test]
fn not_waiting_waiting_and_the_exit_code_are_as_with_flock() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let busy = |flags: &[&str]| {
            let line = [&["run"], flags, &["job", "--", "touch", "ran"]].concat();
            store.run(&line).code
        };
        assert_eq!(busy(&["-n"]), 75);
        assert_eq!(busy(&["-w", "0.05"]), 75);
        assert_eq!(busy(&["-n", "-E", "1"]), 1);
        for exclusive in ["-x", "-e", "--exclusive"] {
            assert_eq!(busy(&[exclusive, "--nb"]), 75);
            assert_eq!(busy(&[exclusive, "--timeout", "0.05"]), 75);
        }
        assert_eq!(busy(&["-n", "--conflict-exit-code", "4"]), 4);
        assert!(!store.path("ran").exists());
        let waits = store.start(&["run", "-w", "30", "job", "--", "touch", "ran"]);
        store.until_queued(1);
        holder.end().gives(0);
        waits.end().gives(0);
        assert!(store.path("ran").exists());
    });
}

#[test]
fn in_a_folder_the_lock_lives_as_long_as_the_job() {
    let store = Store::file();
    let mut wrapper = store.hold(&["--ttl", "10m"]);
    let job: u32 = store.line_in("held").parse().unwrap();
    let input = wrapper.take_stdin();
    wrapper.kill();
    assert!(is_alive(job));
    store.run(&["run", "-n", "job", "--", "true"]).gives(75);
    drop(input); // the job has what it waits for, and ends
    store
        .run(&["run", "-w", "30", "job", "--", "true"])
        .gives(0);
    assert!(!is_alive(job));
}

#[test]
fn with_close_a_job_ends_with_its_wrapper() {
    let store = Store::file();
    let mut wrapper = store.hold(&["-o", "--ttl", "2s"]);
    let job: u32 = store.line_in("held").parse().unwrap();
    let _input = wrapper.take_stdin();
    wrapper.kill();
    until("the end of the job", || !is_alive(job));
    store
        .run(&["run", "-w", "30", "job", "--", "true"])
        .gives(0);
}

#[test]
fn a_script_takes_and_gives_back_with_a_handle() {
    on_both(|store| {
        let script = format!(
            "set -e; handle=$({leaselock} acquire --ttl 10m job); \
             if {leaselock} run -n job -- true 2>/dev/null; then exit 1; fi; \
             printf %s \"$handle\" | {leaselock} release; \
             {leaselock} run -n job -- echo mine",
            leaselock = env!("CARGO_BIN_EXE_leaselock")
        );
        let done = crate::common::Running::start(store.command("sh", &["-c", &script]));
        assert_eq!(done.end().gives(0).out, "mine\n");
    });
}

#[test]
fn a_shared_lock_is_held_beside_others_and_excludes_one_alone() {
    on_both(|store| {
        let leaselock = env!("CARGO_BIN_EXE_leaselock");
        let script = format!(
            "{leaselock} run -s -n job -- true || exit 1; {leaselock} run -n job -- true && exit 2; exit 0"
        );
        store.run(&["run", "-s", "job", "-c", &script]).gives(0);
    });
}

#[test]
fn standard_input_reaches_the_job() {
    on_both(|store| {
        let done = store.run_with_input(&["run", "job", "--", "cat"], "a line\n");
        assert_eq!(done.gives(0).out, "a line\n");
    });
}

#[test]
fn the_job_learns_name_fence_and_ttl() {
    on_both(|store| {
        let say = "echo $LEASELOCK_NAME $LEASELOCK_FENCE $LEASELOCK_TTL_MS $LEASELOCK_SEQUENCER";
        let told = || {
            let done = store
                .run(&["run", "--ttl", "7s", "job", "-c", say])
                .gives(0);
            let words: Vec<_> = done.out.split_whitespace().map(str::to_owned).collect();
            assert_eq!((&*words[0], &*words[2]), ("job", "7000"));
            let shown: leaselock::Sequencer = words[3].parse().unwrap();
            assert_eq!(
                (shown.name().as_str(), shown.fence().to_string()),
                ("job", words[1].clone())
            );
            words[1].parse::<u64>().unwrap()
        };
        let first = told();
        assert!(told() > first, "the fence grows");
    });
}

#[test]
fn a_job_whose_lease_is_lost_is_ended() {
    let store = Store::redis();
    let script =
        "trap 'echo asked >> log; exit 0' USR1; echo $$ > job; while sleep 0.01; do :; done";
    let flags = ["run", "--ttl", "3s", "-k", "1s", "--signal", "USR1"];
    let line = [&flags[..], &["job", "--", "sh", "-c", script]].concat();
    let wrapper = store.start(&line);
    let job: u32 = store.line_in("job").parse().unwrap();
    store.run(&["break", "-y", "job"]).gives(0);
    wrapper.end().gives(79);
    assert!(!is_alive(job));
    assert_eq!(store.read("log"), "asked\n");
}

#[test]
fn a_limit_of_holders_is_a_number_of_permits() {
    on_both(|store| {
        let holder = store.hold(&["--permits", "2"]);
        let another = |count: &str| {
            let line = ["run", "-n", "--permits", count, "job", "--", "true"];
            store.run(&line).code
        };
        assert_eq!((another("2"), another("1")), (0, 75));
        holder.end().gives(0);
        assert_eq!(another("1"), 0);
    });
}

#[test]
fn a_note_says_why() {
    on_both(|store| {
        let _holder = store.hold(&["--note", "month end"]);
        until("the note", || {
            store.status()["holder"]["note"] == "month end"
        });
    });
}

#[test]
fn a_signal_ends_the_job_and_gives_the_lock_back() {
    on_both(|store| {
        let line = [
            "run",
            "job",
            "--",
            "sh",
            "-c",
            "echo > held; exec sleep infinity",
        ];
        let holder = store.start(&line);
        store.line_in("held");
        store.run(&["run", "-n", "job", "--", "true"]).gives(75);
        holder.signal(Signal::TERM);
        holder.end().gives(143);
        store.run(&["run", "-n", "job", "--", "true"]).gives(0);
    });
}

#[test]
fn a_bare_ttl_is_seconds() {
    on_both(|store| {
        let taken = store
            .run(&["acquire", "--json", "--ttl", "45", "job"])
            .gives(0);
        assert_eq!(object(&taken.out)["ttl_ms"], 45_000);
        let taken = store.run(&["acquire", "--json", "other"]).gives(0);
        assert_eq!(object(&taken.out)["ttl_ms"], 10_000);
    });
}

#[test]
fn waiters_are_served_in_the_order_of_arrival() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let waiters: Vec<_> = (1..=3)
            .map(|place| {
                let script = format!("echo {place} >> log");
                let waiter = store.start(&["run", "job", "-c", &script]);
                store.until_queued(place);
                waiter
            })
            .collect();
        holder.end().gives(0);
        for waiter in waiters {
            waiter.end().gives(0);
        }
        assert_eq!(store.lines("log"), ["1", "2", "3"]);
    });
}
