//! The whole terminal: what is on it, what keys do, and that it is given back.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::sync::{Arc, Mutex};

use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use testkit::process::{Signal, signal};

use crate::common::{Store, object, on_both, until};
use crate::terminal::terminal;

/// `top` on a terminal, and all that it has written there.
struct Top {
    child: Child,
    keys: File,
    other_end: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
}

const ROWS: u16 = 20;
/// Room for a line of the log on a host with the longest name.
const COLUMNS: u16 = 240;

impl Top {
    fn start(store: &Store, flags: &[&str]) -> Top {
        let (mut ours, other_end) = terminal();
        let size = Winsize {
            ws_row: ROWS,
            ws_col: COLUMNS,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&ours, size).unwrap();
        let mut command = store.leaselock(&[&["top", "--every", "100ms"], flags].concat());
        command
            .env("LANG", "C.UTF-8")
            .env_remove("LC_ALL")
            .env("TERM", "xterm")
            .stdin(other_end.try_clone().unwrap())
            .stdout(other_end.try_clone().unwrap())
            .stderr(other_end.try_clone().unwrap());
        let child = command.spawn().unwrap();
        drop(command);
        let keys = ours.try_clone().unwrap();
        let written = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = ours.read(&mut piece) {
                to.lock().unwrap().extend_from_slice(&piece[..length]);
            }
        });
        Top {
            child,
            keys,
            other_end,
            written,
        }
    }

    fn raw(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// What is on the terminal now.
    fn shown(&self) -> String {
        picture(&self.raw())
    }

    #[track_caller]
    fn until(&self, words: &str) {
        until(words, || self.shown().contains(words));
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Whether a line is edited there, and shown as it is typed.
    fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.other_end).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// Its end code, once it has given the terminal back.
    #[track_caller]
    fn ends(&mut self) -> i32 {
        until("the end", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        assert!(self.is_cooked());
        let given_back = ["\u{1b}[?1049l", "\u{1b}[?25h"];
        until("the terminal as it was", || {
            let raw = self.raw();
            let last = |word: &str| raw.rfind(word).is_some();
            given_back.iter().all(|word| last(word))
        });
        assert!(self.raw().rfind("\u{1b}[?1049l") > self.raw().rfind("\u{1b}[?1049h"));
        status.code().unwrap_or_else(|| -status.signal().unwrap())
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The cells after these bytes: of the sequences those are understood that move, clear and switch.
fn picture(raw: &str) -> String {
    let empty = || vec![vec![' '; COLUMNS.into()]; ROWS.into()];
    let (mut cells, mut row, mut column) = (empty(), 0, 0);
    let mut rest = raw.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' if rest.peek() == Some(&'[') => {
                rest.next();
                let mut numbers = String::new();
                let end = loop {
                    match rest.next() {
                        Some(c) if c.is_ascii_alphabetic() => break c,
                        Some(c) => numbers.push(c),
                        None => break ' ',
                    }
                };
                let mut parts = numbers.split(';').map(|it| it.parse().unwrap_or(1));
                let mut part = || parts.next().unwrap_or(1_usize) - 1;
                match end {
                    'H' => (row, column) = (part(), part()),
                    'J' => cells = empty(),
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            c => {
                if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column)) {
                    *cell = c;
                }
                column += 1;
            }
        }
    }
    let lines = cells.into_iter().map(String::from_iter);
    lines.collect::<Vec<String>>().join("\n")
}

#[test]
fn each_signal_ends_it_and_the_terminal_is_as_before() {
    let store = Store::file();
    let holder = store.hold(&[]);
    for (by, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut top = Top::start(&store, &[]);
        assert!(top.is_cooked());
        top.until("1 held");
        assert!(!top.is_cooked(), "keys are read one by one");
        assert!(top.raw().contains("\u{1b}[?1049h"));
        assert!(signal(top.child.id(), by));
        assert_eq!(top.ends(), code);
    }
    holder.end().gives(0);
}

#[test]
fn keys_show_the_lock_the_log_and_the_help_and_q_ends() {
    on_both(|store| {
        let holder = store.hold(&["--note", "July"]);
        store.run(&["acquire", "--ttl", "10m", "other"]).gives(0);
        let waiter = store.start(&["run", "job", "--", "true"]);
        store.until_queued(1);
        let mut top = Top::start(store, &[]);
        top.until("2 held  1 contended  1 waiting");
        let pid = holder.pid().to_string();
        top.until(&pid);
        top.press("\r");
        top.until(&format!("1. true[{}]", waiter.pid()));
        top.press("?");
        top.until("the event log of the store");
        top.press("e");
        top.until("the log has no entry");
        top.press("\u{1b}");
        top.until("July");
        top.press("/oth");
        top.until("only *oth*");
        until("only the other", || !top.shown().contains("July"));
        top.press("\r");
        top.press("c");
        top.until("no locks are held that are to be shown");
        top.press("q");
        assert_eq!(top.ends(), 0);
        holder.end().gives(0);
        waiter.end().gives(0);
    });
}

#[test]
fn a_lock_is_broken_after_its_name_and_only_where_that_is_allowed() {
    let store = Store::redis();
    store.run(&["acquire", "--ttl", "10m", "job"]).gives(0);
    let mut top = Top::start(&store, &[]);
    top.until("1 held");
    top.press("b");
    top.until("start `leaselock top --allow-break`");
    top.press("q");
    assert_eq!(top.ends(), 0);

    let mut top = Top::start(&store, &["--allow-break"]);
    top.until("1 held");
    top.press("bjo\r");
    top.until("nothing was broken");
    assert_eq!(store.status()["holder"]["broken"], false);
    top.press("bjob\r");
    top.until("why, for the holder and the log?");
    top.press("stuck\r");
    top.until("`job` was taken from leaselock acquire[");
    assert_eq!(store.status()["holder"]["broken"], true);
    let entry = object(&store.run(&["log", "--json"]).gives(0).out);
    assert_eq!(
        (&entry["kind"], &entry["text"]),
        (&"broken".into(), &"stuck".into())
    );
    top.press("e");
    top.until("stuck");
    top.press("\u{3}");
    assert_eq!(top.ends(), 130);
}

#[test]
fn what_no_pattern_may_be_ends_it_with_a_usage_error() {
    let store = Store::file();
    let mut top = Top::start(&store, &[""]);
    assert_eq!(top.ends(), 64);
    top.until("leaselock: ");
}

#[test]
fn while_the_store_is_down_the_list_stays_and_the_error_has_an_age() {
    let store = Store::redis();
    store.run(&["acquire", "--ttl", "10m", "job"]).gives(0);
    let mut top = Top::start(&store, &[]);
    top.until("1 held");
    store.server().kill();
    top.until("no news for ");
    assert!(top.shown().contains("1 held") && top.shown().contains("job "));
    store.server().restart();
    until("news", || !top.shown().contains("no news for "));
    top.press("q");
    assert_eq!(top.ends(), 0);
}

#[test]
fn into_a_pipe_it_prints_one_frame() {
    on_both(|store| {
        let frame = store.run(&["top"]).gives(0).out;
        assert!(
            frame.contains("\n0 held  0 contended  0 waiting"),
            "{frame}"
        );
        let holder = store.hold(&["--note", "July"]);
        let waiter = store.start(&["run", "job", "--", "true"]);
        store.until_queued(1);
        let frame = store.run(&["top", "--once"]).gives(0).out;
        let lines: Vec<&str> = frame.lines().collect();
        assert!(lines[0].starts_with("leaselock top  "), "{frame}");
        assert!(lines[1].starts_with("1 held  1 contended  1 waiting  sweep "));
        let headings = lines[2].split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(headings, "NAME WAITING HELD BY KIND PID HOST EXPIRES NOTE");
        let cells: Vec<&str> = lines[3].split_whitespace().collect();
        assert_eq!((cells[0], cells[1]), ("job", "1"));
        assert!(lines[3].contains(&holder.pid().to_string()));
        assert!(frame.ends_with("  July\n") && lines.len() == 4, "{frame}");
        assert!(frame.chars().all(|c| c == '\n' || !c.is_control()));

        let listed = object(&store.run(&["top", "--json"]).gives(0).out);
        let found = (&listed["name"], &listed["waiter_count"]);
        assert_eq!(found, (&"job".into(), &1.into()));
        let none = store.run(&["top", "--once", "nothing*"]).gives(0).out;
        assert!(none.contains("no locks are held"), "{none}");
        store
            .run(&["top", "--every", "1ms"])
            .refuses(64, "--every: give 100 ms or more");
        holder.end().gives(0);
        waiter.end().gives(0);
    });
}

#[test]
fn a_store_that_does_not_reply_is_an_error_where_there_is_one_frame() {
    let store = Store::redis();
    store.server().kill();
    let done = store.run(&["top", "--once"]);
    assert_eq!(done.out, "");
    done.gives(69);
}
