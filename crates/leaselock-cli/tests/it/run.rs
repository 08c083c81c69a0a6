//! `leaselock run`: the lock around a job, and the job as if there were no lock.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use crate::common::{Running, Store, on_both, until};

#[test]
fn while_one_holds_a_second_without_patience_is_busy_and_does_not_run() {
    on_both(|store| {
        let holder = store.hold(&["--note", "the nightly report"]);
        until("the note", || {
            store.status()["holder"]["note"] == "the nightly report"
        }); // it is written while the job starts
        let second = ["run", "-n", "job", "--", "touch", "ran"];
        let busy = store
            .run(&second)
            .refuses(75, "leaselock: `job` is held by ");
        assert!(busy.err.contains(": the nightly report; "), "{busy:?}");
        store
            .run(&["run", "-n", "-E", "9", "job", "--", "touch", "ran"])
            .gives(9);
        store
            .run(&["run", "-w", "50ms", "job", "--", "touch", "ran"])
            .gives(75);
        assert!(!store.path("ran").exists());
        let silent = store.run(&[&second[..2], &["-q"], &second[2..]].concat());
        assert_eq!(silent.gives(75).err, "");
        holder.end().gives(0);
        store.run(&second).gives(0);
        assert!(store.path("ran").exists());
    });
}

#[test]
fn a_second_that_waits_starts_after_the_first_has_ended() {
    on_both(|store| {
        let first = "echo first starts >> log; echo > begun; cat; echo first ends >> log";
        let first = store.start(&["run", "job", "--", "sh", "-c", first]);
        store.line_in("begun");
        let second = [
            "run",
            "-w",
            "30",
            "job",
            "--",
            "sh",
            "-c",
            "echo second >> log",
        ];
        let second = store.start(&second);
        store.until_queued(1);
        first.end().gives(0);
        second.end().gives(0);
        assert_eq!(store.lines("log"), ["first starts", "first ends", "second"]);
    });
}

/// The holder lets go while the second waits, and a lease that is handed over is short at first: shorter than the time
/// that is kept for the end of this job.
#[test]
fn a_lock_that_is_handed_over_is_whole_before_the_job_starts() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let second = [
            "run", "--ttl", "60s", "-k", "20s", "job", "--", "touch", "ran",
        ];
        let second = store.start(&second);
        store.until_queued(1);
        holder.end().gives(0);
        second.end().gives(0);
        assert!(store.path("ran").exists());
    });
}

#[test]
fn a_lock_that_is_handed_over_and_cannot_be_made_whole_starts_no_job_and_is_given_back() {
    let store = Store::redis();
    let server = store.server();
    let rights = [
        "ACL", "SETUSER", "weak", "on", ">secret", "~*", "&*", "+@all",
    ];
    assert!(!server.cli(&rights).is_error());
    let holder = store.hold(&[]);
    let mut second = store.leaselock(&["run", "--ttl", "60s", "job", "--", "touch", "ran"]);
    let url = format!("redis://weak:secret@127.0.0.1:{}", server.port());
    second.env("LEASELOCK_URL", url);
    let second = Running::start(second);
    store.until_queued(1);
    assert!(
        !server
            .cli(&["ACL", "SETUSER", "weak", "-pexpire"])
            .is_error()
    );
    holder.end().gives(0);
    second.end().refuses(77, "leaselock: `job`: ");
    assert_eq!(store.status()["state"], "free");
    assert!(!store.path("ran").exists());
}

#[test]
fn the_jobs_own_end_is_the_end_of_run() {
    on_both(|store| {
        for (script, code) in [
            ("exit 0", 0),
            ("exit 3", 3),
            ("kill -9 $$", 137),
            ("exit 255", 255),
        ] {
            store
                .run(&["run", "job", "--", "sh", "-c", script])
                .gives(code);
        }
        store
            .run(&["run", "job", "no-such-program"])
            .refuses(127, "no-such-program: not found");
        store
            .run(&["run", "job", "--", ""])
            .refuses(127, "say what to run");
        store
            .run(&["run", "job", "/etc/passwd"])
            .refuses(126, "/etc/passwd: Permission denied");
        // None of these ends left the lock behind.
        assert_eq!(store.status()["state"], "free");
    });
}

#[test]
fn input_and_arguments_reach_the_job_byte_for_byte() {
    let store = Store::file();
    let mut command =
        store.leaselock(&["run", "job", "sh", "-c", "cat; cat /proc/$$/cmdline", "x"]);
    command
        .arg(OsStr::from_bytes(b"a\xff b"))
        .args(["-n", "--", "$HOME\n", ""]);
    let mut running = Running::start(command);
    running.write("typed\0");
    let expected = b"typed\0sh\0-c\0cat; cat /proc/$$/cmdline\0x\0a\xff b\0-n\0--\0$HOME\n\0\0";
    assert_eq!(running.end().gives(0).bytes, expected);
}

