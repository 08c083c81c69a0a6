//! `leaselock once`: a command runs once, and every caller gets its output and its exit code.

use std::fs;
use std::process::Stdio;

use testkit::process::{Signal, signal};

use crate::common::{object, on_both, until};

fn once<'a>(flags: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["once"], flags, &["job", "-c", script]].concat()
}

#[test]
fn a_command_runs_once_and_later_callers_print_the_same_and_exit_as_it_did() {
    on_both(|store| {
        let script = r"printf 'a\0\377b\n'; echo said >&2";
        let first = store.run(&once(&[], script)).gives(0);
        assert_eq!(first.bytes, b"a\0\xffb\n");
        assert!(first.err.contains("said"), "{}", first.err);
        for _ in 0..2 {
            let later = store.run(&once(&[], "echo another")).gives(0);
            assert_eq!((later.bytes, later.err.as_str()), (first.bytes.clone(), ""));
        }
        assert_eq!(store.run(&["ls", "--names"]).gives(0).out, "");
        store.run(&["run", "-n", "job", "--", "true"]).gives(0);
    });
}

#[test]
fn a_failure_runs_again_until_the_attempts_are_used_up_unless_it_is_kept() {
    on_both(|store| {
        let flags = ["--attempts", "2"];
        for _ in 0..2 {
            let failed = store.run(&once(&flags, "echo partly; exit 3")).gives(3);
            assert_eq!(failed.out, "partly\n");
        }
        let given_up = store.run(&once(&flags, "echo no"));
        given_up.refuses(77, "given up after 2 attempts: exit 3");
        let kept = once(&["--keep-failures"], "echo kept; exit 4");
        assert_eq!(store.run(&kept).gives(4).out, "kept\n");
        let later = store.run(&once(&[], "echo no")).gives(4);
        assert_eq!((later.out.as_str(), later.err.as_str()), ("kept\n", ""));
    });
}

#[test]
fn a_command_that_cannot_start_is_no_attempt() {
    on_both(|store| {
        let flags = [
            "once",
            "--attempts",
            "1",
            "--on-crash",
            "refuse",
            "job",
            "--",
        ];
        let missing = [&flags[..], &["/no/such/command"]].concat();
        store.run(&missing).refuses(127, "not found");
        let there = [&flags[..], &["echo", "there"]].concat();
        assert_eq!(store.run(&there).gives(0).out, "there\n");
    });
}

#[test]
fn who_comes_during_a_run_prints_its_output_too() {
    on_both(|store| {
        let mut first = store.start(&once(&[], "echo one; echo > held; read line"));
        store.line_in("held");
        let waits = store.start(&once(&[], "echo two"));
        store
            .run(&once(&["-n", "-E", "9"], "echo three"))
            .refuses(9, "still held");
        first.write("\n");
        assert_eq!(first.end().gives(0).out, "one\n");
        assert_eq!(waits.end().gives(0).out, "one\n");
    });
}

#[test]
fn a_run_that_was_killed_is_refused_or_runs_again() {
    on_both(|store| {
        // In a folder a command that inherits the lock would go on.
        let flags = ["-o", "--on-crash", "refuse", "--ttl", "1s"];
        let mut first = store.start(&once(&flags, "echo > held; exec sleep 600"));
        store.line_in("held");
        first.kill();
        let refused = store.run(&once(&flags, "echo no"));
        refused.refuses(77, "run 1 crashed");
        let again = store.run(&once(&[], "echo again")).gives(0);
        assert_eq!(again.out, "again\n");
    });
}

#[test]
fn a_command_that_a_signal_ends_does_not_run_again_if_crashes_are_refused() {
    on_both(|store| {
        for script in ["kill -9 $$", "sh -c 'kill -9 $$'; exit $?"] {
            let refuse = ["--on-crash", "refuse"];
            let killed = store.run(&once(&refuse, script)).gives(137);
            assert!(killed.err.contains("the run has crashed"), "{killed:?}");
            store
                .run(&once(&refuse, "echo no"))
                .refuses(77, "run 1 crashed");
            store.run(&["once", "job", "--forget"]).gives(0);
            store.run(&once(&[], script)).gives(137);
            assert_eq!(store.run(&once(&refuse, "echo yes")).gives(0).out, "yes\n");
            store.run(&["once", "job", "--forget"]).gives(0);
        }
    });
}

