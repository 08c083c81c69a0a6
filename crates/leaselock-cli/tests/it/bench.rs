//! `leaselock bench`: what it prints, and that it leaves nothing behind.

use testkit::Value;
use testkit::process::Signal;

use crate::common::{Store, on_both, until};

/// All keys of the server, which is the test's own.
fn keys(store: &Store) -> Value {
    store.server().cli(&["KEYS", "*"])
}

#[test]
fn it_prints_a_table_and_leaves_no_key_behind() {
    let store = Store::redis();
    let done = store.run(&["bench", "--seconds", "1"]).gives(0);
    let lines: Vec<&str> = done.out.lines().collect();
    let labels = [
        "free lock, 1 task",
        "free locks, 16 tasks",
        "free locks, 256 tasks",
        "hand-over, 8 waiters",
    ];
    for (label, line) in labels.iter().zip(&lines[1..]) {
        let figures = line
            .strip_prefix(label)
            .unwrap_or_else(|| panic!("{label}: {done:?}"));
        let figures: Vec<u64> = figures
            .split_whitespace()
            .map(|figure| figure.parse().unwrap())
            .collect();
        assert!(figures.len() == 3 && figures[0] > 0, "{done:?}");
    }
    assert_eq!(done.err, "", "no line without a terminal");
    assert_eq!(keys(&store), Value::List(Vec::new()));
}

#[test]
fn names_of_others_are_neither_taken_nor_waited_for() {
    on_both(|store| {
        let holder = store.hold(&[]);
        let done = store
            .run(&["bench", "--seconds", "1", "--waiters", "2", "--json"])
            .gives(0);
        assert_eq!(done.out.lines().count(), 4);
        assert_eq!(store.status()["holder"]["process"]["pid"], holder.pid());
        assert_eq!(store.run(&["ls", "--names"]).gives(0).out, "job\n");
        holder.end().gives(0);
    });
}

#[test]
fn an_interrupted_run_leaves_no_key_behind() {
    let store = Store::redis();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let bench = store.start(&["bench", "--seconds", "600"]);
        until("it is at work", || keys(&store) != Value::List(Vec::new()));
        bench.signal(signal);
        let done = bench.end_with_stdin_open().gives(code);
        assert_eq!(done.out, "");
        assert_eq!(keys(&store), Value::List(Vec::new()));
    }
}

#[test]
fn a_server_that_goes_away_ends_it_with_69() {
    let store = Store::redis();
    let bench = store.start(&["bench", "--seconds", "600"]);
    until("it is at work", || keys(&store) != Value::List(Vec::new()));
    store.server().kill();
    bench.end_with_stdin_open().refuses(69, "leaselock: ");
    store.run(&["bench"]).refuses(69, "Connection refused");
}
