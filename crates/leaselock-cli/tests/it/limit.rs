//! `leaselock limit`: a command becomes what the rate allows.

use std::fs;

use testkit::process::Signal;

use crate::common::{on_both, until};

#[test]
fn a_limited_command_runs_at_once_or_not_and_its_exit_code_is_passed_on() {
    on_both(|store| {
        let limit = ["limit", "mails", "--rate", "2/1h"];
        let ran = store.run(&[&limit[..], &["--", "sh", "-c", "echo $0; exit 3", "a b"]].concat());
        assert_eq!(ran.gives(3).out, "a b\n");
        store.run(&[&limit[..], &["-n", "true"]].concat()).gives(0);
        for wait in [&["-n"][..], &["-w", "50ms"]] {
            let refused = store.run(&[&limit[..], wait, &["echo", "ran"]].concat());
            let why = "`mails`: rate limit reached; retry in 2"; // 29 min 59 s
            assert_eq!(refused.refuses(75, why).out, "");
        }
        let quiet = store.run(&[&limit[..], &["-q", "-n", "true"]].concat());
        assert_eq!(quiet.gives(75).err, "");
    });
}

#[test]
fn a_command_whose_file_is_missing_or_not_executable_uses_no_permit() {
    on_both(|store| {
        fs::write(store.path("text"), "").unwrap();
        let limit = |command| store.run(&["limit", "mails", "--rate", "1/1h", "-n", "--", command]);
        for (command, code) in [
            ("./no-such-command", 127),
            ("no-such-command", 127),
            ("./text", 126),
            ("/", 126),
        ] {
            limit(command).refuses(code, &format!("cannot run `{command}`: "));
        }
        limit("true").gives(0);
        limit("true").refuses(75, "rate limit reached");
    });
}

#[test]
fn with_v_a_wait_for_the_rate_is_told_and_its_end() {
    on_both(|store| {
        let limit = ["limit", "-v", "mails", "--rate", "1/1h"];
        let first = store.run(&[&limit[..], &["true"]].concat()).gives(0).err;
        assert!(
            first.starts_with("leaselock: mails: allowed after "),
            "{first}"
        );
        let refused = store.run(&[&limit[..], &["-w", "1s", "true"]].concat());
        assert!(
            !refused
                .refuses(75, "rate limit reached")
                .err
                .contains("waiting")
        );
        let waits = store.start(&[&limit[..], &["true"]].concat());
        let told = "leaselock: mails: waiting until the rate allows it, in ";
        until("its first line", || waits.said().starts_with(told));
        waits.signal(Signal::TERM);
        let said = waits.end().gives(143).err;
        assert!(
            said.lines().nth(1).unwrap().contains("gave up after "),
            "{said}"
        );
    });
}

#[test]
fn what_a_limit_cannot_be_is_refused() {
    on_both(|store| {
        for (words, right) in [
            (&["--rate", "10"][..], "a slash and the period"),
            (&["--rate", "0/s"], "at least 1 permit"),
            (&["--rate", "-1/s"], "no whole number from 1"),
            (&["--rate", "2/s", "--cost", "3"], "1 to 2 permits"),
            (&["--rate", "2/40d"], "1 ms to 30 days"),
        ] {
            let line = [&["limit", "mails"], words, &["--", "true"]].concat();
            store.run(&line).refuses(64, right);
        }
        store
            .run(&["limit", "mails", "--", "true"])
            .refuses(64, "--rate");
        store
            .run(&["limit", "mails", "--rate", "1/s"])
            .refuses(64, "COMMAND");
    });
}

/// A signal that ends the wait gives back what was reserved, so those who come later lose nothing.
#[test]
fn a_wait_that_a_signal_ends_reserves_nothing() {
    let store = crate::common::Store::redis();
    let limit = ["limit", "mails", "--rate", "1/1h"];
    store.run(&[&limit[..], &["true"]].concat()).gives(0);
    let waits = store.start(&[&limit[..], &["--", "echo", "ran"]].concat());
    let reserved = || {
        store
            .server()
            .cli(&["ZCARD", "{mails}:ll:reserved"])
            .integer()
    };
    until("it has reserved", || reserved() == Some(1));
    waits.signal(Signal::TERM);
    assert_eq!(waits.end().gives(143).out, "");
    assert_eq!(reserved(), Some(0));
}
