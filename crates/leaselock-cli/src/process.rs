//! The calls that no safe wrapper has: the only unsafe code of the command.
//!
//! Each function is safe to call for the reason given at its block; what a caller has to see to
//! is checked here at run time.

#![expect(
    unsafe_code,
    reason = "fork, signal masks and their like have no safe wrapper"
)]

use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::procfs::Status;

/// Makes a copy of this process that runs `child` and ends with the code that it gives.
///
/// There is no exec, so the copy may use only what a single thread can leave in good order: with
/// a second thread around, a mutex of that thread would stay locked forever. Hence the check.
pub(crate) fn fork(status: &Status, child: impl FnOnce() -> u8) -> io::Result<Pid> {
    if status.threads != 1 {
        return Err(io::Error::other(
            "cannot fork: there is a second thread already",
        ));
    }
    // SAFETY: this process has one thread, so its copy is whole: no lock is held by a thread that
    // the copy lacks, and all of Rust may be used in it.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = catch_unwind(AssertUnwindSafe(child)).unwrap_or(70);
        // SAFETY: ends the copy at once. Neither destructors nor exit handlers of the original
        // run twice, and the stack that belongs to the original is never returned to.
        unsafe { libc::_exit(i32::from(code)) }
    }
    child_or_error(pid)
}

/// What fork or clone gave its caller: the child, or a negative number, which is no pid.
fn child_or_error(returned: i32) -> io::Result<Pid> {
    let pid = Some(returned).filter(|pid| *pid > 0);
    let pid = pid.and_then(Pid::from_raw);
    pid.ok_or_else(io::Error::last_os_error)
}

/// Names of hosts are found in files and by DNS, and those of users in files: these ways are in a static binary. For the
/// others that /etc/nsswitch.conf may name, glibc would load libraries of the system, and abort where they are of an older
/// version than its own.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub(crate) fn use_no_plugins_for_names() {
    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }
    for (database, services) in [(c"hosts", c"files dns"), (c"passwd", c"files")] {
        // SAFETY: both are strings that end with zero and outlive the call, which copies them. There is one thread, and
        // no name was resolved yet. When it fails, the configuration counts, as it would without this.
        unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    }
}

/// A binary that is linked as usual has the libraries of its own system.
#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
pub(crate) fn use_no_plugins_for_names() {}

/// Closes everything but standard input, output and error and `kept`. For a forked copy that
/// lives on with a few descriptors and must not hold the rest open.
pub(crate) fn close_all_but(kept: BorrowedFd<'_>) -> io::Result<()> {
    let kept = u32::try_from(kept.as_raw_fd()).map_err(io::Error::other)?;
    for (first, last) in [(3, kept.saturating_sub(1)), (kept.max(2) + 1, u32::MAX)] {
        // SAFETY: takes three numbers. Values that own the descriptors closed here exist in the
        // copy, but it neither uses nor drops them, because `fork` never returns in it.
        if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            return match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ENOSYS) => close_one_by_one(kept),
                error => Err(error),
            };
        }
    }
    Ok(())
}

/// The same before Linux 5.9. The copy has one thread, so nothing is opened meanwhile.
fn close_one_by_one(kept: u32) -> io::Result<()> {
    let open = std::fs::read_dir("/proc/self/fd")?.flatten();
    let open = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let open: Vec<i32> = open.collect();
    for number in open.into_iter().filter(|number| *number > 2) {
        if u32::try_from(number) != Ok(kept) {
            // SAFETY: takes a number; as above. That of the folder that was read is closed by now.
            unsafe { libc::close(number) };
        }
    }
    Ok(())
}

/// Makes this process ignore these signals.
pub(crate) fn ignore(signals: &[Signal]) {
    for signal in signals {
        // SAFETY: ignoring installs no handler, so no code can run at a bad moment. It fails for
        // KILL and STOP only, and then changes nothing.
        unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) };
    }
}

/// Makes these signals end this process with 128 and their number.
pub(crate) fn end_at(signals: &[Signal]) {
    extern "C" fn end(signal: c_int) {
        // SAFETY: ends the process at once, which a handler may do in the middle of anything.
        unsafe { libc::_exit(128 + signal) }
    }
    for signal in signals {
        // SAFETY: the handler returns to nothing and touches no memory. It fails for KILL and STOP only.
        unsafe { libc::signal(signal.as_raw(), end as *const () as libc::sighandler_t) };
    }
}

