//! The clients where the program, its settings or the child are not as they expect.

use testkit::process::{Signal, children, signal};

use super::clients::{both_print, node, nodes, prints, python, pythons};
use crate::common::{Running, Store, on_both, until};

/// Runs a script of Python's with each interpreter, on both stores.
fn python_prints(script: &str, words: &str) {
    on_both(|store| {
        for interpreter in pythons() {
            prints(python(store, interpreter, script), words);
            until("a free lock", || store.status()["state"] == "free");
        }
    });
}

#[test]
fn a_lease_that_is_dropped_releases_its_lock() {
    python_prints(
        "import warnings
warnings.simplefilter('default')  # an error would keep Popen from keeping the child
lease = leaselock.hold('job')
del lease
print(leaselock.hold('job', wait=20).release())",
        "True",
    );
}

#[test]
fn a_lease_that_is_dropped_while_a_fork_has_its_pipe_releases_its_lock() {
    python_prints(
        "import signal, time, warnings
warnings.simplefilter('default')
lease = leaselock.hold('job')
fork = os.fork()
if not fork: time.sleep(600)
del lease
print(leaselock.hold('job', wait=20).release())
os.kill(fork, signal.SIGKILL)
os.waitpid(fork, 0)",
        "True",
    );
}

#[test]
fn a_ctrl_c_between_the_start_of_hold_and_its_lease_leaves_no_lock() {
    python_prints(
        "right = os.set_blocking
def interrupted(*_): raise KeyboardInterrupt
os.set_blocking = interrupted
try: leaselock.hold('job')
except KeyboardInterrupt as kept: error = kept
os.set_blocking = right
print(leaselock.hold('job', wait=20).release(), type(error).__name__)",
        "True KeyboardInterrupt",
    );
}

#[test]
fn the_handlers_of_the_exit_work_under_the_lock_and_a_fork_that_drops_the_lease_keeps_it() {
    python_prints(
        "import atexit
def last():
    lease.check()
    print(lease.release(), lease.release())
atexit.register(last)
lease = leaselock.hold('job')
if os.fork() == 0:
    del lease
    os._exit(0)
os.wait()",
        "True True",
    );
}

#[test]
fn where_children_are_reaped_elsewhere_the_client_believes_what_hold_wrote() {
    python_prints(
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)
lease = leaselock.hold('job')
try: leaselock.hold('job', nonblock=True)
except leaselock.Busy as busy: print(busy.exit_code)
try: leaselock.hold('job', tll='1s')
except leaselock.LeaselockError as error: print(error.exit_code)
print(lease.release(), lease.release())
lease = leaselock.hold('job')
line = [os.environ['LEASELOCK_BIN'], 'break', '--yes', '--now', 'job']
leaselock.subprocess.run(line, stdout=leaselock.subprocess.DEVNULL)
try: print(lease.release())
except leaselock.Lost: print(False)",
        "75\n64\nTrue True\nFalse",
    );
}

#[test]
fn a_busy_lock_is_busy_whatever_exit_code_says_so() {
    both_print(
        "lease = leaselock.hold('job')
for code in [79, 0]:
    try: leaselock.hold('job', nonblock=True, busy_exit_code=code)
    except leaselock.LeaselockError as busy: print(type(busy).__name__, busy.exit_code)
lease.release()",
        "const lease = await hold('job');
         for (const busyExitCode of [79, 0])
           await hold('job', { nonblock: true, busyExitCode }).catch((busy) => console.log(busy.name, busy.exitCode));
         await lease.release();",
        "Busy 79\nBusy 0",
    );
}

#[test]
fn the_process_of_kill_can_be_another_one() {
    both_print(
        "other = leaselock.subprocess.Popen(['sleep', '600'])
lease = leaselock.hold('job', ttl='2s', kill=other.pid)
os.kill(lease.pid, signal.SIGKILL)
print(signal.Signals(-other.wait()).name)",
        "const { spawn } = await import('node:child_process');
         const other = spawn('sleep', ['600']);
         const ended = new Promise((done) => other.on('exit', (_, signal) => done(signal)));
         const lease = await hold('job', { ttl: '2s', kill: other.pid });
         process.kill(lease.pid, 'SIGKILL');
         console.log(await ended);",
        "SIGTERM",
    );
}

#[test]
fn several_names_can_come_from_whatever_holds_several_and_one_name_alone() {
    both_print(
        "for also in [{'other'}, (name for name in ['other']), {'other': 1}.keys(), 'other']:
    lease = leaselock.hold('job', also=also)
    try: leaselock.hold('other', nonblock=True)
    except leaselock.Busy: print(lease.release())
lease = leaselock.hold('job', also=())
print(lease.release())",
        "const names = function* () { yield 'other'; };
         for (const also of [new Set(['other']), names(), ['other'], 'other']) {
           const lease = await hold('job', { also });
           await hold('other', { nonblock: true }).catch(async () => console.log(await lease.release() && 'True'));
         }
         const lease = await hold('job', { also: new Set() });
         console.log(await lease.release() && 'True');",
        "True\nTrue\nTrue\nTrue\nTrue",
    );
}

