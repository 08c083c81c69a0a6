//! `leaselock run NAME --also OTHER`: several locks around one job.

use leaselock::Sequencer;
use testkit::process::is_alive;

use crate::common::{Running, Store, object, on_both, until};

/// `run from --also to` with these flags, and a job that goes on until its standard input is closed.
#[track_caller]
fn transfer(store: &Store, flags: &[&str]) -> Running {
    let script = "printf '%s\\n' \"$LEASELOCK_FENCES\" > fences; echo \"$LEASELOCK_NAME $LEASELOCK_FENCE\" > fence; \
                  printf '%s\\n' \"$LEASELOCK_SEQUENCER\" > sequencers; echo $$ > held; exec cat";
    let job = ["from", "--also", "to", "--", "sh", "-c", script];
    let running = store.start(&[&["run"], flags, &job].concat());
    store.line_in("held");
    running
}

#[track_caller]
fn is_busy(store: &Store, name: &str) {
    let said = format!("`{name}` is held by ");
    let run = ["run", "-n", name, "--", "touch", "ran"];
    store.run(&run).refuses(75, &said);
}

#[track_caller]
fn is_free(store: &Store, name: &str) {
    let run = ["run", "-n", name, "--", "true"];
    store.run(&run).gives(0);
}

#[test]
fn the_job_runs_while_every_lock_is_held_and_has_the_fence_of_each() {
    on_both(|store| {
        let running = transfer(store, &["--also", "my fees"]);
        for name in ["from", "to", "my fees"] {
            is_busy(store, name);
        }
        let more = ["run", "-n", "a", "--also", "z", "--also", "to"];
        let more = [&more[..], &["--", "touch", "ran"]].concat();
        store.run(&more).refuses(75, "`to` is held by ");
        assert!(!store.path("ran").exists());
        for free in ["a", "z"] {
            is_free(store, free);
        }
        running.end().gives(0);
        for name in ["from", "to", "my fees"] {
            is_free(store, name);
        }
        let fences = store.lines("fences");
        let fences: Vec<_> = fences
            .iter()
            .map(|line| line.split_once(' ').unwrap())
            .collect();
        let names: Vec<&str> = fences.iter().map(|(_, name)| *name).collect();
        assert_eq!(names, ["from", "my fees", "to"]);
        assert!(fences.iter().all(|(fence, _)| fence.parse::<u64>().is_ok()));
        assert_eq!(store.lines("fence"), [format!("from {}", fences[0].0)]);
        let shown = store.lines("sequencers");
        let shown = shown.iter().map(|line| line.parse::<Sequencer>().unwrap());
        let shown = shown.map(|shown| (shown.fence().to_string(), shown.name().to_string()));
        let fences = fences
            .iter()
            .map(|(fence, name)| ((*fence).to_owned(), (*name).to_owned()));
        assert_eq!(shown.collect::<Vec<_>>(), fences.collect::<Vec<_>>());
    });
}

#[test]
fn a_job_of_one_name_has_no_list_of_fences_not_even_that_of_an_outer_run() {
    let store = Store::file();
    let program = env!("CARGO_BIN_EXE_leaselock");
    let inner = "echo \"<$LEASELOCK_FENCES>\" > inner";
    let outer = ["run", "a", "--also", "b", "--", program, "run", "c", "-c"];
    store.run(&[&outer[..], &[inner]].concat()).gives(0);
    assert_eq!(store.line_in("inner"), "<>");
}

#[test]
fn runs_that_name_the_same_locks_in_other_orders_all_end() {
    on_both(|store| {
        let script = "mkdir inside || echo two >> log; sleep 0.05; rmdir inside; echo ran >> log";
        let orders = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]];
        let runs: Vec<Running> = orders
            .iter()
            .chain(&orders)
            .map(|[one, two, three]| {
                let names = ["run", one, "--also", two, "--also", three];
                store.start(&[&names[..], &["--", "sh", "-c", script]].concat())
            })
            .collect();
        for run in runs {
            run.end().gives(0);
        }
        assert_eq!(store.lines("log"), ["ran"; 6]);
    });
}