/// Makes the kernel keep the exit status of our children until we wait for them. The parent of this
/// process may have ignored SIGCHLD. That is inherited, and the kernel would drop the status.
pub(crate) fn keep_ends_of_children() {
    // SAFETY: restores the default action, which runs no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Signals that are blocked, or to be read from a descriptor.
#[derive(Clone, Copy)]
pub(crate) struct SignalSet(libc::sigset_t);

impl SignalSet {
    pub(crate) fn of(signals: &[Signal]) -> SignalSet {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` makes the set whole before anything reads it; `sigaddset` changes
        // it only for numbers that are signals.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
            }
            SignalSet(set.assume_init())
        }
    }

    /// Blocks these signals in this thread and those it starts; gives the mask of before.
    pub(crate) fn block(&self) -> SignalSet {
        self.apply(libc::SIG_BLOCK)
    }

    pub(crate) fn unblock(&self) {
        self.apply(libc::SIG_UNBLOCK);
    }

    /// Makes these, and no others, the blocked signals. Allowed between fork and exec.
    pub(crate) fn become_mask(&self) {
        self.apply(libc::SIG_SETMASK);
    }

    fn apply(&self, how: i32) -> SignalSet {
        let mut before = SignalSet::of(&[]).0;
        // SAFETY: both pointers are to whole sets that outlive the call. A mask decides when
        // signals arrive; the one handler of ours (`end_at`) does nothing but `_exit`.
        unsafe { libc::pthread_sigmask(how, &raw const self.0, &raw mut before) };
        SignalSet(before)
    }

    pub(crate) fn has(&self, signal: Signal) -> bool {
        // SAFETY: the set is whole, and nothing is written.
        unsafe { libc::sigismember(&raw const self.0, signal.as_raw()) == 1 }
    }

    /// These without others.
    pub(crate) fn without(mut self, others: &[Signal]) -> SignalSet {
        for signal in others {
            // SAFETY: the set is whole; it changes only for numbers that are signals.
            unsafe { libc::sigdelset(&raw mut self.0, signal.as_raw()) };
        }
        self
    }

    /// A descriptor to read these signals from; they should be blocked.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        // SAFETY: the pointer is to a whole set; -1 asks for a new descriptor.
        let fd = unsafe {
            libc::signalfd(
                -1,
                &raw const self.0,
                libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, so no other code owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// Takes over a descriptor that the program which this process was before has left open; `None` when it is not open.
///
/// To be called once, at the start, before anything else is opened.
pub(crate) fn inherited_descriptor(number: i32) -> Option<OwnedFd> {
    // SAFETY: takes a number, and changes nothing where no descriptor has it.
    let is_open =
        number > 2 && unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
    // SAFETY: nothing was opened by this program yet, so no other code owns it.
    is_open.then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

/// Makes a descriptor that can be waited for to be readable; inside a runtime.
pub(crate) fn watch_readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and the same number as long as it exists, and the `AsyncFd`
    // owns it until its own end.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

/// A program with its arguments and its environment, built before the start, because nothing may be allocated between
/// clone and exec.
pub(crate) struct Program {
    /// Searched for in `PATH` when it has no slash.
    file: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// Refuses what has a zero byte in it.
    pub(crate) fn new<'a>(
        file: &OsStr,
        arguments: impl IntoIterator<Item = &'a OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> io::Result<Program> {
        let text = |text: &OsStr| CString::new(text.as_bytes());
        let file = text(file)?;
        let rest = arguments.into_iter().map(|argument| text(argument));
        let variable = |(name, value): (OsString, OsString)| {
            let both = [name.as_bytes(), b"=", value.as_bytes()];
            CString::new(both.concat())
        };
        Ok(Program {
            arguments: std::iter::once(Ok(file.clone()))
                .chain(rest)
                .collect::<Result<_, _>>()?,
            environment: environment
                .into_iter()
                .map(variable)
                .collect::<Result<_, _>>()?,
            file,
        })
    }

    /// Starts it in a new process, which calls `step` first. If that fails, the start fails.
    ///
    /// The new process shares our memory until exec, and this thread is suspended meanwhile, as with `posix_spawn`. A
    /// fork would copy the page tables, which costs more than the rest of a start. Other threads go on, so `step` may
    /// make system calls and nothing else: no allocation, no lock, no panic.
    /// The one caller, [`crate::job`], documents how it complies.
    pub(crate) fn start(&self, step: &mut dyn FnMut() -> Result<(), Errno>) -> io::Result<Pid> {
        /// What the way to exec needs; searching for a program copies its arguments when it turns out to be a script.
        const STACK: usize = 64 * 1024;
        let words = (STACK + self.arguments.len() * size_of::<usize>()).div_ceil(16);
        let mut stack = Vec::<u128>::with_capacity(words);
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let mut launch = Launch {
            file: self.file.as_ptr(),
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            step,
            failure: 0,
        };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the new process runs `into_program` on a stack of its own, which is large enough, aligned and alive
        // until this call returns; that is after the process has left our memory, by exec or by its end. Until then
        // nothing else uses `launch`.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(words).cast();
            libc::clone(into_program, top, flags, (&raw mut launch).cast())
        };
        let pid = child_or_error(pid)?;
        // SAFETY: `launch` is a value of ours, read anew because the other process wrote to it.
        match unsafe { (&raw const launch.failure).read_volatile() } {
            0 => Ok(pid),
            failure => {
                retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty())).ok();
                Err(io::Error::from_raw_os_error(failure))
            }
        }
    }
}

/// The same as a list that C understands: it ends with a null pointer.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    let texts = texts.iter().map(|text| text.as_ptr());
    texts.chain([std::ptr::null()]).collect()
}

struct Launch<'a> {
    file: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    step: &'a mut dyn FnMut() -> Result<(), Errno>,
    /// Why there is no program: the number of an error, or 0.
    failure: i32,
}

/// Runs in the new process, up to exec. Returns only on failure.
extern "C" fn into_program(launch: *mut c_void) -> c_int {
    // SAFETY: it is the `launch` of `Program::start`, which no other code uses now.
    let launch = unsafe { &mut *launch.cast::<Launch<'_>>() };
    // SAFETY: the default action runs no code of ours; our own process keeps its own. Every Rust program ignores this
    // signal, and every other expects not to.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    launch.failure = match (launch.step)() {
        Ok(()) => {
            // SAFETY: three lists of text, whole and alive. It allocates nothing and returns on failure only.
            unsafe { libc::execvpe(launch.file, launch.arguments, launch.environment) };
            io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO)
        }
        Err(error) => error.raw_os_error(),
    };
    127
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_could_not_be_made_is_an_error() {
        assert!(child_or_error(-1).is_err());
        assert_eq!(child_or_error(7).unwrap().as_raw_pid(), 7);
    }
}
