//! What people see on a terminal and scripts do not.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use testkit::process::{Signal, signal};

use crate::common::{Store, object};

/// A terminal: our end, and that of a program.
pub(crate) fn terminal() -> (File, OwnedFd) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let other_end: OwnedFd = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap()
        .into();
    (File::from(terminal), other_end)
}

/// Runs the program with standard output and error on a terminal; gives what was shown there.
fn shown(store: &Store, args: &[&str]) -> String {
    shown_at(80, store, args)
}

/// The same on a terminal that is so wide.
fn shown_at(columns: u16, store: &Store, args: &[&str]) -> String {
    let (mut terminal, other_end) = terminal();
    let size = Winsize {
        ws_row: 20,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size).unwrap();
    let mut command = store.leaselock(args);
    command
        .stdin(Stdio::null())
        .stdout(other_end.try_clone().unwrap())
        .stderr(other_end);
    let mut child = command.spawn().unwrap();
    drop(command); // with our copies of the other end, so that reading has an end
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    // It fails once no process has the other end.
    while let Ok(length @ 1..) = terminal.read(&mut piece) {
        text.extend_from_slice(&piece[..length]);
    }
    assert!(child.wait().unwrap().success());
    String::from_utf8(text).unwrap().replace('\r', "")
}

#[test]
fn an_empty_list_says_so_and_where_and_prints_nothing_into_a_pipe() {
    let store = Store::file();
    let folder = format!("the folder {}", store.path("locks").display());
    let text = format!("leaselock: no locks are held in {folder}\n");
    assert_eq!(shown(&store, &["ls"]), text);
    for silent in [&["ls", "-q"][..], &["ls", "--json"], &["ls", "--names"]] {
        assert_eq!(shown(&store, silent), "", "{silent:?}");
    }
    let piped = store.run(&["ls"]).gives(0);
    assert_eq!((piped.out.as_str(), piped.err.as_str()), ("", ""));
}

#[test]
fn an_empty_list_beside_locks_that_are_held_does_not_say_that_none_are() {
    let store = Store::file();
    store.run(&["acquire", "--ttl", "10m", "job"]).gives(0);
    let folder = format!("the folder {}", store.path("locks").display());
    let text = format!("leaselock: of the locks that are held in {folder} none is asked for\n");
    for flags in [
        &["--contended"][..],
        &["--kind", "leader"],
        &["--limit", "0"],
        &["--limit", "0", "--sort", "name"],
    ] {
        assert_eq!(shown(&store, &[&["ls"], flags].concat()), text, "{flags:?}");
    }
    let text = format!("leaselock: no locks that match `other` are held in {folder}\n");
    assert_eq!(shown(&store, &["ls", "--contended", "other"]), text);
}

/// A lock is held there until Ctrl-C, which comes as a signal. What is typed is not read.
#[test]
fn hold_speaks_to_people_on_a_terminal_and_ends_by_an_interrupt() {
    let store = Store::file();
    let (mut terminal, other_end) = terminal();
    let mut command = store.leaselock(&["hold", "job"]);
    command.stdin(other_end.try_clone().unwrap());
    command
        .stdout(other_end.try_clone().unwrap())
        .stderr(other_end);
    let mut child = command.spawn().unwrap();
    drop(command);
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    while !text.contains("held until Ctrl-C") {
        let length = terminal.read(&mut piece).unwrap();
        text.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    terminal.write_all(b"release\n").unwrap();
    assert_eq!(store.status()["state"], "held");
    assert!(signal(child.id(), Signal::INT));
    assert!(child.wait().unwrap().success());
    while let Ok(length @ 1..) = terminal.read(&mut piece) {
        text.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    assert!(text.contains("leaselock: job: acquired after "), "{text}");
    assert!(text.contains("leaselock: job: released, held "), "{text}");
    assert!(!text.contains('{'), "{text}");
}

#[test]
fn status_names_the_store_above_the_locks() {
    let store = Store::file();
    let folder = format!("the folder {}", store.path("locks").display());
    let text = format!("leaselock: locks in {folder}:\njob: free\n");
    assert_eq!(shown(&store, &["status", "job"]), text);
    assert_eq!(shown(&store, &["status", "-q", "job"]), "job: free\n");
}

#[test]
fn a_long_name_leaves_the_other_columns_in_sight_on_a_terminal_and_is_whole_in_a_pipe() {
    let store = Store::file();
    let long = "nightly-".repeat(9);
    let ticks = ["cron", "* * * * * *", &long, "-c", "echo > ran"];
    let service = store.start(&ticks);
    store.line_in("ran");
    service.signal(Signal::TERM);
    service.end_with_stdin_open();
    store.run(&["acquire", "--ttl", "10m", &long]).gives(0);
    for (verb, columns) in [
        ("ls", ["KIND", "HELD", "BY"]),
        ("schedules", ["SCHEDULE", "LAST", "STATE"]),
    ] {
        let lines = shown_at(60, &store, &[verb]);
        let (heading, row) = lines.split_once('\n').unwrap();
        assert!(
            columns.iter().all(|column| heading.contains(column)),
            "{lines}"
        );
        assert!(
            row.starts_with("nightly-night") && row.contains("…  "),
            "{lines}"
        );
        assert!(
            lines.lines().all(|line| line.chars().count() <= 60),
            "{lines}"
        );
        let piped = store.run(&[verb]).gives(0).out;
        assert!(piped.contains(&format!("\n{long}  ")), "{piped}");
    }
    let listed = object(&store.run(&["ls", "--json"]).gives(0).out);
    assert_eq!(listed["name"], *long);
}

#[test]
fn on_a_narrow_terminal_schedules_are_shown_with_shorter_times_and_with_their_hosts() {
    let store = Store::redis();
    let server = store.server();
    let state = "done AAAAAAAAAAAAAAAAAAAAAA.abcdefgh 1 1795000000000000";
    let schedule = "1000000 Europe/Berlin 30 2 * * *";
    let record = ["HSET", "{nightly-report}:ll:cron", "state", state];
    server.cli(&[&record[..], &["schedule", schedule]].concat());
    let about = "db1\n77\nreport\n1\nserves nightly-report";
    server.cli(&["SET", "ll:client:abcdefgh", about]);
    let seen = |columns| {
        let lines = shown_at(columns, &store, &["schedules"]);
        let row = lines.lines().nth(1).unwrap().to_owned();
        assert!(
            lines
                .lines()
                .all(|line| line.chars().count() <= columns.into())
        );
        assert!(row.ends_with("  db1"), "{lines}");
        let headings: Vec<_> = lines
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        (headings.join(" "), row)
    };
    let (all, row) = seen(160);
    assert_eq!(all, "NAME SCHEDULE ZONE LAST STATE NEXT HOSTS");
    assert!(
        row.contains("Europe/Berlin  2026-11-18 12:06:40  "),
        "{row}"
    );
    let (most, row) = seen(90);
    assert_eq!(most, all);
    assert!(row.contains("Europe/Berlin  11-18 12:06  "), "{row}");
    let (fewest, row) = seen(80);
    assert_eq!(fewest, "NAME SCHEDULE LAST STATE NEXT HOSTS");
    assert!(
        row.starts_with("nightly-report  30 2 * * *  11-18 12:06  "),
        "{row}"
    );
}