#[test]
fn what_became_of_a_run_is_shown_and_forgotten() {
    on_both(|store| {
        let show = |said: &str| {
            let shown = store.run(&["once", "job", "--show"]).gives(0);
            assert!(shown.out.starts_with(&format!("job: {said}")), "{shown:?}");
            shown.out
        };
        let forget = || store.run(&["once", "job", "--forget"]);
        show("no run is known\n");
        assert!(forget().gives(0).err.contains("no run is known"));
        store.run(&once(&[], "echo one")).gives(0);
        let done = show("done: run 1, fence ");
        assert!(done.ends_with(", exit 0, 4 bytes of output\n"), "{done}");
        let printed = store.run(&["--json", "once", "job", "--show"]).gives(0);
        let object = object(&printed.out);
        assert_eq!(object["state"], "done");
        assert_eq!(
            (&object["exit"], &object["output_bytes"]),
            (&0.into(), &4.into())
        );

        assert!(forget().gives(0).err.contains("the next caller runs"));
        store.run(&once(&[], "exit 3")).gives(3);
        let failed = show("failed: run 1, fence ");
        assert!(
            failed.ends_with(", exit 3; another may begin\n"),
            "{failed}"
        );
        forget().gives(0);

        let flags = ["-o", "--on-crash", "refuse", "--ttl", "1s"];
        let mut first = store.start(&once(&flags, "echo > held; exec sleep 600"));
        store.line_in("held");
        show("running: run 1, fence ");
        forget().refuses(75, "a run is in progress (fence ");
        first.kill();
        store
            .run(&once(&flags, "echo no"))
            .refuses(77, "run 1 crashed");
        show("crashed: run 1, fence ");
        forget().gives(0);
        assert_eq!(store.run(&once(&flags, "echo next")).gives(0).out, "next\n");
        store
            .run(&["once", "job", "--show", "--", "true"])
            .refuses(64, "--show");
        store
            .run(&["once", "job", "--show", "--forget"])
            .refuses(64, "--forget");
    });
}

#[test]
fn a_signal_goes_to_the_command_whose_end_is_a_failure_and_no_crash() {
    on_both(|store| {
        let flags = ["--on-crash", "refuse"];
        let script = "trap 'exit 9' TERM; echo > held; while :; do sleep 0.01; done";
        let first = store.start(&once(&flags, script));
        store.line_in("held");
        first.signal(Signal::TERM);
        first.end().gives(9);
        assert_eq!(store.run(&once(&flags, "echo next")).gives(0).out, "next\n");
    });
}

#[test]
fn a_megabyte_less_64_bytes_is_replayed_and_more_is_passed_through_and_not_kept() {
    on_both(|store| {
        const KEPT: usize = (1 << 20) - 64;
        let script = format!("head -c {KEPT} /dev/zero | tr '\\0' x");
        let first = store.run(&once(&[], &script)).gives(0);
        assert_eq!(first.bytes.len(), KEPT);
        assert_eq!(store.run(&once(&[], "")).gives(0).bytes, first.bytes);
        let script = format!("head -c {} /dev/zero", KEPT + 1);
        let long = ["once", "long", "-c", &script];
        assert_eq!(store.run(&long).gives(0).bytes.len(), KEPT + 1);
        let told = store.run(&long).gives(0);
        let why = "longer than 1 MiB less 64 bytes, or was not read";
        assert!(told.bytes.is_empty() && told.err.contains(why), "{told:?}");
        let quiet = store.run(&[&["-q"], &long[..]].concat()).gives(0);
        assert!(quiet.bytes.is_empty() && quiet.err.is_empty(), "{quiet:?}");
        let told = store.run(&[&["--json"], &long[..]].concat()).gives(0);
        let event = object(&told.err);
        assert_eq!(
            (&event["event"], &event["name"]),
            (&"output-not-kept".into(), &"long".into())
        );
    });
}

