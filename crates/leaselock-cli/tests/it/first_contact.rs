//! A command that waits for a lock waits for its store too: ten seconds, or until `-w` ends.

use std::time::Duration;

use testkit::process::Signal;
use testkit::{Server, Value};

use crate::common::{Done, Running, Store, object, until, uptime};

/// The library gives up a store that never replied after two seconds.
const LONGER_THAN_THE_LIBRARY: Duration = Duration::from_secs(3);
/// What the command says of a store that never replied.
const GIVEN_UP: &str = "; gave up after ";

fn now() -> Duration {
    Duration::from_secs_f64(uptime())
}

/// Waits until the command has said once that the store does not answer, and has then waited for longer than the
/// library does.
#[track_caller]
fn until_it_waits(waiter: &Running) {
    until("the trouble", || waiter.said().contains("retrying"));
    let since = now();
    until("a wait for longer than the library's", || {
        now() - since > LONGER_THAN_THE_LIBRARY
    });
    assert_eq!(waiter.said().matches("retrying").count(), 1);
}

#[test]
fn a_store_that_answers_after_the_librarys_two_seconds_is_waited_for() {
    let store = Store::redis();
    let frozen = store.server().pause();
    let waits: [&[&str]; 5] = [
        &["run", "job", "--", "true"],
        &["elect", "led", "--", "true"],
        &["acquire", "detached"],
        &["once", "done", "--", "true"],
        &["wait", "free"],
    ];
    let waiters = waits.map(|words| store.start(&[&["-v"], words].concat()));
    for waiter in &waiters {
        until("the trouble", || waiter.said().contains("retrying"));
    }
    until_it_waits(&waiters[0]);
    drop(frozen);
    for waiter in waiters {
        let done = waiter.end_with_stdin_open().gives(0);
        assert_eq!(done.err.matches("retrying").count(), 1, "{done:?}");
    }
    assert_eq!(store.status()["state"], "free");
}

/// A request of an earlier try that is granted late is given back, and is no second holder.
#[test]
fn a_lost_request_that_was_granted_keeps_nobody_out_and_lets_nobody_in() {
    let store = Store::redis();
    let frozen = store.server().pause();
    let job = "mkdir alone && sleep 0.1 && rmdir alone";
    let waiters = [(); 4].map(|()| store.start(&["-v", "run", "--ttl", "10m", "job", "-c", job]));
    for waiter in &waiters {
        until("the trouble", || waiter.said().contains("retrying"));
    }
    until_it_waits(&waiters[0]);
    drop(frozen);
    for waiter in waiters {
        waiter.end_with_stdin_open().gives(0);
    }
    assert_eq!(store.status()["state"], "free");
}

#[test]
fn a_server_that_is_started_within_the_wait_is_waited_for_also_where_there_is_no_queue() {
    let store = Store::redis();
    store.server().kill();
    let waits: [&[&str]; 4] = [
        &["run", "-w", "10m", "job", "--", "true"],
        &[
            "run",
            "-w",
            "10m",
            "--protocol",
            "setnx-pexpire",
            "x",
            "--",
            "true",
        ],
        &["once", "-w", "10m", "done", "--", "true"],
        &["wait", "-w", "10m", "free"],
    ];
    let waiters = waits.map(|words| store.start(&[&["-v"], words].concat()));
    for waiter in &waiters {
        until("the trouble", || waiter.said().contains("retrying"));
    }
    until_it_waits(&waiters[0]);
    store.server().restart();
    for waiter in waiters {
        let done = waiter.end_with_stdin_open().gives(0);
        assert_eq!(done.err.matches("retrying").count(), 1, "{done:?}");
    }
}

#[test]
fn a_majority_that_is_back_within_the_wait_is_waited_for() {
    let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let mut store = Store::file();
    store.url = urls.join(" ");
    let frozen: Vec<_> = servers[1..].iter().map(Server::pause).collect();
    let waiter = store.start(&["-v", "--durable-nodes", "run", "job", "--", "true"]);
    until_it_waits(&waiter);
    drop(frozen);
    waiter.end_with_stdin_open().gives(0);
}

