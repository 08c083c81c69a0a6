//! A store that is down, and a service that is asked to end while it waits.

use testkit::Server;
use testkit::process::Signal;

use super::serve;
use crate::common::{Store, object, until};

const NOTE: &str = "echo $LEASELOCK_TICK >> ran";

#[test]
fn a_store_that_is_down_is_told_once_and_the_ticks_go_on_when_it_is_back() {
    let store = Store::on(Server::builder().append_only().start());
    store.server().kill();
    let service = serve(&store, &["--json"], NOTE);
    let told = |count| service.said().matches("retrying").count() >= count;
    until("it said that the store is down", || told(1));
    assert_eq!(store.read("ran"), "");
    store.server().restart();
    until("three runs", || store.lines("ran").len() >= 3);

    let frozen = store.server().pause();
    until("it said that the store does not reply", || told(2));
    let before = store.lines("ran").len();
    drop(frozen);
    until("it goes on", || store.lines("ran").len() >= before + 3);
    service.signal(Signal::TERM);
    let said = service.end_with_stdin_open().err;
    let told = object(said.lines().next().unwrap());
    let expected = (&"retrying".into(), &"job".into());
    assert_eq!((&told["event"], &told["name"]), expected);
    let ticks = store.lines("ran");
    assert!(ticks.is_sorted_by(|one, next| one < next), "{ticks:?}");
}

#[test]
fn a_service_that_waits_for_a_tick_ends_at_a_signal_as_a_process_does_without_a_handler() {
    let store = Store::redis();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        store.server().cli(&["CONFIG", "RESETSTAT"]);
        let service = store.start(&["cron", "0 0 29 2 *", "job", "-c", NOTE]);
        until("it has asked", || {
            let stats = store.server().cli(&["INFO", "commandstats"]);
            stats.text().unwrap().contains("cmdstat_eval")
        });
        service.signal(signal);
        let ended = service.end_with_stdin_open().gives(code);
        assert_eq!((ended.out, ended.err), (String::new(), String::new()));
    }
    assert_eq!(store.read("ran"), "");
}