#[test]
fn the_job_learns_name_fence_and_ttl_and_nothing_that_could_give_the_lock_away() {
    let store = Store::redis();
    // The job's own environment and arguments, and those of every process around it.
    let script = "echo $LEASELOCK_NAME $LEASELOCK_FENCE $LEASELOCK_TTL_MS; \
                  cat /proc/$$/environ /proc/$PPID/environ /proc/[0-9]*/cmdline; echo > ready; cat";
    let mut command = store.leaselock(&["run", "--ttl", "7s", "job", "--", "sh", "-c", script]);
    command
        .env("LEASELOCK_HANDLE", "ll1.of-another")
        .env("LEASELOCK_FENCE", "1");
    let holder = Running::start(command);
    store.line_in("ready");
    let token = store.server().cli(&["GET", "job"]);
    let token = token.text().unwrap().to_owned();
    let fence = store.status()["holder"]["fence"].to_string();
    let out = holder.end().gives(0).out;
    assert!(out.starts_with(&format!("job {fence} 7000\n")), "{out}");
    assert!(token.len() > 22 && !out.contains(&token[..22]), "{out}");
    let own = out.split("LEASELOCK_TTL_MS").next().unwrap();
    assert!(!own.contains("ll1.of-another"), "{own}");
}

fn fence(store: &Store) -> u64 {
    let done = store
        .run(&["run", "job", "-c", "echo $LEASELOCK_FENCE"])
        .gives(0);
    done.out.trim().parse().unwrap()
}

#[test]
fn fences_grow_from_run_to_run_also_when_the_store_has_lost_everything() {
    let (file, redis) = (Store::file(), Store::redis());
    let mut fences = vec![fence(&file), fence(&file)];
    let folder = file.path("locks");
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.unwrap();
    }
    fences.extend([fence(&file), fence(&redis), fence(&redis)]);
    redis.server().cli(&["FLUSHALL"]);
    fences.extend([fence(&redis), fence(&file), fence(&redis)]);
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

#[test]
fn a_script_goes_to_the_users_shell() {
    let store = Store::file();
    let script = ["run", "job", "-c", "echo $0 \"$LEASELOCK_NAME\"; exit 4"];
    assert_eq!(store.run(&script).gives(4).out, "/bin/sh job\n");
    let mut command = store.leaselock(&script);
    command.env("SHELL", "/bin/echo");
    assert_eq!(
        Running::start(command).end().gives(0).out,
        format!("-c {}\n", script[3])
    );
}

#[test]
fn others_see_what_runs_where_and_why_and_who_waits_with_which_priority() {
    on_both(|store| {
        let holder = store.hold(&["--note", "month end"]);
        let waiters = ["0", "7", "-7"].map(|priority| {
            store.start(&[
                "run",
                "--priority",
                priority,
                "job",
                "--",
                "sh",
                "-c",
                "echo $$ >> order",
            ])
        });
        store.until_queued(3);
        let seen = store.status();
        assert_eq!(seen["holder"]["note"], "month end");
        let process = &seen["holder"]["process"];
        assert_eq!(
            (&process["name"], &process["via"]),
            (&"sh".into(), &"run".into())
        );
        assert_eq!(process["version"], env!("CARGO_PKG_VERSION"));
        assert!(!process["user"].as_str().unwrap().is_empty());
        assert_eq!(process["pid"], holder.pid());
        let order: Vec<_> = seen["queue"].as_array().unwrap().iter().collect();
        let priorities: Vec<_> = order
            .iter()
            .map(|place| place["priority"].as_i64().unwrap())
            .collect();
        assert_eq!(priorities, [7, 0, -7]);
        holder.end().gives(0);
        waiters
            .into_iter()
            .for_each(|waiter| drop(waiter.end().gives(0)));
    });
}

#[test]
fn the_longest_hold_ends_the_job_and_frees_the_lock() {
    on_both(|store| {
        let beats = "trap '' TERM; while echo beat >> log; do sleep 0.02; done";
        let flags = [
            "run",
            "--ttl",
            "1s",
            "--max-hold",
            "1.5s",
            "job",
            "--",
            "sh",
            "-c",
        ];
        let held = store.run(&[&flags[..], &[beats]].concat()).gives(79);
        assert!(held.err.contains("`job`"), "{held:?}");
        let before = store.lines("log").len();
        store
            .run(&["run", "-n", "job", "--", "sh", "-c", "echo next >> log"])
            .gives(0);
        assert_eq!(store.lines("log").len(), before + 1);
    });
}
