//! Strict mode, as operators and jobs meet it.

use testkit::Server;

use crate::common::{Store, object, until};

const STRICT: [&str; 2] = ["--strict", "4s"];

/// A job under a lock that is as long as strict mode allows.
fn job(store: &Store, flags: &[&str]) -> crate::common::Running {
    let line = ["run", "--ttl", "4s"];
    let words = ["job", "--", "echo", "ran"];
    store.start(&[&STRICT, line.as_slice(), flags, &words].concat())
}

fn state(store: &Store) -> serde_json::Value {
    object(&store.run(&["strict", "status", "--json"]).gives(0).out)
}

#[test]
fn an_operator_opens_it_and_a_job_runs_at_once() {
    let store = Store::redis();
    assert_eq!(state(&store)["strict"], "missing");
    let said = store.run(&["strict", "status"]).gives(0).out;
    assert!(said.starts_with("strict mode is not in use here"), "{said}");
    let done = store.run(&["strict", "init", "--longest", "4s"]).gives(0);
    assert_eq!(done.out, "locks are granted; leases of at most 4 s\n");
    let seen = store.run(&["doctor"]).out;
    assert!(
        seen.contains("the server is in strict mode, and this client is not"),
        "{seen}"
    );
    let seen = store.run(&["doctor", "--strict", "4s"]).out;
    assert!(!seen.contains("this client is not"), "{seen}");
    assert_eq!(job(&store, &["-n"]).end().gives(0).out, "ran\n");
    // The same in another way.
    store.run(&["strict", "init", "--strict", "4s"]).gives(0);
    let state = state(&store);
    assert_eq!(
        (&state["strict"], &state["longest_ms"]),
        (&"open".into(), &4000.into())
    );
}

#[test]
fn a_job_that_does_not_wait_is_told_that_the_store_does_not_serve_now_and_one_that_waits_runs() {
    let store = Store::redis();
    let why = "`job`: strict mode grants no lock for another ";
    job(&store, &["-n", "-E", "3"]).end().refuses(69, why);
    job(&store, &["-w", "200ms"]).end().refuses(69, why);
    let said = object(&job(&store, &["-n", "--json"]).end().gives(69).err);
    assert!(said["error"].as_str().unwrap().contains("not set up"));
    assert_eq!(state(&store)["strict"], "quarantined");
    assert_eq!(job(&store, &[]).end().gives(0).out, "ran\n");
}

#[test]
fn after_a_restart_the_second_copy_of_a_job_waits_until_the_first_is_ended() {
    let store = Store::redis();
    store.run(&["strict", "init", "--longest", "4s"]).gives(0);
    let first = store.hold(&["--strict", "4s", "--ttl", "4s", "-k", "100ms"]);
    store.server().restart();
    let alive = "kill -0 $(cat held) 2> /dev/null && echo both; echo ran";
    let line = ["run", "--strict", "4s", "--ttl", "4s", "job", "-c", alive];
    assert_eq!(store.run(&line).gives(0).out, "ran\n");
    first.end_with_stdin_open().gives(79);
}

#[test]
fn what_does_not_go_together_is_refused_with_what_would_be_right() {
    let store = Store::redis();
    store.run(&["strict", "init"]).refuses(64, "--longest 1m");
    let two = ["strict", "init", "--longest", "1m", "--strict", "2m"];
    store.run(&two).refuses(64, "name one");
    let long = ["run", "--strict", "4s", "--ttl", "5s", "job", "--", "true"];
    store.run(&long).refuses(64, "longer than the longest");
    store.run(&["strict", "init", "--longest", "1m"]).gives(0);
    job(&store, &["-n"])
        .end()
        .refuses(77, "this client says 4 s");

    let store = Store::file();
    let words = "strict mode is for servers";
    job(&store, &["-n"]).end().refuses(64, words);
    store.run(&["strict", "status"]).refuses(69, words);
    store
        .run(&["strict", "init", "--longest", "4s"])
        .refuses(64, words);
}

#[test]
fn a_variable_sets_it_for_all_copies_of_a_job() {
    let store = Store::on(Server::start());
    let mut command = store.leaselock(&["run", "-n", "--ttl", "4s", "job", "--", "true"]);
    command.env("LEASELOCK_STRICT", "4s");
    let done = crate::common::Running::start(command).end();
    done.refuses(69, "strict mode grants no lock");
    until("the gate is closed", || {
        state(&store)["strict"] == "quarantined"
    });
}

#[test]
fn what_lies_at_a_librarys_key_is_shown_in_strict_mode_too() {
    let store = Store::redis();
    store.run(&["strict", "init", "--longest", "4s"]).gives(0);
    let status = ["status", "--like", "python-redis-lock", "job"];
    let shown = || store.run(&[&STRICT[..], &status].concat()).gives(0).out;
    assert_eq!(shown(), "lock:job: free\n");
    let key = ["SET", "lock:job", "theirs", "PX", "60000"];
    assert!(!store.server().cli(&key).is_error());
    assert!(shown().starts_with("lock:job: held by another lock library"));
}

#[test]
fn a_ttl_that_nobody_asked_for_fits_itself_to_strict_mode() {
    let store = Store::redis();
    store.run(&["strict", "init", "--longest", "4s"]).gives(0);
    let strict = |words: &[&str]| store.run(&[&STRICT, words].concat());
    let job = ["run", "-n", "job", "-c", "echo $LEASELOCK_TTL_MS"];
    assert_eq!(strict(&job).gives(0).out, "4000\n");
    let handle = strict(&["acquire", "job"]).gives(0).out;
    strict(&["status", "job"]).gives(0);
    let with = |verb: &[&str]| store.run_with_input(&[&STRICT, verb].concat(), &handle);
    let extended = object(&with(&["extend", "--json"]).gives(0).out);
    assert_eq!(extended["ttl_ms"], 4000);
    with(&["extend", "--ttl", "5s"]).refuses(64, "longer than the longest");
    with(&["release"]).gives(0);
}
