//! Secrets that were typed where they do not belong, and those that a job is not to know.

use crate::common::{Running, Store, object};
use crate::json::VERBS;

const HANDLE: &str = "ll1.am9i.c2VrcmV0LXRva2Vu.42";
const LOGIN: &str = "redis://user:c2VrcmV0@127.0.0.1:1";
/// In both.
const PART: &str = "c2VrcmV0";

#[test]
fn no_verb_repeats_a_handle_or_a_password_from_its_arguments_or_variables() {
    let store = Store::file();
    for verb in VERBS {
        for secret in [HANDLE, LOGIN] {
            for words in [
                &[verb, secret][..],
                &[verb, "x", secret],
                &[verb, "--note", secret, "x"],
                &["--ttl", secret, verb, "x"],
                &["--json", verb, secret],
                &["-vvv", verb, "--prefix", secret, "x"],
            ] {
                let done = store.run(words);
                let shown = format!("{}{}", done.out, done.err);
                assert!(!shown.contains(PART), "{words:?}: {shown}");
                done.gives(64);
            }
        }
    }
    for variable in [
        "PREFIX",
        "STRICT",
        "DEFAULT_LONGEST_TTL",
        "TLS_CA",
        "TLS_KEY",
        "TLS_SERVER_NAME",
    ] {
        for secret in [HANDLE, LOGIN] {
            for words in [
                &["status", "x"][..],
                &["run", "x", "--", "true"],
                &["--help"],
            ] {
                let mut command = store.leaselock(words);
                command.env(format!("LEASELOCK_{variable}"), secret);
                let done = Running::start(command).end();
                let shown = format!("{}{}", done.out, done.err);
                assert!(!shown.contains(PART), "{variable} {words:?}: {shown}");
            }
        }
    }
    let mut command = store.leaselock(&["status", "x"]);
    command.env("LEASELOCK_URL", HANDLE);
    let done = Running::start(command).end().gives(64);
    assert!(!done.err.contains(PART), "{done:?}");
}

#[test]
fn a_handle_as_an_argument_of_release_is_refused_with_the_ways_that_there_are() {
    let store = Store::redis();
    let handle = store.run(&["acquire", "--ttl", "60s", "job"]).gives(0).out;
    let done = store.run(&["release", handle.trim()]);
    let done = done.refuses(
        64,
        "--handle-file FILE, from LEASELOCK_HANDLE or from standard input",
    );
    assert!(
        !done.err.contains(handle.trim()) && !done.err.contains("ll1."),
        "{done:?}"
    );
    assert_eq!(store.status()["state"], "held");
    store.run_with_input(&["release"], &handle).gives(0);
}

/// What a job finds in its environment.
fn job_sees(store: &Store, url: &str, flags: &[&str]) -> Vec<String> {
    let words = [&["run"], flags, &["job", "--", "env"]].concat();
    let mut command = store.leaselock(&words);
    command.env("LEASELOCK_URL", url);
    let out = Running::start(command).end().gives(0).out;
    let ours = out.lines().filter(|line| line.starts_with("LEASELOCK_"));
    ours.map(str::to_owned).collect()
}

#[test]
fn a_job_does_not_find_a_url_with_a_password_unless_it_is_to() {
    let store = Store::redis();
    let login = store.login("c2VrcmV0");
    let has = |seen: &[String], word: &str| seen.iter().any(|line| line.contains(word));

    let seen = job_sees(&store, &login, &[]);
    assert!(
        !has(&seen, PART) && !has(&seen, "LEASELOCK_URL="),
        "{seen:?}"
    );
    assert!(has(&seen, "LEASELOCK_WITHHELD=LEASELOCK_URL"), "{seen:?}");
    let seen = job_sees(&store, &login, &["--keep-url"]);
    let kept = format!("LEASELOCK_URL={login}");
    assert!(seen.contains(&kept) && !has(&seen, "WITHHELD"), "{seen:?}");
    let seen = job_sees(&store, &store.url, &[]);
    let plain = format!("LEASELOCK_URL={}", store.url);
    assert!(seen.contains(&plain) && !has(&seen, "WITHHELD"), "{seen:?}");
    // Also when an argument names another store.
    let seen = job_sees(&store, &login, &["--url", &store.url]);
    assert!(!has(&seen, PART), "{seen:?}");
}

#[test]
fn a_leaselock_in_a_job_without_its_url_refuses_rather_than_lock_elsewhere() {
    let store = Store::redis();
    let login = store.login("c2VrcmV0");
    let inner = |flags: &str, more: &[&str]| {
        let program = env!("CARGO_BIN_EXE_leaselock");
        let script = format!("{program} {flags} run -n inner -- touch ran");
        let words = [&["run"], more, &["job", "-c", &script]].concat();
        let mut command = store.leaselock(&words);
        command.env("LEASELOCK_URL", &login);
        Running::start(command).end()
    };
    let home = format!("--url file://{}", store.path("locks").display());
    inner("", &[]).refuses(
        64,
        "LEASELOCK_URL has a password in it and was kept from this process",
    );
    assert!(!store.path("ran").exists());
    let said = inner("--json", &[]).gives(64).err;
    assert!(
        object(&said)["error"]
            .as_str()
            .unwrap()
            .contains("--keep-url")
    );
    inner("", &["--keep-url"]).gives(0);
    inner(&home, &[]).gives(0);
}
