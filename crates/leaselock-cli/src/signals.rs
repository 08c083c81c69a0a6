//! Signals to the wrapper: read one by one from a descriptor, so that nothing of ours runs in the
//! middle of something else, and so that each says where it came from. As process 1 there is a handler
//! too, which only ends the process.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Signal, getpid, kill_process};
use tokio::io::unix::AsyncFd;

use crate::process::{SignalSet, end_at, keep_ends_of_children, watch_readable};
use crate::procfs::Status;

/// What ends us while we wait, and is passed on while a job runs.
const ENDING: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// What asks for an end also while a job runs; programs have their own use for the two others.
const TO_END: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// What is passed on besides.
const OTHERS: [Signal; 3] = [Signal::TSTP, Signal::CONT, Signal::WINCH];

/// The variable that has the numbers of the signals that were blocked when a service was started that has begun anew.
pub(crate) const BLOCKED: &str = "LEASELOCK_BLOCKED";

/// Makes what ends a command end this process also as process 1 of a container, to which the kernel gives no signal that
/// it does not handle. To be called first. What it was started to ignore stays ignored.
pub(crate) fn listen_as_process_1() -> io::Result<()> {
    if getpid().as_raw_pid() == 1 {
        let status = Status::read()?;
        let heard = ENDING.into_iter().filter(|signal| !status.ignores(*signal));
        end_at(&heard.collect::<Vec<_>>());
    }
    Ok(())
}

/// The signals of this process, blocked from now on in this thread and those it starts.
pub(crate) struct Signals {
    fd: OwnedFd,
    before: SignalSet,
}

impl Signals {
    /// To be called before there is a second thread, which would not have them blocked, and after
    /// the guardian was forked. What we were started to ignore, by nohup(1) or by a shell's `&`,
    /// stays ignored, here and in the job.
    pub(crate) fn block(status: &Status) -> io::Result<Signals> {
        keep_ends_of_children();
        let ours = ENDING.iter().chain(&OTHERS).copied();
        let heard: Vec<Signal> = ours.filter(|signal| !status.ignores(*signal)).collect();
        let set = SignalSet::of(&heard);
        let fd = set.descriptor()?;
        let before = set.block();
        let before = match std::env::var(BLOCKED) {
            // This service has begun anew with all of them blocked, so that it missed none meanwhile.
            Ok(blocked) => before.without(&those_not_in(&blocked, heard)),
            Err(_) => before,
        };
        Ok(Signals { fd, before })
    }

    /// The mask that the job starts with: that of this process at its first start.
    pub(crate) fn mask_before(&self) -> SignalSet {
        self.before
    }

    /// Starts to listen; inside a runtime.
    pub(crate) fn listen(self) -> io::Result<SignalStream> {
        let fd = watch_readable(self.fd)?;
        Ok(SignalStream {
            fd,
            asked: Cell::new(false),
        })
    }
}

/// Those of our signals that are in this mask, for [`BLOCKED`].
pub(crate) fn blocked_in(mask: &SignalSet) -> String {
    let ours = ENDING.iter().chain(&OTHERS);
    let blocked = ours.filter(|signal| mask.has(**signal));
    let numbers: Vec<String> = blocked.map(|signal| signal.as_raw().to_string()).collect();
    numbers.join(" ")
}

fn those_not_in(numbers: &str, mut signals: Vec<Signal>) -> Vec<Signal> {
    let numbers: Vec<i32> = numbers.split(' ').flat_map(str::parse).collect();
    signals.retain(|signal| !numbers.contains(&signal.as_raw()));
    signals
}

/// The signals as they arrive.
pub(crate) struct SignalStream {
    fd: AsyncFd<OwnedFd>,
    /// True if one came that ends a command.
    asked: Cell<bool>,
}

/// One signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedSignal {
    pub(crate) signal: Signal,
    /// The kernel sent it, to the whole foreground group of a terminal, and not another process.
    pub(crate) from_terminal: bool,
}

impl ReceivedSignal {
    /// Whether it ends a wait.
    pub(crate) fn ends_a_wait(self) -> bool {
        ENDING.contains(&self.signal)
    }
}

impl SignalStream {
    /// The next signal.
    pub(crate) async fn next(&self) -> io::Result<ReceivedSignal> {
        loop {
            // Read first: a signal may have waited since before this process image began.
            let mut record = [0; RECORD];
            match rustix::io::read(&self.fd, &mut record) {
                Ok(RECORD) => {
                    if let Some(received) = decode(&record) {
                        let ends = TO_END.contains(&received.signal);
                        self.asked.set(self.asked.get() || ends);
                        return Ok(received);
                    }
                }
                Err(rustix::io::Errno::AGAIN) => self.fd.readable().await?.clear_ready(),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a signal has come that asks for an end, for us and for the job.
    pub(crate) fn has_been_asked_to_end(&self) -> bool {
        self.asked.get()
    }

    /// The next signal that ends a wait. Ctrl-Z stops this process meanwhile, as in other commands.
    pub(crate) async fn ending(&self) -> io::Result<Signal> {
        loop {
            let received = self.next().await?;
            match received.signal {
                Signal::TSTP => stop_here(),
                signal if received.ends_a_wait() => return Ok(signal),
                _ => {}
            }
        }
    }
}

/// Stops this process as the terminal asked, by the signal's own effect: where no shell could
/// continue us, the kernel then declines. The guardian still ends the job in time.
pub(crate) fn stop_here() {
    let stop = SignalSet::of(&[Signal::TSTP]);
    kill_process(getpid(), Signal::TSTP).ok();
    stop.unblock();
    stop.block();
}

/// Length of the kernel's `struct signalfd_siginfo`.
const RECORD: usize = 128;

/// `si_code` of what the kernel itself sends, such as the keys of a terminal.
const SI_KERNEL: i32 = 0x80;

/// The first three fields of a record: signal, error, code.
fn decode(record: &[u8; RECORD]) -> Option<ReceivedSignal> {
    let (words, _) = record.as_chunks::<4>();
    let word = |index: usize| i32::from_ne_bytes(words[index]);
    let signal = Signal::from_named_raw(word(0))?;
    Some(ReceivedSignal {
        signal,
        from_terminal: word(2) == SI_KERNEL,
    })
}