#[test]
fn a_reader_that_goes_away_ends_the_command_as_without_us() {
    on_both(|store| {
        let script = "while echo line; do :; done; exit 3";
        let mut command = store.leaselock(&once(&[], script));
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let code = child.wait().unwrap().code().unwrap();
        assert!([3, 141].contains(&code), "{code}"); // by its own code, or by SIGPIPE
        assert_eq!(store.run(&once(&[], "echo next")).gives(0).out, "next\n");
    });
}

#[test]
fn an_output_that_cannot_be_written_is_no_success_and_the_next_caller_runs_again() {
    on_both(|store| {
        let full = |args: &[&str]| {
            let mut command = store.leaselock(args);
            command.stdout(fs::File::create("/dev/full").unwrap());
            command.stderr(Stdio::piped());
            let done = command.output().unwrap();
            let said = String::from_utf8(done.stderr).unwrap();
            assert!(said.contains("No space left on device"), "{said}");
            assert_eq!(done.status.code(), Some(74), "{said}");
        };
        full(&once(&[], "echo one"));
        let shown = store.run(&["once", "job", "--show"]).gives(0).out;
        assert!(shown.contains("exit 74; another may begin"), "{shown}");
        assert_eq!(store.run(&once(&[], "echo two")).gives(0).out, "two\n");
        full(&once(&[], "echo no")); // a later caller, whose own output cannot be written
        assert_eq!(store.run(&once(&[], "echo no")).gives(0).out, "two\n");

        let kept = |script| ["once", "--keep-failures", "kept", "-c", script];
        full(&kept("echo one"));
        store
            .run(&kept("echo no"))
            .refuses(74, "the output of the run was not kept");
    });
}

#[test]
fn what_once_cannot_have_is_refused() {
    on_both(|store| {
        store.run(&once(&["-s"], "true")).refuses(64, "or use run");
        store
            .run(&once(&["--attempts", "0"], "true"))
            .refuses(64, "at least one");
        store
            .run(&once(&["--kept", "1ms"], "true"))
            .refuses(64, "1 s to 30 days");
        store
            .run(&["once", "job"])
            .refuses(64, "say what to run: `-- COMMAND`");
        store.run(&["once"]).refuses(64, "<KEY>");
    });
}

#[test]
fn a_reader_that_stalls_does_not_keep_the_result_of_a_command_that_has_ended() {
    on_both(|store| {
        // More than one pipe holds, so that some is left when the command has ended, and less than two, so that it ends.
        let script = "head -c 100000 /dev/zero; echo > ended";
        let mut command = store.leaselock(&once(&[], script));
        let mut stalled = command.stdout(Stdio::piped()).spawn().unwrap();
        store.line_in("ended");
        let mut code = None;
        until("the end of the command", || {
            signal(stalled.id(), Signal::TERM);
            code = stalled.try_wait().unwrap();
            code.is_some()
        });
        let later = store.run(&once(&[], "echo again")).gives(0);
        assert_eq!(later.out, "");
        assert!(later.err.contains("was not kept"), "{later:?}");
        assert_eq!(code.unwrap().code(), Some(0));
    });
}

#[test]
fn a_command_that_was_told_to_end_waits_for_no_reader_that_stalls_and_says_that_output_is_cut() {
    on_both(|store| {
        // As above, but the signal comes while the command runs, and none follows.
        let script = "trap 'exit 0' TERM; head -c 100000 /dev/zero; echo > held; while :; do sleep 0.01; done";
        let mut command = store.leaselock(&[&["--json"], &once(&[], script)[..]].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut stalled = command.spawn().unwrap();
        store.line_in("held");
        signal(stalled.id(), Signal::TERM);
        until("the end of the command", || {
            stalled.try_wait().unwrap().is_some()
        });
        let later = store.run(&once(&[], "echo again")).gives(0);
        assert!(later.err.contains("was not kept"), "{later:?}");
        let cut = stalled.wait_with_output().unwrap();
        assert_eq!(cut.status.code(), Some(0));
        assert!(cut.stdout.len() < 100_000, "{}", cut.stdout.len());
        let said = String::from_utf8(cut.stderr).unwrap();
        let said = object(said.lines().last().unwrap_or_default()); // the shell may have said something
        assert_eq!(
            (&said["event"], &said["name"]),
            (&"output-cut".into(), &"job".into())
        );
    });
}
