//! `--prefix`: the locks of programs that put something in front of every name.

use testkit::{Server, Value};

use crate::common::{Running, Store, object, on_both, until};

const PAGE: &str = include_str!("../../../../docs/access.md");

/// A server whose user `locker` has the rights that the page on access gives for `app:`, and no others.
fn with_locker() -> Store {
    let server = Server::start();
    let line = PAGE
        .lines()
        .find(|line| line.starts_with("ACL SETUSER locker "));
    let words: Vec<&str> = line.expect("a line on the page").split(' ').collect();
    assert_eq!(server.cli(&words), Value::Status("OK".into()));
    let mut store = Store::on(server);
    store.url = store.url.replace("://", "://locker:PASSWORD@");
    store
}

fn channels(store: &Store) -> usize {
    match store.server().cli(&["PUBSUB", "CHANNELS", "app:ll:wake:*"]) {
        Value::List(channels) => channels.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn under_the_documented_rights_a_waiter_is_woken_and_nothing_is_refused() {
    let store = with_locker();
    let app =
        |words: &[&str]| Running::start(store.leaselock(&[&["--prefix", "app:"], words].concat()));
    let mut holder = app(&["run", "job", "--", "sh", "-c", "echo $$ > held; exec cat"]);
    store.line_in("held");
    let waiter = app(&["run", "-w", "30s", "job", "--", "echo", "ran"]);
    let seen = || object(&app(&["status", "--json", "job"]).end().gives(0).out);
    until("a waiter", || {
        seen()["queue"].as_array().unwrap().len() == 1
    });
    until("a channel to wake it", || channels(&store) > 0);
    let seen = seen();
    for process in [&seen["holder"]["process"], &seen["queue"][0]["process"]] {
        assert_eq!(process["via"], "run", "{seen}");
        assert!(process["host"].is_string(), "{seen}");
    }
    holder.close_stdin();
    assert_eq!(waiter.end().gives(0).out, "ran\n");
    holder.end().gives(0);
    let refused = store.server().cli(&["ACL", "LOG"]);
    assert_eq!(refused, Value::List(Vec::new()));
}

#[test]
fn names_are_given_and_shown_without_it_and_other_prefixes_are_other_locks() {
    on_both(|store| {
        let app = |words: &[&str]| store.run(&[&["--prefix", "app:"], words].concat());
        let handle = app(&["acquire", "--ttl", "60s", "--note", "July", "job"])
            .gives(0)
            .out;
        if let Some(server) = &store.server {
            assert_eq!(server.cli(&["EXISTS", "app:job"]).integer(), Some(1));
            assert_eq!(server.cli(&["EXISTS", "job"]).integer(), Some(0));
        }
        let listed = app(&["status"]).gives(0).out;
        assert!(
            listed.starts_with("job: held by leaselock acquire["),
            "{listed}"
        );
        assert!(listed.contains(": July; "), "{listed}");
        assert!(
            store
                .run(&["ls"])
                .gives(0)
                .out
                .contains("\napp:job  mutex ")
        );
        store.run(&["wait", "-n", "job"]).gives(0);
        app(&["wait", "-n", "job"]).refuses(75, "`job` is held by leaselock acquire[");
        let mut by_variable = store.leaselock(&["run", "-n", "job", "--", "true"]);
        by_variable.env("LEASELOCK_PREFIX", "app:");
        Running::start(by_variable)
            .end()
            .refuses(75, "`job` is held by");
        let told = ["run", "other", "-c", "echo $LEASELOCK_NAME"];
        assert_eq!(app(&told).gives(0).out, "other\n");
        let with = |words: &[&str]| {
            let words = [&["--prefix", "app:"], words].concat();
            store.run_with_input(&words, &handle)
        };
        with(&["extend", "--ttl", "50s"]).gives(0);
        with(&["release"]).gives(0);
        app(&["wait", "-n", "job"]).gives(0);
        app(&["acquire", "--ttl", "60s", "job"]).gives(0);
        app(&["break", "--now", "--yes", "job"]).gives(0);
        assert_eq!(app(&["ls"]).gives(0).out, "");
    });
}

#[test]
fn a_quorum_strict_mode_and_bench_have_it_too() {
    let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let mut store = Store::file();
    store.url = urls.join(" ");
    let flags = ["--prefix", "app:", "--durable-nodes"];
    store
        .run(&[&flags[..], &["acquire", "--ttl", "50s", "job"]].concat())
        .gives(0);
    let has_it = |server: &Server| server.cli(&["EXISTS", "app:job"]).integer() == Some(1);
    until("a majority has the key", || {
        servers.iter().filter(|server| has_it(server)).count() >= 2
    });

    let store = Store::redis();
    let strict = ["--prefix", "app:", "strict", "init", "--longest", "4s"];
    store.run(&strict).gives(0);
    let gate = store.server().cli(&["EXISTS", "app:ll:gate"]);
    assert_eq!(gate.integer(), Some(1));

    let store = with_locker();
    let bench = ["bench", "--seconds", "1", "--waiters", "2"];
    store
        .run(&[&["--prefix", "app:"], &bench[..]].concat())
        .gives(0);
    store.run(&bench).gives(77);
}

#[test]
fn a_prefix_that_no_store_takes_is_refused_with_what_would_be_right() {
    let mut store = Store::file();
    store.url = "redis://127.0.0.1:1".to_owned();
    let long = "x".repeat(513);
    for (prefix, right) in [
        ("a\nb", "prefix `a\\nb`: control characters are not allowed"),
        ("ll:", "leaselock's own"),
        ("a{", "one non-empty hash tag, such as `{orders}:42`"),
        (long.as_str(), "at most 512"),
    ] {
        for verb in [
            &["status", "job"][..],
            &["ls"],
            &["run", "job", "--", "true"],
        ] {
            let words = [&["--prefix", prefix], verb].concat();
            store.run(&words).refuses(64, right);
        }
    }
    // Each is fine, and together they are too long.
    let (prefix, name) = ("p".repeat(300), "n".repeat(300));
    let words = ["--prefix", &prefix, "run", &name, "--", "true"];
    store.run(&words).refuses(64, "(prefix and name)");
}
