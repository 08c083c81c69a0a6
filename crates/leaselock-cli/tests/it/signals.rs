//! Signals to the wrapper, while it waits and while its job runs.

use std::fs;

use testkit::process::Signal;

use crate::common::{Running, on_both, until};

#[test]
fn a_signal_while_waiting_leaves_the_queue() {
    on_both(|store| {
        let holder = store.hold(&[]);
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
            let waiter = store.start(&["run", "job", "--", "touch", "ran"]);
            store.until_queued(1);
            waiter.signal(signal);
            waiter.end_with_stdin_open().gives(code);
            // At once: an entry that is only skipped would still be there.
            assert_eq!(store.status()["queue"], serde_json::json!([]));
        }
        let waiter = store.start(&["acquire", "job"]);
        store.until_queued(1);
        waiter.signal(Signal::TERM);
        waiter.end_with_stdin_open().refuses(143, "");
        assert_eq!(store.status()["queue"], serde_json::json!([]));
        holder.end().gives(0);
        assert!(!store.path("ran").exists());
        assert_eq!(store.status()["state"], "free");
    });
}

#[test]
fn a_signal_while_the_job_runs_is_the_jobs_to_decide() {
    on_both(|store| {
        let script = "trap 'echo heard > heard; exit 5' TERM; echo > ready; while [ -e ready ]; do sleep 0.02; done";
        let run = store.start(&["run", "job", "--", "sh", "-c", script]);
        store.line_in("ready");
        run.signal(Signal::TERM);
        let done = run.end_with_stdin_open().gives(5);
        store.line_in("heard");
        assert!(!done.err.contains("leaselock"), "{done:?}");
        assert_eq!(store.status()["state"], "free");

        let holder = store.hold(&[]);
        holder.signal(Signal::INT);
        holder.end_with_stdin_open().gives(130);
        assert_eq!(store.status()["state"], "free");
    });
}

#[test]
fn a_hangup_that_was_ignored_at_the_start_stays_ignored_by_waiter_and_job() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let program = env!("CARGO_BIN_EXE_leaselock");
        let job = "grep SigIgn /proc/$$/status > ignored; echo $$ > ready; cat; exit 6";
        let script = "trap '' HUP; exec \"$@\"";
        let words = [
            "-c", script, "sh", program, "run", "job", "--", "sh", "-c", job,
        ];
        let waiter = Running::start(store.command("sh", &words));
        store.until_queued(1);
        let ignores_hangup = |text: &str| {
            let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
            u64::from_str_radix(mask.unwrap().trim(), 16).unwrap() & 1 == 1
        };
        let status = fs::read_to_string(format!("/proc/{}/status", waiter.pid())).unwrap();
        assert!(ignores_hangup(&status), "{status}");
        waiter.signal(Signal::HUP);
        holder.end().gives(0);
        store.line_in("ready");
        assert!(ignores_hangup(&store.read("ignored")));
        waiter.signal(Signal::HUP);
        waiter.end().gives(6);
    });
}

/// The jobs are no shell's: some of them block nothing.
#[test]
fn a_job_has_blocked_what_was_blocked_at_the_start_and_the_wrapper_hears_it_all_the_same() {
    on_both(|store| {
        let start = |words: &[&str]| {
            let program = ["--block-signal=TERM", env!("CARGO_BIN_EXE_leaselock")];
            Running::start(store.command("env", &[&program, words].concat()))
        };
        let script = "/SigBlk/ { print $2 ENVIRON[\"LEASELOCK_BLOCKED\"]; fflush() }";
        let show = ["--", "awk", script, "/proc/self/status"];
        let show = |words: &[&str]| start(&[words, &show].concat());
        let ran = |job: &Running, times: usize| {
            until("the jobs", || job.printed().lines().count() >= times);
            for line in job.printed().lines() {
                assert_eq!(u64::from_str_radix(line, 16), Ok(1 << 14), "{line}");
            }
        };
        for verb in ["run", "once"] {
            ran(&show(&[verb, "job"]), 1);
        }
        let service = show(&["cron", "* * * * * *", "ticks"]);
        ran(&service, 3); // for each tick it becomes the same command anew
        service.signal(Signal::TERM);
        let code = service.end_with_stdin_open().code;
        assert!([0, 143].contains(&code), "{code}"); // it came while a job ran, or while none did
        let words = [
            "elect",
            "--ttl",
            "1s",
            "job",
            "--",
            "awk",
            script,
            "/proc/self/status",
            "-",
        ];
        let leads = start(&words);
        ran(&leads, 1);
        store.run(&["break", "--yes", "job"]).gives(0);
        ran(&leads, 2);
        leads.end().gives(0);
        let holder = store.hold(&[]);
        let waiter = start(&["run", "job", "--", "true"]);
        store.until_queued(1);
        waiter.signal(Signal::TERM);
        waiter.end_with_stdin_open().gives(143);
        holder.end().gives(0);
    });
}

#[test]
fn a_wrapper_that_is_told_to_end_waits_for_its_job_and_keeps_the_lock() {
    on_both(|store| {
        let script = "trap : TERM; echo > ready; while [ -e ready ] && [ ! -e go ]; do sleep 0.02; done; exit 8";
        let run = store.start(&["run", "job", "--", "sh", "-c", script]);
        store.line_in("ready");
        run.signal(Signal::TERM);
        until("the signal taken", || !pending(run.pid()));
        store.run(&["run", "-n", "job", "--", "true"]).gives(75);
        fs::write(store.path("go"), "").unwrap();
        run.end_with_stdin_open().gives(8);
    });
}

/// Whether a signal waits for the process to take it.
fn pending(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    u64::from_str_radix(mask.unwrap().trim(), 16).unwrap() != 0
}
