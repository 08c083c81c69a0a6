//! The line that a long wait shows on a terminal.

use crate::common::{Running, Store, on_both, until};

#[test]
fn on_a_terminal_a_long_wait_shows_position_note_and_holder_and_clears_its_line() {
    on_both(|store| {
        let holder = store.hold(&["--note", "nightly"]);
        let line = format!(
            "stty cols 200; {} run job -- true",
            env!("CARGO_BIN_EXE_leaselock")
        );
        let waiter = Running::start(store.command("script", &["-qec", &line, "/dev/null"]));
        let pid = holder.pid();
        let shown = format!("waiting for job: position 1; nightly; held by sh[{pid}] on ");
        until("the line", || waiter.printed().contains(&shown));
        holder.end().gives(0);
        // Without an end of its input, which script(1) would pass on as a key.
        let done = waiter.end_with_stdin_open().gives(0);
        assert!(done.out.ends_with("\r\u{1b}[K"), "{done:?}");
    });
}

/// The line is cut from its end.
#[test]
fn on_a_narrow_terminal_the_message_of_a_wait_keeps_position_and_note() {
    let store = Store::file();
    let holder = store.hold(&["--note", "July figures"]);
    let program = env!("CARGO_BIN_EXE_leaselock");
    for (verb, shown) in [
        (
            "run job -- true",
            "waiting for job: position 1; July figures; held ",
        ),
        ("wait job", "waiting until job is free: July figures; held "),
    ] {
        let line = format!("stty cols 60; {program} {verb}");
        let waiter = Running::start(store.command("script", &["-qec", &line, "/dev/null"]));
        until(shown, || waiter.printed().contains(shown));
        drop(waiter);
    }
    holder.end().gives(0);
}

/// The lock is free, and the server grants no lock.
#[test]
fn on_a_terminal_a_wait_for_the_end_of_a_quarantine_says_so_and_clears_its_line() {
    let store = Store::redis();
    let strict = "run --strict 4s --ttl 4s job -- true";
    let line = format!(
        "stty cols 200; {} {strict}",
        env!("CARGO_BIN_EXE_leaselock")
    );
    let waiter = Running::start(store.command("script", &["-qec", &line, "/dev/null"]));
    let shown = "waiting for job: no lock is granted for ";
    until("the line", || {
        waiter.printed().contains(shown) && waiter.printed().contains("was not set up")
    });
    let words: Vec<&str> = strict.split(' ').collect();
    let plain = store.start(&words);
    let done = waiter.end_with_stdin_open().gives(0);
    assert!(done.out.ends_with("\r\u{1b}[K"), "{done:?}");
    let plain = plain.end().gives(0);
    assert_eq!((plain.err.as_str(), plain.out.as_str()), ("", ""));
}

#[test]
fn without_a_terminal_and_when_told_to_be_quiet_a_wait_says_nothing() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let quiet = format!("{} -q run job -- true", env!("CARGO_BIN_EXE_leaselock"));
        let quiet = Running::start(store.command("script", &["-qec", &quiet, "/dev/null"]));
        store.until_queued(1);
        let plain = store.start(&["run", "job", "--", "true"]);
        store.until_queued(2);
        let loud = format!(
            "stty cols 200; {} run job -- true",
            env!("CARGO_BIN_EXE_leaselock")
        );
        let loud = Running::start(store.command("script", &["-qec", &loud, "/dev/null"]));
        // When the one that waits shortest has shown its line, the others had the time to.
        until("the line", || loud.printed().contains("position 3"));
        holder.end().gives(0);
        let plain = plain.end().gives(0);
        assert_eq!((plain.err.as_str(), plain.out.as_str()), ("", ""));
        assert_eq!(quiet.end_with_stdin_open().gives(0).out, "");
        loud.end_with_stdin_open().gives(0);
    });
}
