//! What is refused before anything is sent: 64, and a message that says what would be right.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::common::{Running, Store};

/// A store that cannot be reached: a verb that sends a request exits 69.
fn nowhere() -> Store {
    let mut store = Store::file();
    store.url = "redis://127.0.0.1:1".into();
    store
}

#[test]
fn a_name_that_no_store_takes_is_refused_with_the_rule() {
    let store = nowhere();
    let long = "x".repeat(513);
    let names = [
        ("", "at least one byte"),
        ("a\nb", "control characters are not allowed"),
        ("a\u{1b}[31mb", "control characters are not allowed"),
        ("a{b", "one non-empty hash tag, such as `{orders}:42`"),
        ("a{}b", "one non-empty hash tag"),
        ("a:ll:b", "leaselock's own"),
        (&long, "at most 512"),
    ];
    for (name, rule) in names {
        for verb in [
            &["run", "-n"][..],
            &["acquire"],
            &["status"],
            &["wait"],
            &["break", "-y"],
        ] {
            let command: &[&str] = if verb[0] == "run" { &["true"] } else { &[] };
            let done = store
                .run(&[verb, &[name], command].concat())
                .refuses(64, rule);
            assert!(!done.err.contains('\u{1b}'), "{done:?}");
        }
    }
}

#[test]
fn a_value_out_of_range_is_refused_with_the_range() {
    let store = nowhere();
    let cases: [(&[&str], &str); 20] = [
        (&["--ttl", "0"], "give 100ms or more"),
        (&["--ttl", "99ms"], "give 100ms or more"),
        (&["--ttl", "31d"], "from 10 ms to 30 days"),
        (&["--ttl", "1e400"], "write for example 250ms"),
        (&["--ttl", "-1"], "it is negative"),
        (&["--ttl", ""], "it is empty"),
        (&["--ttl", "5x"], "one of the units d, h, m, s, ms, us"),
        (&["--ttl", "1.2.3"], "decimal numbers and units"),
        (&["--ttl", "99999999999d"], "it is too long"),
        (&["-w", "-1"], "it is negative"),
        (&["-w", "1e400"], "write for example 250ms"),
        (&["-n", "-w", "1"], "cannot be used with"),
        (&["-E", "256"], "0..=255"),
        (&["-E", "-1"], "0..=255"),
        (&["-k", "5s"], "is half the ttl of 10 s or more"),
        (&["--signal", "FOO"], "`kill -l`"),
        (
            &["--max-hold", "0"],
            "--max-hold: 0 s is shorter than the ttl of 10 s",
        ),
        (&["--priority", "2147483648"], "2147483647"),
        (&["--note", "a\u{1b}[31m"], "no control characters"),
        (&["-X"], "unexpected argument '-X'"),
    ];
    for (flags, right) in cases {
        let done = store.run(&[&["run"], flags, &["job", "--", "true"]].concat());
        let done = done.refuses(64, right);
        assert!(
            done.err.starts_with("leaselock: ") && !done.err.contains('\u{1b}'),
            "{done:?}"
        );
    }
    store
        .run(&["acquire", "--ttl", "9ms", "job"])
        .refuses(64, "from 10 ms to 30 days");
    store
        .run(&["run", "job"])
        .refuses(64, "`-- COMMAND` after the name");
    let try_this = "no command given. Try: leaselock run NAME -- COMMAND";
    store.run(&[]).refuses(64, try_this);
    let flown = store.run(&["fly", "--", "touch", "ran"]);
    let flown = flown.refuses(64, "unrecognized subcommand 'fly'");
    assert!(
        flown.err.contains("leaselock run fly -- COMMAND"),
        "{flown:?}"
    );
    assert!(!store.path("ran").exists());
}

#[test]
fn a_url_that_names_no_store_is_refused_with_the_forms_that_do() {
    let store = Store::file();
    let cases = [
        ("http://h", "redis://[user:password@]host[:port][/db]"),
        ("redis://", "as in redis://host"),
        ("redis://h:99999", "from 1 to 65535"),
        ("redis://h/abc", "the number of a database"),
        ("file://rel/x", "file:///srv/locks"),
        ("mem:", "every leaselock has its own memory; use file:"),
        ("nonsense", "redis://"),
        ("redis://a,b", "separated by spaces, or repeat --url"),
        (
            "redis://a:1,redis://b:2",
            "separated by spaces, or repeat --url",
        ),
    ];
    for (url, right) in cases {
        store
            .run(&["--url", url, "run", "job", "--", "touch", "ran"])
            .refuses(64, right);
        let mut command = store.leaselock(&["status", "job"]);
        command.env("LEASELOCK_URL", url);
        Running::start(command).end().refuses(64, right);
    }
    assert!(!store.path("ran").exists());
}

#[test]
fn no_error_shows_a_password() {
    let store = Store::file();
    let urls = [
        "redis://u:sekret@127.0.0.1:1",
        "redis://u:sekret@127.0.0.1:port",
        "redis://u:sek ret@127.0.0.1:1",
        "redis+foo://u:sekret@h",
        "redis://u:sekret@",
        "redis://:sekret@h/abc",
        "redis+unix:///nowhere?pass=sekret",
        "redis+unix:///nowhere?pass=sekret&what=1",
    ];
    for url in urls {
        let cases: [&[&str]; 6] = [
            &["-vvv", "--url", url, "run", "-n", "job", "--", "true"],
            &["-vvv", "--url", url, "--json", "status", "job"],
            &["-vvv", "--url", url, "doctor"],
            &["-vvv", "--url", url, "fly"],
            &[
                "--url",
                "redis://127.0.0.1:1",
                "-vvv",
                "run",
                "-n",
                url,
                "--",
                "true",
            ],
            &["status", "--ulr", url],
        ];
        for case in cases {
            let done = store.run(case);
            let shown = format!("{}{}", done.out, done.err);
            assert!(done.code != 0 && !shown.is_empty(), "{case:?} {done:?}");
            assert!(
                !shown.contains("sekret") && !shown.contains("sek ret"),
                "{case:?} {done:?}"
            );
        }
    }
}

#[test]
fn a_full_output_is_an_error_and_a_reader_that_has_seen_enough_is_none() {
    let store = Store::file();
    for words in [&["status", "job"][..], &["--help"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = store.leaselock(words);
        command
            .stdin(Stdio::null())
            .stdout(full)
            .stderr(Stdio::piped());
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(74));
        assert!(said.contains("standard output: No space left"), "{said}");
    }

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = store.leaselock(&["status", "job"]);
    command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped());
    let output = command.output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );

    // With all three closed the program still does what it was asked.
    let script = "exec \"$@\" <&- >&- 2>&-";
    let program = env!("CARGO_BIN_EXE_leaselock");
    let words = [
        "-c", script, "sh", program, "run", "job", "--", "touch", "ran",
    ];
    Running::start(store.command("sh", &words)).end().gives(0);
    assert!(store.path("ran").exists());
}

#[test]
fn an_empty_environment_is_enough() {
    let store = Store::file();
    let mut command = store.leaselock(&["--url", &store.url, "run", "job", "--", "/usr/bin/env"]);
    command.env_clear();
    let done = Running::start(command).end().gives(0);
    let mut names: Vec<_> = done
        .out
        .lines()
        .map(|line| line.split('=').next().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "LEASELOCK_FENCE",
            "LEASELOCK_NAME",
            "LEASELOCK_OWNER",
            "LEASELOCK_SEQUENCER",
            "LEASELOCK_TTL_MS"
        ]
    );
}