#[test]
fn a_program_that_is_not_leaselock_and_what_no_program_can_be_given_are_errors_to_catch() {
    both_print(
        "def told(name, **flags):
    try: leaselock.hold(name, **flags)
    except leaselock.LeaselockError as error: print(type(error).__name__, error.exit_code or '-', str(error)[:12])
told('job', note='x' * 200000)
told('a\\0b')
os.environ['LEASELOCK_BIN'] = '/dev/null/leaselock'
told('job')
os.environ['LEASELOCK_BIN'] = '/bin/echo'
told('job')
def script(text):
    with open('script', 'w') as file: file.write('#!/bin/sh\\n' + text)
    os.chmod('script', 0o700)
    os.environ['LEASELOCK_BIN'] = './script'
    told('job')
script('echo 5; cat')
script('echo \"{\" >&2; exit 5')",
        "const { writeFileSync } = await import('node:fs');
         const told = async (name, flags) => {
           await hold(name, flags).catch((error) =>
             console.log(error.name, error.exitCode ?? '-', error.message.slice(0, 12)));
         };
         await told('job', { note: 'x'.repeat(200000) });
         await told('a\\0b');
         process.env.LEASELOCK_BIN = '/dev/null/leaselock';
         await told('job');
         process.env.LEASELOCK_BIN = '/bin/echo';
         await told('job');
         const script = async (text) => {
           writeFileSync('script', '#!/bin/sh\\n' + text, { mode: 0o700 });
           process.env.LEASELOCK_BIN = './script';
           await told('job');
         };
         await script('echo 5; cat');
         await script('echo \"{\" >&2; exit 5');",
        "LeaselockError - cannot start\nLeaselockError - cannot start\nMissing - cannot start\n\
         LeaselockError - not `leaselo\nLeaselockError - not `leaselo\nLeaselockError 5 {",
    );
}

#[test]
fn node_says_that_the_deadline_has_passed_although_hold_could_release() {
    let store = Store::file();
    for interpreter in nodes() {
        let script = "const lease = await hold('job', { ttl: '1s' });
            while (lease.remainingMs() > 0);  // no message is taken in
            await lease.release().catch((lost) => console.log(lost.message, lost.exitCode));
            console.log(lease.signal.reason.exitCode);";
        let words = "lost `job`: no renewal came before its deadline 79\n79";
        prints(node(&store, interpreter, script), words);
    }
}

#[test]
fn a_killed_guardian_is_a_loss_with_its_own_words() {
    let store = Store::redis();
    let kills_the_guardian = |running: &Running| {
        until("the grant", || running.printed().contains('\n'));
        let hold: u32 = running.printed().trim().parse().unwrap();
        assert!(signal(children(hold)[0], Signal::KILL));
    };
    for interpreter in pythons() {
        let script = "other = leaselock.subprocess.Popen(['sleep', '600'])
lease = leaselock.hold('job', kill=other.pid)
print(lease.pid, flush=True)
try:
    while True: lease.check()
except leaselock.Lost as lost: print(str(lost)[:30])
other.wait()";
        let running = python(&store, interpreter, script);
        kills_the_guardian(&running);
        let done = running.end().gives(0);
        assert!(
            done.out.ends_with("\nthe guardian process was kille\n"),
            "{done:?}"
        );
    }
    for interpreter in nodes() {
        let script = "const { spawn } = await import('node:child_process');
            const other = spawn('sleep', ['600']);
            const lease = await hold('job', { kill: other.pid });
            console.log(lease.pid);
            while (!lease.signal.aborted) await sleep(10);
            console.log(lease.signal.reason.message.slice(0, 30));";
        let running = node(&store, interpreter, script);
        kills_the_guardian(&running);
        let done = running.end().gives(0);
        assert!(
            done.out.ends_with("\nthe guardian process was kille\n"),
            "{done:?}"
        );
    }
}

#[test]
fn a_program_that_a_broken_pipe_would_end_survives_the_release_after_hold_was_killed() {
    python_prints(
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)
lease = leaselock.hold('job', ttl='1s')
os.kill(lease.pid, signal.SIGKILL)
while lease.remaining() > 0: time.sleep(0.01)
try: lease.release()
except leaselock.Lost as lost: print(lost)",
        "lost `job`: the process that held it has ended",
    );
}

#[test]
fn the_traceback_of_a_loss_does_not_grow_with_each_check() {
    python_prints(
        "import traceback
lease = leaselock.hold('job', ttl='1s')
os.kill(lease.pid, signal.SIGKILL)
lengths = set()
while lease.remaining() > 0: time.sleep(0.01)
for _ in range(3):
    try: lease.check()
    except leaselock.Lost as lost: lengths.add(len(traceback.extract_tb(lost.__traceback__)))
print(lengths)",
        "{2}",
    );
}
