//! The words that scripts and people rely on: fields of `--json`, texts of `--help`.
//!
//! They lie in `tests/snapshots`. After a change that was meant, write them anew with
//! `LEASELOCK_UPDATE_SNAPSHOTS=1` and read the difference.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{Store, object};

pub(crate) const VERBS: [&str; 27] = [
    "run",
    "hold",
    "acquire",
    "extend",
    "release",
    "status",
    "ls",
    "top",
    "blame",
    "wait",
    "break",
    "log",
    "permits",
    "elect",
    "leader",
    "once",
    "cron",
    "schedules",
    "latch",
    "limit",
    "count",
    "doctor",
    "strict",
    "functions",
    "bench",
    "completions",
    "man",
];

#[track_caller]
fn is_as_before(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(file);
    if std::env::var_os("LEASELOCK_UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let before = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, before, "{file} is not what it was");
}

#[test]
fn the_help_of_every_verb_is_as_before() {
    let store = Store::file();
    is_as_before("help.txt", &store.run(&["--help"]).gives(0).out);
    for verb in VERBS {
        let long = store.run(&[verb, "--help"]).gives(0);
        is_as_before(&format!("help-{verb}.txt"), &long.out);
        assert!(long.err.is_empty());
        let short = store.run(&[verb, "-h"]).gives(0).out;
        assert!(short.lines().count() <= long.out.lines().count());
        assert!(
            long.out.lines().all(|line| line.chars().count() <= 100),
            "{verb}"
        );
    }
}

/// Every field with the kind of its value, one a line.
fn fields(at: &str, value: &Value, found: &mut Vec<String>) {
    let kind = match value {
        Value::Object(object) => {
            return object
                .iter()
                .for_each(|(key, value)| fields(&format!("{at}.{key}"), value, found));
        }
        Value::Array(list) => {
            return list
                .iter()
                .take(1)
                .for_each(|value| fields(&format!("{at}[]"), value, found));
        }
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "number",
        Value::String(_) => "text",
    };
    found.push(format!("{at}: {kind}\n"));
}

fn shape(text: &str) -> String {
    let mut found = Vec::new();
    fields("", &object(text.lines().next().unwrap()), &mut found);
    found.concat()
}

fn last(text: &str) -> String {
    text.lines().next_back().unwrap().to_owned()
}

#[test]
fn the_fields_of_every_verb_are_as_before() {
    let store = Store::redis();
    let (free, not_held) = (
        store.run(&["status", "--json", "job"]),
        store.run(&["wait", "--json", "job"]),
    );
    let holder = store.hold(&["--note", "nightly"]);
    let waiter = store.start(&["run", "job", "--", "true"]);
    store.until_queued(1);
    let acquired = store.run(&["acquire", "--json", "other"]).out;
    store.server().cli(&["SADD", "a-set", "x"]);
    let ticks = ["HSET", "{nightly}:ll:cron", "skipped", "1795000000000000"];
    let schedule = ["schedule", "60000000 UTC 30 2 * * *"];
    store.server().cli(&[&ticks[..], &schedule].concat());
    let cases = [
        ("status, free", free.out),
        (
            "status, held with a waiter",
            store.run(&["status", "--json", "job"]).out,
        ),
        (
            "status, not a lock",
            store.run(&["status", "--json", "a-set"]).out,
        ),
        ("ls", store.run(&["ls", "--json"]).out),
        ("blame", store.run(&["blame", "--json"]).out),
        ("ls, names", store.run(&["ls", "--names", "--json"]).out),
        ("wait, free", not_held.out),
        (
            "wait, held",
            store.run(&["wait", "-n", "--json", "job"]).out,
        ),
        ("schedules", store.run(&["schedules", "--json"]).out),
        ("doctor", store.run(&["doctor", "--json"]).out),
        (
            "doctor, at the end",
            last(&store.run(&["doctor", "--json"]).out),
        ),
        (
            "bench",
            store.run(&["bench", "--json", "--seconds", "1"]).out,
        ),
        ("acquire", acquired.clone()),
        (
            "extend",
            store.run_with_input(&["extend", "--json"], &acquired).out,
        ),
        (
            "release",
            store.run_with_input(&["release", "--json"], &acquired).out,
        ),
        (
            "an error",
            store.run(&["run", "-n", "--json", "job", "--", "true"]).err,
        ),
        (
            "strict",
            store
                .run(&["strict", "init", "--longest", "1m", "--json"])
                .out,
        ),
        ("break", store.run(&["break", "--json", "--yes", "job"]).out),
        ("log", store.run(&["log", "--json", "--kind", "broken"]).out),
        ("a lost lease, on standard error", holder_said(holder)),
    ];
    waiter.end().gives(0);
    let text: String = cases
        .iter()
        .chain(&of_several_holders(&store))
        .chain(&of_hold(&store))
        .map(|(case, text)| format!("{case}\n{}\n", shape(text)))
        .collect();
    is_as_before("json-fields.txt", &text);
}

#[test]
fn a_line_that_is_wrong_is_an_object_too_and_says_what_would_be_right() {
    let store = Store::file();
    for (line, right) in [
        (&["--json"][..], "Try: leaselock run NAME -- COMMAND"),
        (
            &["--json", "fly"],
            "To run a command under the lock 'fly': leaselock run fly -- COMMAND",
        ),
        (
            &["wait", "--json"],
            "the following required arguments were not provided: <NAME>",
        ),
        (
            &["status", "--jsno", "--json", "job"],
            "tip: a similar argument exists: '--json'",
        ),
        (
            &["run", "--json", "--ttl", "5x", "job", "true"],
            "one of the units d, h, m, s, ms, us",
        ),
        (
            &["run", "--json", "--ttl", "1ms", "job", "true"],
            "give 100ms or more",
        ),
    ] {
        let done = store.run(line).gives(64);
        let said = object(&done.err);
        assert_eq!(
            (&said["exit"], &said["kind"]),
            (&64.into(), &"usage".into())
        );
        assert!(said["name"].is_null() && said["holder"].is_null());
        let text = said["error"].as_str().unwrap();
        assert!(text.contains(right) && !text.contains("Usage:"), "{text}");
    }
    let of_the_job = store.run(&["run", "--tll", "5s", "job", "--", "true", "--json"]);
    assert!(of_the_job.gives(64).err.starts_with("leaselock: "));
}

/// Readers, and permits that one more asks for.
fn of_several_holders(store: &Store) -> Vec<(&'static str, String)> {
    let begun = |name: &str, flags: &[&str]| {
        let script = format!("echo > {name}; exec cat");
        let job = [name, "--", "sh", "-c", &script];
        let running = store.start(&[&["run"], flags, &job].concat());
        store.line_in(name);
        running
    };
    let both = [begun("read", &["-s"]), begun("pool", &["--permits", "1"])];
    let waits = store.start(&["run", "--permits", "1", "pool", "--", "true"]);
    crate::common::until("one waits", || {
        store
            .run(&["permits", "pool"])
            .out
            .contains("for 1 permit\n")
    });
    let said = |words: &[&str]| store.run(&[words, &["--json"]].concat()).out;
    let cases = vec![
        ("status, readers", said(&["status", "read"])),
        ("wait, readers", said(&["wait", "-n", "read"])),
        ("permits, with a waiter", said(&["permits", "pool"])),
        ("permits, set", said(&["permits", "pool", "set", "2"])),
    ];
    waits.end().gives(0);
    for running in both {
        running.end().gives(0);
    }
    cases
}

/// The events of one that waits and of one that is broken.
fn of_hold(store: &Store) -> Vec<(&'static str, String)> {
    let told = |running: &crate::common::Running, word: &str| {
        let word = format!("\"event\":\"{word}\"");
        let mut found = None;
        crate::common::until(&word, || {
            let printed = running.printed();
            let mut lines = printed.split_inclusive('\n');
            found = lines
                .find(|line| line.contains(&word) && line.ends_with('\n'))
                .map(str::to_owned);
            found.is_some()
        });
        found.unwrap()
    };
    let first = store.start(&["hold", "held"]);
    told(&first, "acquired");
    let second = store.start(&["hold", "--ttl", "1s", "held"]);
    let queued = told(&second, "queued");
    first.end().gives(0);
    let (acquired, renewed) = (told(&second, "acquired"), told(&second, "renewed"));
    let third = store.start(&["hold", "--ttl", "1s", "broken"]);
    told(&third, "acquired");
    store.run(&["break", "--yes", "--now", "broken"]).gives(0);
    vec![
        ("hold, queued", queued),
        ("hold, acquired", acquired),
        ("hold, renewed", renewed),
        ("hold, released", last(&second.end().gives(0).out)),
        ("hold, lost", told(&third, "lost")),
    ]
}

/// What `run --json` says when its lease is broken.
fn holder_said(plain: crate::common::Running) -> String {
    drop(plain);
    let store = Store::redis();
    let holder = store.hold(&["--json", "--ttl", "1s"]);
    store.run(&["break", "--yes", "job"]).gives(0);
    holder.end_with_stdin_open().gives(79).err
}

#[test]
fn what_others_wrote_never_reaches_the_terminal_as_a_command() {
    let store = Store::redis();
    let server = store.server();
    store.run(&["acquire", "--ttl", "10m", "job"]).gives(0);
    let client = store.status()["holder"]["client"]
        .as_str()
        .unwrap()
        .to_owned();
    let evil = "x\u{1b}[31mx\u{9b}2Jx\u{7}x\rx";
    let about = format!("host{evil}\n77\nname{evil}\n1");
    server.cli(&["SET", &format!("ll:client:{client}"), &about]);
    let token = server.cli(&["GET", "job"]).text().unwrap().to_owned();
    server.cli(&["SET", "{job}:ll:why", &format!("{token}why{evil}")]);
    server.cli(&["SET", "foreign", evil]);
    let cases: [&[&str]; 10] = [
        &["status", "job"],
        &["status", "--json", "job"],
        &["ls"],
        &["ls", "--json"],
        &["top"],
        &["run", "-n", "job", "--", "true"],
        &["run", "-n", "--json", "job", "--", "true"],
        &["wait", "-n", "job"],
        &["status", "foreign"],
        &["break", "-y", "job"],
    ];
    for case in cases {
        let done = store.run(case);
        let shown = format!("{}{}", done.out, done.err);
        assert!(
            shown.chars().all(|c| c == '\n' || !c.is_control()),
            "{case:?} {done:?}"
        );
        assert!(!shown.contains("\\u001b"), "{case:?} {done:?}");
        let from_others =
            shown.contains("namex\u{fffd}[31m") || case[1] == "foreign" || shown.is_empty();
        assert!(from_others || case.contains(&"--json"), "{case:?} {done:?}");
    }
}
