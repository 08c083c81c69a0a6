//! `--kill`: the process that works under the lock is dead before another holder can acquire it.
//!
//! It ignores TERM, and writes a beat every few milliseconds. It ends with its folder, so a test that fails leaves none
//! behind.

use std::fs;
use std::time::Duration;

use testkit::process::{Signal, is_alive, signal};

use super::{deadline_ms, events, holding, until_told};
use crate::common::{Running, Store, on_both, seconds, until};

const BEATS: &str = "trap '' TERM; echo $$ > worker; \
                     while echo beat $(cat /proc/uptime) >> log; do sleep 0.01; done";

const TTL: [&str; 2] = ["--ttl", "3s"];

/// A process that works, and a hold that it is to be ended for.
fn scene(store: &Store, flags: &[&str]) -> (Running, Running) {
    fs::remove_file(store.path("worker")).ok();
    let worker = Running::start(store.command("sh", &["-c", BEATS]));
    let pid = store.line_in("worker");
    let hold = holding(store, &[&["--kill", &pid], flags].concat());
    (worker, hold)
}

/// The worker is dead, and was so before the last deadline that was told.
#[track_caller]
fn worked_until_before(store: &Store, mut worker: Running, printed: &str) {
    until("the end of the worker", || worker.has_ended());
    let log = store.lines("log");
    let beat = log.iter().rev().find_map(|line| line.strip_prefix("beat "));
    let last = Duration::from_secs_f64(seconds(beat.unwrap()));
    let deadline = Duration::from_millis(deadline_ms(printed));
    assert!(last < deadline, "{last:?} {deadline:?}");
    assert_eq!(worker.end_with_stdin_open().code, -9);
}

#[test]
fn the_process_of_kill_is_ended_when_hold_is_killed() {
    on_both(|store| {
        let (worker, mut hold) = scene(store, &TTL);
        hold.kill();
        // In a folder too the lock is not free while the process works.
        until("a free lock", || {
            let is_free = store.status()["state"] == "free";
            assert!(
                !is_free || !is_alive(worker.pid()),
                "it works without a lock"
            );
            is_free
        });
        worked_until_before(store, worker, &hold.printed());
    });
}

#[test]
fn the_process_of_kill_is_dead_before_the_deadline() {
    on_both(|store| {
        let (worker, hold) = scene(store, &TTL);
        hold.stop();
        let script = "echo next >> log";
        let next = store.start(&["run", "job", "--", "sh", "-c", script]);
        worked_until_before(store, worker, &hold.printed());
        hold.signal(Signal::CONT);
        let done = hold.end().gives(79);
        assert_eq!(
            events(&done.out).pop().unwrap()["event"],
            "lost",
            "{done:?}"
        );
        next.end().gives(0);
        assert_eq!(store.lines("log").pop().unwrap(), "next");
    });
}

#[test]
fn with_a_frozen_server_the_process_of_kill_is_dead_before_the_deadline() {
    let store = Store::redis();
    let (worker, hold) = scene(&store, &TTL);
    let frozen = store.server().pause();
    let lost = until_told(&hold, "lost");
    let text = lost["text"].as_str().unwrap();
    let measure = format!(
        "; sent SIGTERM to process {}, SIGKILL follows in ",
        worker.pid()
    );
    assert!(text.contains(&measure), "{text}");
    worked_until_before(&store, worker, &hold.printed());
    drop(frozen);
    hold.end().gives(79);
}

#[test]
fn a_killed_guardian_ends_the_process_of_kill() {
    let store = Store::redis();
    let (mut worker, hold) = scene(&store, &TTL);
    let guardians = testkit::process::children(hold.pid());
    assert_eq!(guardians.len(), 1);
    assert!(signal(guardians[0], Signal::KILL));
    let told = until_told(&hold, "unguarded");
    assert!(
        told["text"]
            .as_str()
            .unwrap()
            .starts_with("the guardian process was killed: process ")
    );
    until("the end of the worker", || worker.has_ended());
    hold.end().gives(70);
    assert_eq!(store.status()["state"], "free");
}

#[test]
fn a_signal_to_hold_is_passed_on_and_the_lock_is_held_until_the_process_of_kill_has_ended() {
    on_both(|store| {
        fs::remove_file(store.path("told")).ok();
        let script = "trap 'echo told > told' TERM; echo $$ > worker; until [ -e over ]; do sleep 0.01; done";
        fs::remove_file(store.path("over")).ok();
        fs::remove_file(store.path("worker")).ok();
        let worker = Running::start(store.command("sh", &["-c", script]));
        let pid = store.line_in("worker");
        let hold = holding(store, &["--kill", &pid]);
        hold.signal(Signal::TERM);
        store.line_in("told");
        assert_eq!(store.status()["state"], "held", "it is at work");
        fs::write(store.path("over"), "").unwrap();
        let done = hold.end_with_stdin_open().gives(0);
        assert_eq!(events(&done.out).pop().unwrap()["event"], "released");
        worker.end_with_stdin_open().gives(0);
    });
}

#[test]
fn a_signal_to_hold_after_a_loss_does_not_save_the_process_of_kill() {
    on_both(|store| {
        let (worker, hold) = scene(store, &["--ttl", "4s", "--max-hold", "4s", "-k", "1900ms"]);
        until_told(&hold, "lost");
        hold.signal(Signal::TERM);
        worked_until_before(store, worker, &hold.printed());
        hold.end_with_stdin_open().gives(79);
    });
}

