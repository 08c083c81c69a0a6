//! Where the locks are, read from a file.

use std::fs;
use std::process::Command;

use testkit::Server;
use testkit::process::Signal;

use crate::common::{Done, Running, Store, object, on_both, until};

/// A URL whose server does not exist, with a password.
const LOGIN: &str = "redis://user:c2VrcmV0@127.0.0.1:1";
const PART: &str = "c2VrcmV0";

/// The program without a URL of its own, with these words in the file `urls`.
fn with_file(store: &Store, text: &str, args: &[&str]) -> Command {
    fs::write(store.path("urls"), text).unwrap();
    let mut command = store.leaselock(args);
    command.env_remove("LEASELOCK_URL");
    command
}

fn by_variable(store: &Store, text: &str, args: &[&str]) -> Done {
    let mut command = with_file(store, text, args);
    command.env("LEASELOCK_URL_FILE", "urls");
    Running::start(command).end()
}

/// Whether the lock `job` of this store is held while the program runs.
#[track_caller]
fn holds_here(store: &Store, command: Command) {
    let held = Running::start(command);
    until("the lock in this store", || {
        store.status()["state"] == "held"
    });
    held.end().gives(0);
}

const HOLD: [&str; 4] = ["run", "job", "--", "cat"];

#[test]
fn the_file_has_one_url_a_line_beside_blank_lines_and_comments() {
    on_both(|store| {
        let text = format!("# the store of all hosts\r\n\r\n  {}\r\n\n", store.url);
        let mut command = with_file(store, &text, &HOLD);
        command.env("LEASELOCK_URL_FILE", "urls");
        holds_here(store, command);
        let words = [&["--url-file", "urls"], &HOLD[..]].concat();
        holds_here(store, with_file(store, &text, &words));
    });
}

