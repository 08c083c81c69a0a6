//! "Who dies" of docs/hold.md for a program in each language: how it ends, and that it works under no lock of another's.
//!
//! | what happens | Python, Node | bash, by the example of the page |
//! |---|---|---|
//! | the program is killed | `a_program_that_is_killed_…` | the same |
//! | it has forked, and is killed | the same, and `clients.rs` for Python: `in_a_fork_…`; Node cannot fork | the same |
//! | `hold` is killed | `a_program_whose_hold_is_killed_…` | the same |
//! | `hold` is frozen | `a_program_whose_hold_is_frozen_…` | the same |
//! | the server is frozen | `a_program_stops_before_the_deadline_…` | the same |
//! | an operator breaks the lease | `a_program_is_told_who_broke_its_lock_…` | the same |

use std::fs;
use std::time::Duration;

use testkit::process::{Signal, is_alive, signal, stop};

use super::clients::{CLIENTS, nodes, program, pythons};
use super::page::{example, with_command_on_path};
use crate::common::{Done, Running, Store, on_both, seconds, until, uptime};

/// An interpreter; bash has no `check`, and is ended by `--kill`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Python(&'static str),
    Node(&'static str),
    Bash,
}

/// At work it writes a line to `log` every few milliseconds. A loss it tells on standard error, and exits 79.
const PYTHON: &str = "
import leaselock, os, sys, time
lease = leaselock.hold('job', ttl=sys.argv[1])
with open('hold', 'w') as file: file.write(f'{lease.pid}\\n')
if sys.argv[2] == 'forks' and os.fork() == 0:
    with open('fork', 'w') as file: file.write(f'{os.getpid()}\\n')
    while os.path.exists('fork'): time.sleep(0.1)
    os._exit(0)
try:
    while True:
        lease.check()
        with open('/proc/uptime') as clock, open('log', 'a') as log: log.write(f'beat {clock.read()}')
        time.sleep(0.01)
except leaselock.Lost as lost: print('lost', lost.reason, file=sys.stderr, flush=True)
try: lease.release()
except leaselock.Lost as lost:
    print(lost, file=sys.stderr)
    sys.exit(lost.exit_code)
";

const NODE: &str = "
const { appendFileSync, readFileSync, writeFileSync } = await import('node:fs');
const lease = await hold('job', { ttl: process.argv[2] });
writeFileSync('hold', `${lease.pid}\\n`);
try {
  for (;;) {
    lease.check();
    appendFileSync('log', `beat ${readFileSync('/proc/uptime')}`);
    await new Promise((done) => setTimeout(done, 10));
  }
} catch (lost) {
  console.error('lost', lost.reason);
}
await lease.release().catch((lost) => {
  console.error(lost.message);
  process.exitCode = lost.exitCode;
});
";

/// In place of the work of the page's example.
const BASH: &str = "
echo \"$hold\" > hold
if [[ $2 == forks ]]; then (echo $BASHPID > fork; while [[ -e fork ]]; do sleep 0.1; done) & fi
while echo \"beat $(</proc/uptime)\" >> log; do sleep 0.01; done
";

impl Language {
    fn all() -> Vec<Language> {
        let pythons = pythons().into_iter().map(Language::Python);
        let nodes = nodes().into_iter().map(Language::Node);
        pythons.chain(nodes).chain([Language::Bash]).collect()
    }

    /// A program that is at work under the lock.
    #[track_caller]
    fn at_work(self, store: &Store, ttl: &str, forks: bool) -> Worker {
        for file in ["log", "hold", "fork"] {
            fs::remove_file(store.path(file)).ok();
        }
        let (interpreter, file, text) = match self {
            Language::Python(path) => (path, "work.py", PYTHON.to_owned()),
            Language::Node(path) => {
                let import = format!("import {{ hold }} from '{CLIENTS}/leaselock.mjs';");
                (path, "work.mjs", import + NODE)
            }
            Language::Bash => ("bash", "work.sh", bash()),
        };
        fs::write(store.path(file), text).unwrap();
        let forks_or_not = if forks { "forks" } else { "" };
        let mut command = program(store, interpreter, &[file, ttl, forks_or_not]);
        with_command_on_path(&mut command);
        let running = Running::start(command);
        let worker = Worker {
            running,
            hold: store.line_in("hold").parse().unwrap(),
            fork: forks.then(|| store.line_in("fork").parse().unwrap()),
        };
        store.line_in("log");
        worker
    }

    /// Bash must end between TERM and KILL, which are a part of it from each other.
    fn ttl(self) -> Duration {
        Duration::from_secs(if self == Language::Bash { 10 } else { 4 })
    }

    fn forks(self) -> bool {
        !matches!(self, Language::Node(_))
    }
}