/// The parent is this test, which does not end: a shell between them does.
#[test]
fn the_end_of_the_parent_alone_does_not_end_a_hold_for_another_process() {
    on_both(|store| {
        for file in ["worker", "in", "events"] {
            fs::remove_file(store.path(file)).ok();
        }
        let mut worker = Running::start(store.command("sh", &["-c", BEATS]));
        let pid = store.line_in("worker");
        // The fork keeps the input open.
        let script = "mkfifo in; exec 3<>in; sleep 600 & echo $! > fork; \"$0\" hold --kill $1 job <in 3>&- >events & echo $! > hold; wait";
        let program = env!("CARGO_BIN_EXE_leaselock");
        let parent = || Running::start(store.command("sh", &["-c", script, program, &pid]));
        // But the wait, because the lock is not held yet.
        let before = store.hold(&[]);
        let mut shell = parent();
        store.until_queued(1);
        let (waits, fork) = (store.line_in("hold"), store.line_in("fork"));
        shell.kill();
        until("the end of the wait", || !is_alive(waits.parse().unwrap()));
        assert!(signal(fork.parse().unwrap(), Signal::KILL));
        before.end().gives(0);
        for file in ["in", "fork", "hold"] {
            fs::remove_file(store.path(file)).unwrap();
        }

        let mut shell = parent();
        until("the grant", || store.read("events").contains("acquired"));
        let (hold, fork) = (store.line_in("hold"), store.line_in("fork"));
        shell.kill();
        let next = store.start(&["run", "job", "--", "sh", "-c", "echo next >> log"]);
        store.until_queued(1);
        assert!(is_alive(hold.parse().unwrap()), "it holds for the worker");
        worker.kill();
        next.end().gives(0);
        assert!(signal(fork.parse().unwrap(), Signal::KILL));
    });
}

/// A second one is another message to many programs.
#[test]
fn a_ctrl_c_of_the_terminal_that_both_have_reaches_the_process_of_kill_once() {
    let store = Store::file();
    let script = "
import os, pty, signal, subprocess, sys
pid, terminal = pty.fork()
if pid:
    said = b''
    while b'ready' not in said: said += os.read(terminal, 1000)
    os.write(terminal, b'\\x03')
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
words = [sys.argv[1], 'hold', '--kill', str(os.getpid()), 'job']
hold = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
hold.stdout.readline()
print('ready', flush=True)
while not heard: signal.sigtimedwait([], 0.01)
def pending():
    with open(f'/proc/{hold.pid}/status') as status:
        return any(int(line[8:], 16) & 2 for line in status if line.startswith('ShdPnd'))
while pending(): pass
hold.stdin.write(b'release\\n')
hold.stdin.close()
hold.wait()
sys.exit(len(heard))
";
    let program = env!("CARGO_BIN_EXE_leaselock");
    let counted = Running::start(store.command("python3", &["-c", script, program]));
    counted.end().gives(1);
}

#[test]
fn an_input_that_does_not_block_is_waited_for() {
    let store = Store::file();
    let script = "
import os, subprocess, sys, time
ours, theirs = os.pipe()[::-1]
os.set_blocking(theirs, False)
hold = subprocess.Popen([sys.argv[1], 'hold', 'job'], stdin=theirs, stdout=subprocess.PIPE)
print(hold.stdout.readline())
for part in (b'rele', b'ase\\n'):
    time.sleep(0.1)  # so that each is read by itself
    assert hold.poll() is None
    os.write(ours, part)
sys.exit(hold.wait())
";
    let program = env!("CARGO_BIN_EXE_leaselock");
    let done = Running::start(store.command("python3", &["-c", script, program]))
        .end()
        .gives(0);
    assert!(done.out.contains("acquired"), "{done:?}");
}

#[test]
fn a_process_of_kill_that_ends_by_itself_ends_the_hold_and_one_that_is_done_lives_on() {
    on_both(|store| {
        let (mut worker, hold) = scene(store, &TTL);
        worker.kill();
        let done = hold.end_with_stdin_open().gives(0);
        assert_eq!(events(&done.out).pop().unwrap()["event"], "released");

        let (worker, hold) = scene(store, &TTL);
        hold.end().gives(0);
        assert!(is_alive(worker.pid()));

        let (worker, mut hold) = scene(store, &["--ttl", "10s", "--max-hold", "10s", "-k", "4s"]);
        until_told(&hold, "lost");
        hold.write("release\n"); // it has stopped, so there is nothing to end
        hold.end_with_stdin_open().gives(79);
        assert_eq!(store.status()["state"], "free");
        assert!(is_alive(worker.pid()));
    });
}

#[test]
fn a_process_that_cannot_be_ended_is_refused_with_what_would_be_right() {
    let store = Store::file();
    store
        .run(&["hold", "--kill", "1", "job"])
        .refuses(64, "as `docker run --init` does");
    store.run(&["hold", "--kill", "0", "job"]).refuses(
        64,
        "there is no process 0; give the number of one that runs",
    );
    let mut ended = Running::start(store.command("true", &[]));
    until("its end", || ended.has_ended());
    let pid = ended.pid().to_string();
    let said = format!("there is no process {pid}");
    store
        .run(&["hold", "--kill", &pid, "job"])
        .refuses(64, &said);
}
