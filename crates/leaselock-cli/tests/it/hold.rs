//! `leaselock hold`: a lock for the program that started it.

mod clients;
mod clients_amiss;
mod crowd;
mod kill;
mod languages;
mod losses;
mod page;
mod parents;

use serde_json::Value;
use testkit::process::Signal;

use crate::common::{Running, Store, on_both, until};

/// The events that were printed so far, whole lines only.
fn events(printed: &str) -> Vec<Value> {
    let whole = printed.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(crate::common::object).collect()
}

/// The latest event of this word.
fn latest(printed: &str, event: &str) -> Option<Value> {
    let found = events(printed).into_iter().rev();
    found.into_iter().find(|one| one["event"] == event)
}

/// The latest deadline that was told, in milliseconds of the clock of leases.
fn deadline_ms(printed: &str) -> u64 {
    let all = events(printed).into_iter().rev();
    let told = all.filter_map(|one| one["deadline_boot_ms"].as_u64());
    told.max().unwrap()
}

#[track_caller]
fn until_told(running: &Running, event: &str) -> Value {
    let mut found = None;
    until(event, || {
        found = latest(&running.printed(), event);
        found.is_some()
    });
    found.unwrap()
}

/// Holds `job` with these flags.
#[track_caller]
fn holding(store: &Store, flags: &[&str]) -> Running {
    let running = store.start(&[&["hold"], flags, &["job"]].concat());
    until_told(&running, "acquired");
    running
}

#[test]
fn it_ends_by_the_end_of_input_by_a_line_and_by_a_signal() {
    on_both(|store| {
        for how in ["end", "line", "TERM", "INT", "HUP"] {
            let mut hold = holding(store, &[]);
            assert_eq!(store.status()["state"], "held", "{how}");
            let done = match how {
                "end" => hold.end(),
                "line" => {
                    hold.write("release\n");
                    hold.end_with_stdin_open()
                }
                signal => {
                    hold.signal(match signal {
                        "TERM" => Signal::TERM,
                        "INT" => Signal::INT,
                        _ => Signal::HUP,
                    });
                    hold.end_with_stdin_open()
                }
            };
            let done = done.gives(0);
            let last = events(&done.out).pop().unwrap();
            assert_eq!(last["event"], "released", "{how}: {done:?}");
            assert!(last["held_ms"].is_u64(), "{how}: {last}");
            assert_eq!(done.err, "", "{how}");
            assert_eq!(store.status()["state"], "free", "{how}");
        }
    });
}

#[test]
fn a_line_that_says_nothing_is_answered_with_the_one_that_does() {
    let store = Store::file();
    let mut hold = holding(&store, &[]);
    hold.write("relase\n\nrelease\n");
    let done = hold.end_with_stdin_open().gives(0);
    let right = "`relase` says nothing here; the line `release` ends the hold";
    assert!(done.err.contains(right), "{done:?}");
}

#[test]
fn the_events_are_in_order_and_have_numbers() {
    on_both(|store| {
        let first = holding(store, &["--note", "July"]);
        let before = until_told(&first, "acquired");
        let second = store.start(&["hold", "--ttl", "1s", "job"]);
        let queued = until_told(&second, "queued");
        assert_eq!(
            (&queued["name"], &queued["position"]),
            (&"job".into(), &1.into())
        );
        assert_eq!(queued["holder"]["fence"], before["fence"]);
        assert_eq!(queued["holder"]["note"], "July");
        assert_eq!(queued["holder"]["process"]["pid"], first.pid());
        assert_eq!(queued["holder"]["process"]["via"], "hold");
        first.end().gives(0);
        until_told(&second, "renewed");
        let done = second.end().gives(0);
        let told = events(&done.out);
        let mut words: Vec<&str> = told
            .iter()
            .filter_map(|one| one["event"].as_str())
            .collect();
        words.dedup();
        assert_eq!(words, ["queued", "acquired", "renewed", "released"]);
        let grant = latest(&done.out, "acquired").unwrap();
        assert!(grant["fence"].as_u64() > before["fence"].as_u64());
        assert_eq!(grant["ttl_ms"], 1_000);
        let shown = grant["sequencer"].as_str().unwrap();
        assert!(shown.ends_with(".job"), "{shown}");
        let deadlines: Vec<u64> = told
            .iter()
            .filter_map(|one| one["deadline_boot_ms"].as_u64())
            .collect();
        assert!(
            deadlines.is_sorted() && deadlines.len() > 1,
            "{deadlines:?}"
        );
    });
}

#[test]
fn a_wait_that_its_caller_gives_up_leaves_the_queue() {
    on_both(|store| {
        let holder = holding(store, &[]);
        for (signal, code) in [(None, 75), (Some(Signal::TERM), 143)] {
            let waiter = store.start(&["hold", "job"]);
            store.until_queued(1);
            let done = match signal {
                None => waiter.end(),
                Some(signal) => {
                    waiter.signal(signal);
                    waiter.end_with_stdin_open()
                }
            };
            let done = done.gives(code);
            assert_eq!(
                events(&done.out).pop().unwrap()["event"],
                "gave-up",
                "{done:?}"
            );
            assert_eq!(store.status()["queue"], serde_json::json!([]));
        }
        let busy = store.start(&["hold", "-n", "job"]).end_with_stdin_open();
        busy.refuses(75, "`job` is held by it-");
        holder.end().gives(0);
    });
}

#[test]
fn it_holds_in_every_way_that_run_does() {
    on_both(|store| {
        let (read, again) = (holding(store, &["-s"]), holding(store, &["-s"]));
        assert_eq!(store.status()["state"], "shared");
        read.end().gives(0);
        again.end().gives(0);
        let (one, two) = (&["--permits", "3"], &["--permits", "3", "--take", "2"]);
        let (one, two) = (holding(store, one), holding(store, two));
        assert_eq!(store.status()["permits"]["used"], 3);
        one.end().gives(0);
        two.end().gives(0);
        let leads = holding(store, &["--lead", "--value", "10.0.0.5:8080"]);
        assert_eq!(
            store.run(&["leader", "job"]).gives(0).out,
            "10.0.0.5:8080\n"
        );
        leads.end().gives(0);
        let both = holding(store, &["--also", "other"]);
        let fences = until_told(&both, "acquired")["fences"].clone();
        assert_eq!(
            (&fences[0]["name"], &fences[1]["name"]),
            (&"job".into(), &"other".into())
        );
        assert!(fences[1]["fence"].is_u64() && fences[1]["sequencer"].is_string());
        store.run(&["run", "-n", "other", "--", "true"]).gives(75);
        both.end().gives(0);
    });
}

#[test]
fn a_hold_of_a_lock_that_an_ancestor_has_is_refused() {
    on_both(|store| {
        let program = env!("CARGO_BIN_EXE_leaselock");
        let job = ["run", "job", "--", program, "hold", "job"];
        let outer = store.start(&job).end_with_stdin_open().gives(75);
        let said = "`job` is held by an ancestor of this process";
        assert!(outer.err.contains(said), "{outer:?}");
    });
}