fn bash() -> String {
    let page = example("bash").replace("--wait 30 nightly", "--ttl \"$1\" job");
    let (before, work) = page.split_once("for part in ").unwrap();
    let (_, after) = work.split_once("\ndone\n").unwrap();
    format!("{before}{BASH}{after}")
}

struct Worker {
    running: Running,
    hold: u32,
    fork: Option<u32>,
}

impl Worker {
    #[track_caller]
    fn until_said(&self, words: &str) {
        until(words, || self.running.said().contains(words));
    }

    #[track_caller]
    fn end(self) -> Done {
        self.running.end_with_stdin_open()
    }
}

/// Each language on each store, all at the same time: they mostly wait.
fn in_each_language(test: impl Fn(&Store, Language) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for language in Language::all() {
            scope.spawn(move || on_both(|store| test(store, language)));
        }
    });
}

/// Another holder, which writes that it has come.
fn next(store: &Store) -> Running {
    store.start(&["run", "job", "--", "sh", "-c", "echo next >> log"])
}

/// No line of the work comes after that of the next holder.
#[track_caller]
fn came_last(store: &Store, next: Running) {
    next.end().gives(0);
    assert_eq!(store.lines("log").pop().unwrap(), "next");
}

#[test]
fn a_program_that_is_killed_leaves_the_lock_at_once_although_a_fork_of_it_lives() {
    in_each_language(|store, language| {
        for forks in [false, true] {
            if forks && !language.forks() {
                continue;
            }
            let mut worker = language.at_work(store, "10m", forks);
            worker.running.kill();
            until("the end of the hold", || !is_alive(worker.hold));
            assert_eq!(store.status()["state"], "free", "{language:?}");
            if let Some(fork) = worker.fork {
                assert!(signal(fork, Signal::KILL), "it kept the input open");
            }
        }
    });
}

#[test]
fn a_program_whose_hold_is_killed_stops_and_on_a_server_before_another_has_the_lock() {
    in_each_language(|store, language| {
        let worker = language.at_work(store, &format!("{}s", language.ttl().as_secs()), false);
        assert!(signal(worker.hold, Signal::KILL));
        let next = next(store);
        let is_ended = language == Language::Bash;
        let done = worker.end().gives(if is_ended { 137 } else { 79 });
        match is_ended {
            true => assert!(done.out.contains("stopped: exit code 137"), "{done:?}"),
            false => assert!(done.err.contains("that held it has ended"), "{done:?}"),
        }
        // In a folder it is free at once: only --kill keeps it until the program has ended.
        match is_ended || store.server.is_some() {
            true => came_last(store, next),
            false => drop(next.end().gives(0)),
        }
    });
}

#[test]
fn a_program_whose_hold_is_frozen_stops_by_the_clock_before_another_has_the_lock() {
    in_each_language(|store, language| {
        let mut worker = language.at_work(store, "3s", false);
        assert!(stop(worker.hold));
        let next = next(store);
        match language {
            Language::Bash => until("its end", || worker.running.has_ended()),
            _ => worker.until_said("lost"),
        }
        signal(worker.hold, Signal::CONT);
        worker
            .end()
            .gives(if language == Language::Bash { -9 } else { 79 });
        came_last(store, next);
    });
}

#[test]
fn a_program_stops_before_the_deadline_when_the_server_is_frozen() {
    in_each_language(|store, language| {
        let Some(server) = &store.server else {
            return;
        };
        let worker = language.at_work(store, &format!("{}s", language.ttl().as_secs()), false);
        let frozen = server.pause();
        // No renewal is confirmed any more.
        let latest_end = Duration::from_secs_f64(uptime()) + language.ttl();
        worker.until_said("lost");
        drop(frozen);
        let next = next(store);
        worker.end().gives(79);
        came_last(store, next);
        let log = store.lines("log");
        let beat = log.iter().rev().find_map(|line| line.strip_prefix("beat "));
        let last = Duration::from_secs_f64(seconds(beat.unwrap()));
        assert!(last < latest_end, "{language:?}: {last:?} {latest_end:?}");
    });
}

#[test]
fn a_program_is_told_who_broke_its_lock_and_why_before_another_has_it() {
    in_each_language(|store, language| {
        let worker = language.at_work(store, &format!("{}s", language.ttl().as_secs()), false);
        let next = next(store);
        store.until_queued(1);
        store
            .run(&["break", "--yes", "--why", "stuck since 3", "job"])
            .gives(0);
        let done = worker.end().gives(79);
        let (_, by) = done
            .err
            .split_once("broken by ")
            .unwrap_or_else(|| panic!("{done:?}"));
        let (by, _) = by
            .split_once(": stuck since 3")
            .unwrap_or_else(|| panic!("{done:?}"));
        assert!(by.contains('@'), "{done:?}");
        came_last(store, next);
    });
}