#[test]
fn the_loss_of_one_lock_ends_the_job_and_is_told_with_its_name() {
    on_both(|store| {
        let running = transfer(store, &["--ttl", "1s", "--json"]);
        let job: u32 = store.line_in("held").parse().unwrap();
        store.run(&["break", "--yes", "to"]).gives(0);
        let done = running.end_with_stdin_open().gives(79);
        let first = done.err.lines().next().unwrap();
        let told = object(first)["text"].as_str().unwrap().to_owned();
        assert!(told.starts_with("lost `to`: "), "{done:?}");
        assert!(!is_alive(job));
        is_free(store, "from");
    });
}

/// The other lock is renewed still, but the job must be dead before the first of them is free.
#[test]
fn the_job_ends_before_the_first_of_its_locks_expires() {
    let store = Store::redis();
    let beats = "trap '' TERM; echo $$ > job; while echo beat >> log; do sleep 0.01; done";
    let run = ["run", "--ttl", "2s", "from", "--also", "to"];
    let running = store.start(&[&run[..], &["--", "sh", "-c", beats]].concat());
    let job: u32 = store.line_in("job").parse().unwrap();
    let state = "state=$(sed -n 's/^State:.//p' /proc/$(cat job)/status 2>&1 | cut -c1); echo \"next finds ${state:-Z}\" >> log";
    let next = store.start(&["run", "to", "--", "sh", "-c", state]);
    let seen = || object(&store.run(&["status", "--json", "to"]).out);
    until("a waiter", || {
        seen()["queue"].as_array().unwrap().len() == 1
    });
    running.stop();
    next.end().gives(0);
    let log = store.lines("log");
    let at = log.iter().position(|line| line.starts_with("next"));
    assert_eq!(log[at.unwrap()..], ["next finds Z"]);
    assert!(!is_alive(job));
}

#[test]
fn in_a_folder_a_killed_wrapper_leaves_every_lock_to_its_job_or_frees_every_lock() {
    let store = Store::file();
    let mut keeps = transfer(&store, &["--ttl", "10m"]);
    let job: u32 = store.line_in("held").parse().unwrap();
    let input = keeps.take_stdin();
    keeps.kill();
    assert!(is_alive(job));
    for name in ["from", "to"] {
        is_busy(&store, name);
    }
    drop(input);
    for name in ["from", "to"] {
        store.run(&["run", name, "--", "true"]).gives(0);
    }
    std::fs::remove_file(store.path("held")).unwrap();
    let mut frees = transfer(&store, &["--ttl", "10m", "-o"]);
    let input = frees.take_stdin();
    frees.kill();
    for name in ["from", "to"] {
        store.run(&["run", name, "--", "true"]).gives(0);
    }
    drop(input);
}

#[test]
fn a_wait_tells_which_lock_is_busy() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let waits = store.start(&["-v", "run", "all", "--also", "job", "--", "true"]);
        until("its first line", || waits.said().contains('\n'));
        let pid = holder.pid();
        holder.end().gives(0);
        let done = waits.end().gives(0);
        let told: Vec<&str> = done.err.lines().collect();
        let queued = format!("leaselock: all, job: queued at position 1; job held by sh[{pid}]");
        assert!(told[0].starts_with(&queued), "{told:?}");
        assert!(
            told[1].contains(" (fences ") && told[1].ends_with(" job)"),
            "{told:?}"
        );
    });
}

#[test]
fn a_lock_that_an_ancestor_holds_ends_the_wait_at_once() {
    on_both(|store| {
        let program = env!("CARGO_BIN_EXE_leaselock");
        let inner = ["run", "a", "--also", "job", "--", "touch", "ran"];
        let outer = ["run", "job", "--", program];
        let done = store.run(&[&outer[..], &inner].concat());
        done.refuses(75, "`job` is held by an ancestor of this process");
        assert!(!store.path("ran").exists());
    });
}

#[test]
fn what_cannot_be_had_with_several_locks_is_refused_with_what_would_be_right() {
    let store = Store::redis();
    for (flags, says) in [
        (&["-s", "--also", "b"][..], "--also and --shared"),
        (&["--permits", "2", "--also", "b"], "--also and --permits"),
        (
            &["--protocol", "redisson", "--also", "b"],
            "--also and --protocol",
        ),
        (&["--also", "job"], "`job` occurs twice"),
        (&["--also", ""], "at least one byte"),
    ] {
        let run = [&["run"], flags, &["job", "--", "touch", "ran"]].concat();
        store.run(&run).refuses(64, says);
    }
    assert!(!store.path("ran").exists());
}
