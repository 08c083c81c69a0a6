//! The clients where the program, its settings or the child are not as they expect.

use super::clients::{prints, python, pythons};
use crate::common::{on_both, until};

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
