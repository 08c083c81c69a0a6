//! The clients in Python and Node, with each interpreter that is there.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use testkit::process::{Signal, children, signal};

use crate::common::{Done, Running, Store, on_both, until};

pub(super) const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients");

static PYTHONS: LazyLock<Vec<String>> =
    LazyLock::new(|| those_of(&["python3", "python3.9", "python3.13"], "-c"));
static NODES: LazyLock<Vec<String>> = LazyLock::new(|| those_of(&["node"], "-e"));

pub(super) fn pythons() -> Vec<&'static str> {
    PYTHONS.iter().map(String::as_str).collect()
}

pub(super) fn nodes() -> Vec<&'static str> {
    NODES.iter().map(String::as_str).collect()
}

/// The interpreters of these names that run an empty program, each version once. CI has the first name.
fn those_of(names: &[&str], flag: &str) -> Vec<String> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut said = String::new();
    for name in names {
        let there = places(name).into_iter().find(|one| {
            // What a version manager puts on PATH may have no version behind it.
            let ran = Command::new(one).args([flag, ""]).output();
            ran.is_ok_and(|done| done.status.success())
        });
        let is_missed = std::env::var_os("CI").is_some() && *name == names[0];
        assert!(there.is_some() || !is_missed, "{name} is not there");
        let Some(there) = there else {
            said += &format!("no {name} is there, so it is not tested\n");
            continue;
        };
        let version = Command::new(&there).arg("--version").output().unwrap();
        let version = String::from_utf8(version.stdout).unwrap();
        if found.iter().all(|(_, known)| *known != version) {
            said += &format!("the clients are run by {there}: {version}");
            found.push((there, version));
        }
    }
    // Not by a macro, of which only a test that fails shows the output: CI shows what was tested.
    std::io::stderr().write_all(said.as_bytes()).unwrap();
    found.into_iter().map(|(there, _)| there).collect()
}

/// Where an interpreter of this name may be: on PATH, or among the versions of pyenv.
fn places(name: &str) -> Vec<String> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let versions = root.and_then(|root| root.join("versions").read_dir().ok());
    let installed = versions.into_iter().flatten().flatten();
    let installed = installed.map(|version| version.path().join("bin").join(name));
    let mut installed: Vec<String> = installed
        .filter(|path| path.exists())
        .filter_map(|path| path.to_str().map(str::to_owned))
        .collect();
    installed.sort();
    [vec![name.to_owned()], installed].concat()
}