#[test]
fn an_option_goes_before_a_variable_and_the_file_before_the_url_in_a_variable() {
    let store = Store::file();
    let elsewhere = format!("file://{}", store.path("elsewhere").display());
    let flag = |flag: &'static str, value: &str, text: &str, variables: [&str; 2]| {
        let mut words = HOLD.map(str::to_owned).to_vec();
        if !flag.is_empty() {
            words.splice(1..1, [flag.to_owned(), value.to_owned()]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = with_file(&store, text, &words);
        command.env("LEASELOCK_URL", variables[0]);
        command.env("LEASELOCK_URL_FILE", variables[1]);
        holds_here(&store, command);
    };
    let here = store.url.as_str();
    flag("", "", here, [&elsewhere, "urls"]);
    flag("--url-file", "urls", here, [&elsewhere, "missing"]);
    flag("--url", here, &elsewhere, [&elsewhere, "urls"]);
    flag("", "", &elsewhere, [here, ""]);
    assert!(!store.path("elsewhere").exists());
}

#[test]
fn both_options_are_refused_with_what_would_be_right() {
    let store = Store::file();
    let words = ["--url", "file:", "--url-file", "urls"];
    for verb in [&HOLD[..], &["status", "job"]] {
        let done = Running::start(with_file(&store, &store.url, &[&words, verb].concat())).end();
        let done = done.refuses(64, "--url and --url-file: each says where the locks are");
        assert!(done.err.contains("give one of them"), "{done:?}");
    }
    let words = ["--json", "--url-file", "", "status", "job"];
    let done = Running::start(with_file(&store, &store.url, &words)).end();
    let said = object(&done.gives(64).err);
    assert!(
        said["error"].as_str().unwrap().contains("is empty"),
        "{said}"
    );
}

#[test]
fn a_file_that_has_no_urls_is_refused_and_nothing_of_it_is_shown() {
    let store = Store::file();
    let long = format!("# {PART}\n").repeat(10_000);
    for (text, words) in [
        ("", "no URL in it"),
        ("# redis://:c2VrcmV0@h\n\n", "no URL in it"),
        (&long, "longer than 64 KiB"),
        ("ll1.am9i.c2VrcmV0LXRva2Vu.42", ""),
        ("password=c2VrcmV0\n", ""),
        ("redis://h,i", "in --url-file they are one a line"),
        ("redis://:c2VrcmV0@h,redis://:c2VrcmV0@i", "several servers"),
        ("redis://:c2VrcmV0@h\nredis://:c2VrcmV0@i", ""),
    ] {
        for flags in [&[][..], &["--json"], &["-vvv"]] {
            let done = by_variable(&store, text, &[flags, &HOLD].concat());
            let done = done.refuses(64, words);
            assert!(!done.err.contains(PART), "{text:.40} {flags:?}: {done:?}");
        }
    }
    for (file, words) in [
        ("missing", "the URL file missing: No such file"),
        (".", "the URL file .: Is a directory"),
        ("redis://h", "this is a URL, and a file was asked for"),
        ("not-text", "not text"),
    ] {
        fs::write(store.path("not-text"), b"redis://\xff").unwrap();
        store
            .run(&["--url-file", file, "status", "job"])
            .refuses(64, words);
    }
    let done = store.run(&["--url-file", LOGIN, "status", "job"]).gives(64);
    assert!(!done.err.contains(PART), "{done:?}");
    assert!(!store.path("locks").exists());
}

#[test]
fn a_password_in_the_file_reaches_neither_output_nor_job() {
    let store = Store::redis();
    let login = store.login("c2VrcmV0");
    let inner = "env; \"$PROGRAM\" -vvv run -n inner -- true && \"$PROGRAM\" status -v job";
    let mut command = with_file(&store, &login, &["-vvv", "run", "job", "-c", inner]);
    command.env("PROGRAM", env!("CARGO_BIN_EXE_leaselock"));
    command.env("LEASELOCK_URL_FILE", "urls");
    let done = Running::start(command).end();
    assert!(done.out.contains("LEASELOCK_URL_FILE=urls\n"), "{done:?}");
    assert!(done.out.contains("job: held"), "{done:?}");
    assert!(
        !format!("{}{}", done.out, done.err).contains(PART),
        "{done:?}"
    );
    done.gives(0);
    for text in [LOGIN, &login.replace("c2VrcmV0@", "c2VrcmV0LWFsdA@")] {
        for flags in [&[][..], &["--json"], &["-vvv"]] {
            let words = [flags, &["run", "-n", "job", "--", "true"]].concat();
            let done = by_variable(&store, text, &words);
            assert!(matches!(done.code, 69 | 77), "{done:?}");
            assert!(
                !format!("{}{}", done.out, done.err).contains(PART),
                "{done:?}"
            );
        }
    }
}

#[test]
fn three_urls_in_the_file_are_a_quorum() {
    let servers = [Server::start(), Server::start(), Server::start()];
    let store = Store::file();
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let flags = ["--durable-nodes", "-v", "run", "job", "--", "true"];
    let done = by_variable(&store, &urls.join("\n"), &flags).gives(0);
    assert!(done.err.contains("acquired after"), "{done:?}");
}

#[test]
fn a_service_reads_the_file_again_for_the_next_tick() {
    let (store, next) = (Store::file(), Store::file());
    let words = [
        "cron",
        "* * * * * *",
        "job",
        "-c",
        "echo $LEASELOCK_TICK >> ran",
    ];
    let mut command = with_file(&store, &store.url, &words);
    command.env("LEASELOCK_URL_FILE", "urls");
    let service = Running::start(command);
    store.line_in("ran");
    fs::write(store.path("new"), &next.url).unwrap();
    fs::rename(store.path("new"), store.path("urls")).unwrap();
    until("a tick in the other store", || {
        let shown = next.run(&["schedules"]);
        shown.out.contains("job")
    });
    service.signal(Signal::TERM);
    service.end_with_stdin_open();
}

#[test]
fn what_asks_no_store_does_not_ask_for_the_file() {
    let store = Store::file();
    for words in [
        &["man", "run"][..],
        &["completions", "bash"],
        &["cron", "@daily", "--next", "1"],
    ] {
        let mut command = store.leaselock(words);
        Running::start({
            command.env("LEASELOCK_URL_FILE", "missing");
            command
        })
        .end()
        .gives(0);
    }
}
