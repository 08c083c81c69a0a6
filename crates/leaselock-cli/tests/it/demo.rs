//! The demonstration on the first page: two terminals on one server, which loses its data.
//!
//! It is played at each run of the tests and compared with the recording, from which `cargo xtask tidy --write`
//! draws the picture. `LEASELOCK_RECORD_DEMO=1` records it anew.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::termios::{Winsize, tcsetwinsize};
use testkit::clock;
use testkit::process::{Signal, signal};

use crate::common::{Store, object, until};
use crate::terminal::terminal;

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/img/demo.txt");
const HEAD: &str = "\
# Two terminals, A and B, as the test `demo` recorded them; `cargo xtask tidy --write` draws demo.svg from it.
# Milliseconds, terminal, text; `~` takes the place of the line before it. Nobody typed `-`: it says what happened.
";
/// Of a terminal on which no line is cut.
const WIDTH: u16 = 240;

/// A line that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    at_ms: u128,
    pane: char,
    /// It takes the place of the one before it there.
    instead: bool,
    text: String,
}

struct Stage {
    store: Store,
    begin: Duration,
    shown: Arc<Mutex<Vec<Shown>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Stage {
    fn show(&self, pane: char, text: &str) {
        show(&self.shown, self.begin, (pane, false, text));
    }

    fn has(&self, pane: char, text: &str) -> bool {
        let shown = self.shown.lock().unwrap();
        shown
            .iter()
            .any(|one| one.pane == pane && one.text.contains(text))
    }

    /// Starts the command on a terminal of its own.
    fn start(&mut self, pane: char, line: &str) -> Started {
        self.show(pane, &format!("$ leaselock {line}"));
        let parts = line.split('\'').enumerate(); // every second one is quoted
        let words = parts.flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        let words: Vec<&str> = words.collect();
        let (mut ours, other_end) = terminal();
        let size = Winsize {
            ws_row: 24,
            ws_col: WIDTH,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&ours, size).unwrap();
        let mut command = self.store.leaselock(&words);
        command.stdin(Stdio::null()).env("LOGNAME", "alice");
        command
            .stdout(other_end.try_clone().unwrap())
            .stderr(other_end);
        let child = command.spawn().unwrap();
        let (shown, begin) = (Arc::clone(&self.shown), self.begin);
        self.readers.push(thread::spawn(move || {
            let (mut screen, mut piece) = (Line::default(), [0; 4096]);
            while let Ok(length @ 1..) = ours.read(&mut piece) {
                screen.write(&piece[..length], |instead, text| {
                    show(&shown, begin, (pane, instead, text));
                });
            }
        }));
        Started(child)
    }
}

/// A command on a terminal, which ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn show(shown: &Mutex<Vec<Shown>>, begin: Duration, (pane, instead, text): (char, bool, &str)) {
    shown.lock().unwrap().push(Shown {
        at_ms: (clock::now() - begin).as_millis(),
        pane,
        instead,
        text: text.to_owned(),
    });
}

/// The line of a terminal that the cursor is on.
#[derive(Default)]
struct Line {
    text: String,
    /// As it was shown last.
    before: Option<String>,
}

impl Line {
    fn write(&mut self, bytes: &[u8], mut show: impl FnMut(bool, &str)) {
        let text = String::from_utf8_lossy(bytes).replace("\u{1b}[K", "");
        for (at, piece) in text.replace("\r\n", "\n").split('\n').enumerate() {
            if at > 0 {
                self.shown(&mut show);
                (self.text, self.before) = (String::new(), None);
            }
            let from = piece.rfind('\r');
            if from.is_some() {
                self.text.clear();
            }
            self.text
                .push_str(&piece[from.map_or(0, |from| from + 1)..]);
        }
        self.shown(&mut show);
    }

    fn shown(&mut self, show: &mut impl FnMut(bool, &str)) {
        if self.before.as_deref().unwrap_or_default() != self.text {
            show(self.before.is_some(), &self.text);
            self.before = Some(self.text.clone());
        }
    }
}

