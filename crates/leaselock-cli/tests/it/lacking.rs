//! A system that does not give what is needed.

use std::process::{Command, Stdio};

use testkit::process::{Signal, children, is_alive, signal};

use crate::common::{Running, Store, on_both, until};

/// The command with so few descriptors.
fn with_files(store: &Store, most: usize, words: &[&str]) -> crate::common::Done {
    let script = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
    let program = env!("CARGO_BIN_EXE_leaselock");
    let words = [&["-c", &script, program], words].concat();
    Running::start(store.command("sh", &words)).end()
}

#[test]
fn too_few_descriptors_are_named_wherever_they_run_out() {
    on_both(|store| {
        for words in [
            &["run", "-n", "job", "--", "true"][..],
            &["run", "-n", "-o", "job", "--", "true"],
            &["acquire", "-n", "--ttl", "60s", "other"],
            &["status", "job"],
            &["doctor"],
        ] {
            // A lock that was taken before the descriptors were used up is given back, or the next try would find it busy.
            let mut enough = false;
            for most in 5..60 {
                let done = with_files(store, most, words);
                if done.code == 0 {
                    enough = true;
                    break;
                }
                let limit = format!("too many open files (limit {most}; ulimit -n raises it)");
                assert!(done.err.contains(&limit), "{words:?}: {done:?}");
                assert_eq!(done.code, 71, "{words:?} {most}: {done:?}");
            }
            assert!(enough, "{words:?}");
        }
    });
}

/// What this process lacks says nothing about the holder: it must not be reported as held.
#[test]
fn a_dead_holder_is_not_taken_for_alive_where_descriptors_run_out() {
    let store = Store::file();
    let mut holder = store.hold(&["--ttl", "10m"]);
    let job: u32 = store.line_in("held").parse().unwrap();
    holder.kill();
    assert!(signal(job, Signal::KILL));
    until("the end of the job", || !is_alive(job));
    let taken = (5..60).find(|most| {
        let done = with_files(&store, *most, &["run", "-n", "job", "--", "true"]);
        assert!([0, 71].contains(&done.code), "{most}: {done:?}");
        done.code == 0
    });
    assert!(taken.is_some());
}

/// Without `/proc`, in name spaces of its own; `None` where such may not be made.
fn without_proc(store: &Store, words: &[&str]) -> Option<crate::common::Done> {
    let hide = "mount -t tmpfs none /proc";
    let mut probe = Command::new("unshare");
    probe.args(["-rm", "sh", "-c", hide]);
    let probe = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        return None;
    }
    let script = format!("{hide} && exec \"$0\" \"$@\"");
    let program = env!("CARGO_BIN_EXE_leaselock");
    let words = [&["-rm", "sh", "-c", &script, program], words].concat();
    Some(Running::start(store.command("unshare", &words)).end())
}

/// Only where name spaces may be made.
#[test]
fn a_verb_that_waits_hears_a_signal_as_process_1_of_a_container_too() {
    on_both(|store| {
        let as_process_1 = ["-rpf", "--mount-proc", "--kill-child"];
        let start = |words: &[&str]| {
            let words = [&as_process_1[..], words].concat();
            Running::start(store.command("unshare", &words))
        };
        if start(&["true"]).end().code != 0 {
            return;
        }
        let holder = store.hold(&[]);
        let waiter = start(&[env!("CARGO_BIN_EXE_leaselock"), "-v", "wait", "job"]);
        until("its first line", || waiter.said().contains("held by"));
        assert!(signal(children(waiter.pid())[0], Signal::TERM));
        waiter.end_with_stdin_open().gives(143);
        holder.end().gives(0);
    });
}

#[test]
fn a_missing_proc_is_named_before_the_store_is_asked() {
    on_both(|store| {
        for words in [
            &["run", "job", "--", "touch", "ran"][..],
            &["acquire", "job"],
        ] {
            if let Some(done) = without_proc(store, words) {
                done.refuses(71, "/proc is not mounted; it is needed to see");
            }
        }
        assert!(!store.path("ran").exists());
        store.run(&["wait", "-n", "job"]).gives(0);
    });
}