#[test]
fn a_server_that_loads_its_data_is_waited_for() {
    let store = Store::on(Server::builder().debug_commands().start());
    let server = store.server();
    let set = |name, value| server.cli(&["CONFIG", "SET", name, value]);
    set("loading-process-events-interval-bytes", "1024");
    set("rdbcompression", "no");
    server.cli(&["DEBUG", "POPULATE", "500", "filler", "100000"]);
    set("key-load-delay", "100000"); // microseconds for each key: it would load for a minute
    let mut reload = server.connect().unwrap();
    reload.send(&["DEBUG", "RELOAD"]).unwrap();
    until(
        "it loads",
        || matches!(server.try_cli(&["GET", "x"]), Ok(Value::Error(text)) if text.starts_with("LOADING")),
    );
    let waiter = store.start(&["-v", "run", "job", "--", "true"]);
    until_it_waits(&waiter);
    set("key-load-delay", "0");
    waiter.end_with_stdin_open().gives(0);
}

#[test]
fn a_store_that_never_answers_is_given_up_after_ten_seconds_and_the_command_says_so() {
    let store = Store::redis();
    store.server().kill();
    let verbs: [&[&str]; 4] = [
        &["run", "job", "--", "touch", "ran"],
        &["acquire", "job"],
        &["once", "job", "--", "touch", "ran"],
        &["wait", "job"],
    ];
    std::thread::scope(|scope| {
        for words in verbs {
            let store = &store;
            scope.spawn(move || {
                let began = now();
                let done = store.run(&[&["-v"], words].concat());
                let took = now() - began;
                let done = done.refuses(69, "Connection refused");
                assert!(done.err.contains(GIVEN_UP), "{done:?}");
                assert_eq!(done.err.matches("retrying").count(), 1, "{done:?}");
                let ten_seconds = Duration::from_millis(9_900); // of a clock that counts hundredths
                assert!(took >= ten_seconds, "{took:?}: {done:?}");
            });
        }
    });
    assert!(!store.path("ran").exists());
}

#[test]
fn without_a_wait_or_at_its_end_the_store_is_given_up() {
    let store = Store::redis();
    let _frozen = store.server().pause();
    let ends = |words: &[&str]| -> Done { store.run(words).gives(69) };
    let limited = ["once", "-w", "3s", "job", "--", "true"];
    let done = ends(&limited);
    assert!(done.err.contains(GIVEN_UP), "{done:?}");
    for words in [
        &["run", "-n", "job", "--", "true"][..],
        &["acquire", "-n", "job"],
        &["once", "-n", "job", "--", "true"],
        &["wait", "-n", "job"],
    ] {
        let done = ends(words);
        assert!(!done.err.contains("gave up"), "{done:?}");
    }
    let told = object(&ends(&["--json", "run", "-w", "1s", "job", "--", "true"]).err);
    let text = told["error"].as_str().unwrap();
    assert!(text.contains(GIVEN_UP), "{told}");
}

#[test]
fn a_store_that_refuses_is_not_waited_for() {
    let store = Store::on(Server::builder().password("geheim").start());
    let open = format!("redis://127.0.0.1:{}", store.server().port());
    let done = store.run(&["-v", "--url", &open, "run", "job", "--", "true"]);
    let done = done.gives(77);
    assert!(!done.err.contains("retrying") && !done.err.contains("gave up"));
}

#[test]
fn a_signal_ends_the_wait_for_a_store_at_once() {
    let store = Store::redis();
    let _frozen = store.server().pause();
    let waiter = store.start(&["-v", "run", "job", "--", "touch", "ran"]);
    until_it_waits(&waiter);
    waiter.signal(Signal::TERM);
    let done = waiter.end_with_stdin_open().gives(143);
    assert!(done.err.ends_with(": SIGTERM\n"), "{done:?}");
    assert!(!store.path("ran").exists());
}