/// The server grants no lock after its restart until each lease has expired that it may have forgotten.
fn play() -> Vec<Shown> {
    let store = Store::redis();
    store.run(&["--strict", "9s", "strict", "init"]).gives(0);
    let report = "#!/bin/sh\necho 'report: page 1'\nexec sleep 600\n";
    fs::write(store.path("report"), report).unwrap();
    let may_run = fs::Permissions::from_mode(0o755);
    fs::set_permissions(store.path("report"), may_run).unwrap();
    let mut stage = Stage {
        store,
        begin: clock::now(),
        shown: Arc::default(),
        readers: Vec::new(),
    };
    let mut first = stage.start(
        'A',
        "--strict 9s run --ttl 9s --note 'July figures' nightly -- ./report",
    );
    until("the first report", || stage.has('A', "page 1"));
    until("the record of the first holder", || {
        let seen = stage.store.run(&["status", "--json", "nightly"]);
        let holder = &object(&seen.out)["holder"];
        holder["process"].is_object() && holder["note"].is_string()
    });
    let mut status = stage.start('B', "status nightly");
    assert!(status.0.wait().unwrap().success());
    until("the status", || stage.has('B', "held by"));
    let mut second = stage.start('B', "--strict 9s run --ttl 9s nightly -- ./report");
    until("the waiter", || {
        stage.has('B', "position 1; July figures; held by")
    });
    stage.show('-', "the server is killed, and comes back without its data");
    stage.store.server().kill();
    stage.store.server().restart();
    let code = first.0.wait().unwrap().code();
    assert_eq!(code, Some(79));
    assert!(
        !stage.has('B', "page 1"),
        "the second report runs beside the first"
    );
    until("the loss", || stage.has('A', "lost"));
    stage.show('A', "$ echo $?");
    stage.show('A', &code.unwrap().to_string());
    until("the second report", || stage.has('B', "page 1"));
    assert!(signal(second.0.id(), Signal::TERM));
    second.0.wait().unwrap();
    stage
        .readers
        .into_iter()
        .for_each(|one| one.join().unwrap());
    let shown = std::mem::take(&mut *stage.shown.lock().unwrap());
    let shown = shown.into_iter().map(|one| Shown {
        text: told(&one.text, &stage.store),
        ..one
    });
    shown.collect()
}

/// A line of this run as it is told: hosts, processes and addresses have fixed names.
fn told(text: &str, store: &Store) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let text = text.replace(&format!(" on {}", host.trim()), " on alpha");
    let text = text.replace(&store.url, "redis://db/");
    let mut parts = Vec::new();
    for part in text.split_inclusive(|one: char| !one.is_ascii_digit()) {
        let digits = part.trim_end_matches(|one: char| !one.is_ascii_digit());
        parts.push(match digits.len() {
            16.. => part.replace(digits, "1785553200000000"),
            _ => part.to_owned(),
        });
    }
    let text = parts.concat();
    match (text.find("report["), text.find("] on")) {
        (Some(from), Some(to)) => format!("{}4711{}", &text[..from + 7], &text[to..]),
        _ => text,
    }
}

/// A line without the times in it, which differ from run to run.
fn timeless(text: &str) -> String {
    // Behind it: when it was confirmed, what failed before, and how long the job has.
    let (text, _) = match text.contains(": lost `") {
        true => text.split_once(" (").unwrap_or((text, "")),
        false => (text, ""),
    };
    let word = |word: &str| {
        let bare = word.trim_end_matches([',', ':', ';']);
        match bare.starts_with(|one: char| one.is_ascii_digit()) && bare.len() < 6 {
            true => "#".to_owned(),
            false if ["ms", "µs"].contains(&bare) => word.replace(bare, "s"),
            false => word.to_owned(),
        }
    };
    let words: Vec<String> = text.split(' ').map(word).collect();
    words.join(" ")
}

/// What stays on a terminal, or what it shows one after the other; how often and how long is left out.
///
/// A waiter without a connection knows its position and no more. Whether that is seen depends on the moment.
fn compared(all: &[Shown], pane: char) -> (Vec<String>, Vec<String>) {
    let of = all.iter().filter(|one| one.pane == pane);
    let (mut stays, mut seen) = (Vec::new(), Vec::new());
    for one in of.filter(|one| !one.text.ends_with("position 1")) {
        if one.instead {
            stays.pop();
        }
        stays.push(timeless(&one.text));
        if !one.text.is_empty() {
            seen.push(timeless(&one.text));
        }
    }
    seen.dedup();
    (stays, seen)
}

fn recorded() -> Vec<Shown> {
    let file = fs::read_to_string(RECORDING).unwrap();
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    let line = |line: &str| {
        let (at_ms, rest) = line.trim_start().split_once(' ').unwrap();
        Shown {
            at_ms: at_ms.parse().unwrap(),
            pane: rest.chars().next().unwrap(),
            instead: rest[1..].starts_with('~'),
            text: rest[2..].strip_prefix(' ').unwrap_or_default().to_owned(),
        }
    };
    lines.map(line).collect()
}

#[test]
fn the_demonstration_shows_what_was_recorded_of_it() {
    let played = play();
    if std::env::var_os("LEASELOCK_RECORD_DEMO").is_some() {
        let mut file = HEAD.to_owned();
        for one in played
            .iter()
            .filter(|one| !one.text.ends_with("position 1"))
        {
            let mark = if one.instead { '~' } else { ' ' };
            let line = format!("{:>5} {}{mark} {}", one.at_ms, one.pane, one.text);
            writeln!(file, "{}", line.trim_end()).unwrap();
        }
        fs::write(RECORDING, file).unwrap();
    }
    let recorded = recorded();
    for pane in ['A', 'B', '-'] {
        assert_eq!(
            compared(&played, pane),
            compared(&recorded, pane),
            "{played:#?}"
        );
    }
}