/// A program with the clients and the command under test.
pub(super) fn program(store: &Store, interpreter: &str, words: &[&str]) -> Command {
    let mut command = store.command(interpreter, words);
    command.env("LEASELOCK_BIN", env!("CARGO_BIN_EXE_leaselock"));
    command
        .env("PYTHONPATH", CLIENTS)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

pub(super) fn python(store: &Store, interpreter: &str, script: &str) -> Running {
    let script = format!("import leaselock, os, signal, sys, time\n{script}");
    Running::start(program(store, interpreter, &["-W", "error", "-c", &script]))
}

pub(super) fn node(store: &Store, interpreter: &str, script: &str) -> Running {
    let names = "hold, LeaselockError, Busy, Lost, Missing";
    let script = format!(
        "import {{ {names} }} from '{CLIENTS}/leaselock.mjs';\n\
         const sleep = (ms) => new Promise((done) => setTimeout(done, ms));\n{script}"
    );
    let words = ["--input-type=module", "-e", &script];
    Running::start(program(store, interpreter, &words))
}

#[track_caller]
pub(super) fn prints(running: Running, words: &str) -> Done {
    let done = running.end().gives(0);
    assert_eq!(done.out.trim_end(), words.trim_end(), "{done:?}");
    done
}

/// Runs a script of each language with each interpreter, on both stores.
pub(super) fn both_print(in_python: &str, in_node: &str, words: &str) {
    on_both(|store| {
        for interpreter in pythons() {
            prints(python(store, interpreter, in_python), words);
            until("a free lock", || store.status()["state"] == "free");
        }
        for interpreter in nodes() {
            prints(node(store, interpreter, in_node), words);
            until("a free lock", || store.status()["state"] == "free");
        }
    });
}

#[test]
fn a_lease_is_held_checked_and_released() {
    both_print(
        "with leaselock.hold('job', ttl='3s', note='July') as lease:
            time.sleep(3.5)  # longer than the ttl
            lease.check()
            print(lease.fence > 0, lease.sequencer.endswith('.job'), 0 < lease.remaining() <= 3)
            try: leaselock.hold('job', nonblock=True)
            except leaselock.Busy as busy: print(busy.exit_code, 'July' in str(busy))
try: lease.check()
except leaselock.Lost as lost: print(lost, lease.release())",
        "const lease = await hold('job', { ttl: '3s', note: 'July' });
         await sleep(3500); // longer than the ttl
         lease.check();
         const said = (word) => word ? 'True' : 'False';
         const { fence, sequencer } = lease;
         console.log(said(fence > 0), said(sequencer.endsWith('.job')), said(lease.remainingMs() <= 3010));
         await hold('job', { nonblock: true }).catch((busy) =>
           console.log(said(busy instanceof Busy) && busy.exitCode, said(busy.message.includes('July'))));
         const released = await lease[Symbol.asyncDispose]();
         try { lease.check(); } catch (lost) { console.log(lost.message, said(released)); }",
        "True True True\n75 True\n`job` was released True",
    );
}

#[test]
fn a_frozen_hold_is_found_by_the_clock_alone() {
    both_print(
        "lease = leaselock.hold('job', ttl='1s')
os.kill(lease.pid, signal.SIGSTOP)
while lease.remaining() > 0: time.sleep(0.01)
try: lease.check()
except leaselock.Lost as lost: print(lost)
os.kill(lease.pid, signal.SIGCONT)
try: lease.release()
except leaselock.Lost as lost: print(lost.exit_code)",
        "const lease = await hold('job', { ttl: '1s' });
         process.kill(lease.pid, 'SIGSTOP');
         while (!lease.signal.aborted) await sleep(10);
         try { lease.check(); } catch (lost) { console.log(lost.message); }
         process.kill(lease.pid, 'SIGCONT');
         await lease.release().catch((lost) => console.log(lost.exitCode));",
        "lost `job`: no renewal came before its deadline\n79",
    );
}

#[test]
fn a_release_that_was_not_confirmed_stays_so() {
    both_print(
        "lease = leaselock.hold('job', ttl='5m')
os.kill(lease.pid, signal.SIGSTOP)
print(int(lease.release()), int(lease.release()))
os.kill(lease.pid, signal.SIGCONT)",
        "const lease = await hold('job', { ttl: '5m' });
         process.kill(lease.pid, 'SIGSTOP');
         console.log(Number(await lease.release()), Number(await lease.release()));
         process.kill(lease.pid, 'SIGCONT');",
        "0 0",
    );
}

#[test]
fn a_url_that_is_handed_in_counts_before_a_file_of_urls_in_the_environment() {
    both_print(
        "os.environ['LEASELOCK_URL_FILE'] = '/nowhere/url'
print(int(leaselock.hold('job', url=os.environ.pop('LEASELOCK_URL')).release()))",
        "const url = process.env.LEASELOCK_URL;
         delete process.env.LEASELOCK_URL;
         process.env.LEASELOCK_URL_FILE = '/nowhere/url';
         console.log(Number(await (await hold('job', { url })).release()));",
        "1",
    );
}

#[test]
fn a_very_short_wait_and_a_very_long_ttl_are_taken_as_they_are() {
    let store = Store::file();
    let ended = |running: Running| {
        let done = prints(running, "75");
        assert_eq!(done.err, "");
    };
    for interpreter in pythons() {
        let script = "lease = leaselock.hold('job', ttl='30d', priority=5)
try: leaselock.hold('job', wait=0.00000005)
except leaselock.Busy as busy: print(busy.exit_code)
lease.release()";
        ended(python(&store, interpreter, script));
    }
    for interpreter in nodes() {
        let script = "const lease = await hold('job', { ttl: '30d', priority: 5 });
            await hold('job', { wait: 0.00000005 }).catch((busy) => console.log(busy.exitCode));
            await lease.release();";
        ended(node(&store, interpreter, script));
    }
}

#[test]
fn a_frozen_hold_does_not_keep_node_alive_after_the_release() {
    let store = Store::file();
    for interpreter in nodes() {
        let script = "const lease = await hold('job', { ttl: '5m' });
            process.kill(lease.pid, 'SIGSTOP');
            await lease.release();
            console.log(lease.pid);";
        let done = node(&store, interpreter, script).end().gives(0);
        let frozen = done.out.trim().parse().expect("a pid");
        signal(frozen, Signal::CONT);
    }
}

#[test]
fn without_a_descriptor_for_the_pipes_the_error_can_be_caught() {
    let store = Store::file();
    let catches = |interpreter: &str, flags: &[&str], script: &str| {
        let limited = ["-c", "ulimit -n 64; exec \"$@\"", "sh", interpreter];
        let words = [&limited[..], flags, &[script]].concat();
        prints(
            Running::start(program(&store, "sh", &words)),
            "LeaselockError",
        );
    };
    for interpreter in pythons() {
        let script = "import leaselock, os
try:
    while True: os.open('/dev/null', os.O_RDONLY)
except OSError: pass
try: leaselock.hold('job')
except leaselock.LeaselockError as error: print(type(error).__name__)";
        catches(interpreter, &["-c"], script);
    }
    for interpreter in nodes() {
        let script = format!(
            "import {{ hold }} from '{CLIENTS}/leaselock.mjs';
             import {{ openSync }} from 'node:fs';
             try {{ for (;;) openSync('/dev/null'); }} catch {{}}
             await hold('job').catch((error) => console.log(error.name));"
        );
        catches(interpreter, &["--input-type=module", "-e"], &script);
    }
}

#[test]
fn a_killed_hold_is_a_loss_too() {
    both_print(
        "lease = leaselock.hold('job', ttl='5s')
os.kill(lease.pid, signal.SIGKILL)
lost = None
while not lost:
    time.sleep(0.01)
    try: lease.check()
    except leaselock.Lost as error: lost = error
print(lost)
try: lease.release()
except leaselock.Lost as lost: print('Lost')",
        "const lease = await hold('job', { ttl: '5s' });
         process.kill(lease.pid, 'SIGKILL');
         while (!lease.signal.aborted) await sleep(10);
         console.log(lease.signal.reason.message);
         await lease.release().catch((lost) => console.log(lost.name));",
        "lost `job`: the process that held it has ended\nLost",
    );
}

#[test]
fn a_break_ends_the_work_with_lost_which_says_by_whom_and_why() {
    let store = Store::redis();
    let broken = |running: &Running| {
        until("the grant", || running.printed().contains('\n'));
        store
            .run(&["break", "--yes", "--now", "--why", "stuck", "job"])
            .gives(0);
    };
    for interpreter in pythons() {
        let script = "try:
  with leaselock.hold('job', ttl='1s') as lease:
    print('held', flush=True)
    while True:
        time.sleep(0.01)
        lease.check()
except leaselock.Lost as lost:
  print(lost.reason, lost.why, '@' in lost.by, str(lost).endswith(f'; broken by {lost.by}: stuck'))";
        let running = python(&store, interpreter, script);
        broken(&running);
        prints(running, "held\nkey_missing stuck True True");
    }
    for interpreter in nodes() {
        let script = "const lease = await hold('job', { ttl: '1s' });
            console.log('held');
            while (!lease.signal.aborted) await sleep(10);
            const said = (word) => word ? 'True' : 'False';
            await lease.release().catch((lost) => console.log(lost.reason, lost.why, said(lost.by.includes('@')),
              said(lost === lease.signal.reason && lost.message.endsWith(`; broken by ${lost.by}: stuck`))));";
        let running = node(&store, interpreter, script);
        broken(&running);
        prints(running, "held\nkey_missing stuck True True");
    }
}

#[test]
fn a_missing_command_and_a_wrong_flag_are_told_with_what_would_be_right() {
    both_print(
        "try: leaselock.hold('job', tll='1s')
except leaselock.LeaselockError as error: print(error.exit_code, \"'--ttl'\" in str(error))
os.environ['LEASELOCK_BIN'] = '/nowhere/leaselock'
try: leaselock.hold('job')
except leaselock.Missing as error: print('LEASELOCK_BIN' in str(error))",
        "const said = (word) => word ? 'True' : 'False';
         await hold('job', { tll: '1s' }).catch((error) => console.log(error.exitCode, said(error.message.includes(\"'--ttl'\"))));
         process.env.LEASELOCK_BIN = '/nowhere/leaselock';
         await hold('job').catch((error) => console.log(said(error instanceof Missing && error.message.includes('LEASELOCK_BIN'))));",
        "64 True\nTrue",
    );
}

#[test]
fn in_a_fork_every_call_raises_and_the_lock_ends_with_the_holder() {
    let script = "lease = leaselock.hold('job')
if os.fork() == 0:
    for call in [lease.check, lease.remaining, lease.release, lambda: lease.fence, lambda: lease.sequencer]:
        try: call()
        except leaselock.Forked: print('Forked', flush=True)
    open('fork', 'w').write(f'{os.getpid()}\\n')
    time.sleep(600)
os.wait()";
    on_both(|store| {
        for interpreter in pythons() {
            std::fs::remove_file(store.path("fork")).ok();
            let mut running = python(store, interpreter, script);
            let fork: u32 = store.line_in("fork").parse().unwrap();
            assert_eq!(running.printed(), "Forked\n".repeat(5));
            assert_eq!(store.status()["state"], "held");
            running.kill();
            until("a free lock", || store.status()["state"] == "free");
            assert!(signal(fork, Signal::KILL), "it kept the input open");
        }
    });
}

#[test]
fn a_program_without_reach_of_check_is_ended_and_one_that_cleans_up_is_not_killed() {
    for interpreter in pythons() {
        let store = Store::redis();
        let script = "lease = leaselock.hold('job', ttl='2s', kill=True)
print(lease.pid, flush=True)
time.sleep(600)";
        let running = python(&store, interpreter, script);
        until("the grant", || running.printed().contains('\n'));
        let hold: u32 = running.printed().trim().parse().unwrap();
        assert!(children(running.pid()).contains(&hold));
        assert!(signal(hold, Signal::KILL));
        assert_eq!(running.end_with_stdin_open().code, -15);

        let script = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
with leaselock.hold('other', ttl='2s', kill=True, max_hold='2s'):
    time.sleep(600)";
        let done = python(&store, interpreter, script).end().gives(5);
        assert_eq!(done.err, "");
    }
}

/// The client takes a step off, and what it measures beyond.
#[test]
fn the_clock_that_node_has_is_that_of_leases_rounded_down_to_a_step() {
    let store = Store::file();
    for interpreter in nodes() {
        let script = "import { uptime } from 'node:os';
            import { readFileSync } from 'node:fs';
            const steps = () => Math.round(Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 100);
            for (let n = 0; n < 50; n += 1) {
              const [before, node, after] = [steps(), Math.round(uptime() * 100), steps()];
              if (!(before <= node && node <= after)) console.log(before, node, after);
              await sleep(1);
            }";
        prints(node(&store, interpreter, script), "");
    }
}
