//! Every exit code of the command, in one table.
//!
//! The numbers from 64 up are those of `sysexits.h`, so that a script which knows them from mail
//! or from `flock(1)` reads ours without a manual. A job's own code is passed through and may
//! collide with them: a script that must tell them apart sets `--busy-exit-code`.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};

use leaselock::counter::CounterError;
use leaselock::cron::CronError;
use leaselock::error::{BreakError, RequestError};
use leaselock::latch::LatchError;
use leaselock::limiter::LimiterError;
use leaselock::once::OnceError;
use leaselock::{AcquireError, ErrorKind, LeaseError, ReleaseError};
use rustix::process::Signal;

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    /// Done.
    pub(crate) const OK: Exit = Exit(0);
    /// `doctor` found something unfit for locks.
    pub(crate) const UNFIT: Exit = Exit(1);
    /// `leader` found that no client leads.
    pub(crate) const NO_LEADER: Exit = Exit::UNFIT;
    /// `schedules --overdue` found one.
    pub(crate) const OVERDUE: Exit = Exit::UNFIT;
    /// `count --cas` found another number.
    pub(crate) const DIFFERS: Exit = Exit::UNFIT;
    /// The command line, a name, a duration or a URL is wrong; nothing was changed.
    pub(crate) const USAGE: Exit = Exit(64);
    /// Something that is no lock lies under the name, or its record is damaged.
    pub(crate) const FOREIGN_DATA: Exit = Exit(65);
    /// The store cannot be reached, or answers that it does not serve now.
    pub(crate) const UNAVAILABLE: Exit = Exit(69);
    /// A fault of this program, or the guardian was killed.
    pub(crate) const INTERNAL: Exit = Exit(70);
    /// The system lacks open files, processes, memory or `/proc`.
    pub(crate) const SYSTEM: Exit = Exit(71);
    /// A folder, a file or a home for the locks cannot be made.
    pub(crate) const CANNOT_CREATE: Exit = Exit(73);
    /// Standard output could not be written. A reader that is gone counts only where the output must not get lost.
    pub(crate) const OUTPUT: Exit = Exit(74);
    /// Another holder has the lock, and the wait timed out.
    pub(crate) const BUSY: Exit = Exit(75);
    /// The store refuses us: credentials, permission, a file system unfit for locks.
    pub(crate) const REFUSED: Exit = Exit(77);
    /// The lease was lost before the job ended, or the lease to change is not ours.
    pub(crate) const LOST: Exit = Exit(79);
    /// The job's command was found and cannot be executed.
    pub(crate) const CANNOT_EXECUTE: Exit = Exit(126);
    /// The job's command was not found.
    pub(crate) const NOT_FOUND: Exit = Exit(127);

    /// A code that the user chose, as with `--busy-exit-code`.
    pub(crate) const fn chosen(code: u8) -> Exit {
        Exit(code)
    }

    /// The number, for messages.
    pub(crate) const fn code(self) -> u8 {
        self.0
    }

    /// The code of a process ended by a signal, as shells report it.
    pub(crate) fn by_signal(signal: Signal) -> Exit {
        Exit::by_signal_number(signal.as_raw())
    }

    /// A store error, by what the user can do about it: wait (69), inspect the key (65), make room
    /// (73), ask for permission (77), report a fault (70).
    pub(crate) fn of_store(kind: ErrorKind) -> Exit {
        match kind {
            ErrorKind::Unreachable
            | ErrorKind::NoReply
            | ErrorKind::Loading
            | ErrorKind::OutOfMemory
            | ErrorKind::ReadOnly
            | ErrorKind::NoReplicas
            | ErrorKind::ClusterDown
            | ErrorKind::NotServing
            // Whatever answers there is no server that can serve locks.
            | ErrorKind::Malformed
            | ErrorKind::UnknownService
            | ErrorKind::Unsupported => Exit::UNAVAILABLE,
            ErrorKind::Auth
            | ErrorKind::Tls
            | ErrorKind::Forbidden
            | ErrorKind::UnsupportedFilesystem
            | ErrorKind::Mismatch => {
                Exit::REFUSED
            }
            ErrorKind::WrongType | ErrorKind::Corrupt => Exit::FOREIGN_DATA,
            ErrorKind::StorageFull | ErrorKind::CannotCreate => Exit::CANNOT_CREATE,
            _ => Exit::INTERNAL,
        }
    }

    /// `busy` is the code that the user chose for a lock that another holder has.
    pub(crate) fn of_acquire(error: &AcquireError, busy: Exit) -> Exit {
        match error {
            AcquireError::Invalid(_) => Exit::USAGE,
            // A usage error is found before anything is sent. Fewer permits than that are another's word, or an
            // operator's, and may be more the next time.
            // In a deadlock another holder has it too.
            AcquireError::TimedOut { .. }
            | AcquireError::TooMany { .. }
            | AcquireError::Deadlock { .. } => busy,
            // No holder is known, so it is not busy: the store does not serve now.
            AcquireError::Quarantined { .. } => Exit::UNAVAILABLE,
            AcquireError::Unknown { source, .. } | AcquireError::Store { source, .. } => {
                Exit::of_store(source.kind())
            }
            AcquireError::NoQuorum { source, .. } if source.kind() == ErrorKind::Corrupt => {
                Exit::FOREIGN_DATA
            }
            // Whatever else some of the nodes have met, a majority cannot be reached.
            AcquireError::TooFewReplicas { .. }
            | AcquireError::NoQuorum { .. }
            | AcquireError::LostWhileWaiting { .. } => Exit::UNAVAILABLE,
            _ => Exit::INTERNAL,
        }
    }

    pub(crate) fn of_extend(error: &LeaseError) -> Exit {
        match error {
            LeaseError::Invalid(_) => Exit::USAGE,
            LeaseError::Lost(_) => Exit::LOST,
            LeaseError::Unknown { source, .. } | LeaseError::Store { source, .. } => {
                Exit::of_store(source.kind())
            }
            _ => Exit::INTERNAL,
        }
    }

    pub(crate) fn of_release(error: &ReleaseError) -> Exit {
        match error {
            ReleaseError::NotHeld(_) => Exit::LOST,
            ReleaseError::Invalid(_) => Exit::USAGE,
            ReleaseError::Unknown { source, .. } | ReleaseError::Store { source, .. } => {
                Exit::of_store(source.kind())
            }
            _ => Exit::INTERNAL,
        }
    }

    pub(crate) fn of_latch(error: &LatchError) -> Exit {
        match error {
            LatchError::Invalid(_) => Exit::USAGE,
            LatchError::TimedOut { .. } => Exit::BUSY,
            LatchError::Mismatch { .. } | LatchError::Excess { .. } => Exit::REFUSED,
            LatchError::Store { source, .. } => Exit::of_store(source.kind()),
            _ => Exit::INTERNAL,
        }
    }

    pub(crate) fn of_limiter(error: &LimiterError) -> Exit {
        match error {
            LimiterError::Invalid(_) => Exit::USAGE,
            LimiterError::TimedOut { .. } => Exit::BUSY,
            LimiterError::Store { source, .. } => Exit::of_store(source.kind()),
            _ => Exit::INTERNAL,
        }
    }

    pub(crate) fn of_counter(error: &CounterError) -> Exit {
        match error {
            CounterError::Invalid(_) => Exit::USAGE,
            CounterError::Mismatch { .. } => Exit::DIFFERS,
            CounterError::Overflow { .. } | CounterError::OtherName { .. } => Exit::REFUSED,
            CounterError::Stale { .. } => Exit::LOST,
            CounterError::TooFewReplicas { .. } => Exit::UNAVAILABLE,
            CounterError::Unknown(unknown) => Exit::of_store(unknown.cause().kind()),
            CounterError::Forgotten { .. } => Exit::UNAVAILABLE,
            CounterError::Store { source, .. } => Exit::of_store(source.kind()),
            _ => Exit::INTERNAL,
        }
    }

    /// `busy` as in [`of_acquire`](Exit::of_acquire).
    pub(crate) fn of_once(error: &OnceError, busy: Exit) -> Exit {
        match error {
            OnceError::Acquire(error) => Exit::of_acquire(error, busy),
            OnceError::Running { .. } => busy,
            OnceError::Mismatch { .. }
            | OnceError::Crashed { .. }
            | OnceError::GivenUp { .. }
            | OnceError::Failed { .. } => Exit::REFUSED,
            OnceError::Lost(_) | OnceError::Stale { .. } => Exit::LOST,
            OnceError::NotStored { source, .. }
            | OnceError::NotReplicated { source, .. }
            | OnceError::Store { source, .. } => Exit::of_store(source.kind()),
            _ => Exit::INTERNAL,
        }
    }

    pub(crate) fn of_cron(error: &CronError) -> Exit {
        match error {
            CronError::Acquire(error) => Exit::of_acquire(error, Exit::BUSY),
            CronError::Stale { .. } => Exit::LOST,
            CronError::NotConfirmed { source, .. } | CronError::Store { source, .. } => {
                Exit::of_store(source.kind())
            }
            _ => Exit::INTERNAL,
        }
    }

    pub(crate) fn of_inspect(error: &RequestError) -> Exit {
        match error {
            RequestError::Invalid(_) => Exit::USAGE,
            RequestError::Store(source) => Exit::of_store(source.kind()),
            _ => Exit::INTERNAL,
        }
    }

    /// A lease that is gone, or another than the one named, must not be broken.
    pub(crate) fn of_break(error: &BreakError) -> Exit {
        match error {
            BreakError::Invalid(_) => Exit::USAGE,
            BreakError::NotHeld { .. } | BreakError::Mismatch { .. } => Exit::LOST,
            BreakError::Foreign { .. } => Exit::REFUSED,
            // Some servers of several may have refused it, which says nothing of the others.
            BreakError::Unknown { source, .. } if !source.votes().is_empty() => Exit::UNAVAILABLE,
            BreakError::Unknown { source, .. } | BreakError::Store { source, .. } => {
                Exit::of_store(source.kind())
            }
            _ => Exit::INTERNAL,
        }
    }

    /// As the job did: its own code, or 128 + n when signal n ended it.
    pub(crate) fn of_job(status: ExitStatus) -> Exit {
        match (status.code(), status.signal()) {
            (Some(code), _) => u8::try_from(code).map_or(Exit::INTERNAL, Exit),
            (None, Some(signal)) => Exit::by_signal_number(signal),
            // Only a process that was waited for with other options could be neither.
            (None, None) => Exit::INTERNAL,
        }
    }

    /// Whether a signal ended the job, also one of its processes by the word of a shell.
    pub(crate) fn is_by_signal(self) -> bool {
        (129..=192).contains(&self.0)
    }

    fn by_signal_number(signal: i32) -> Exit {
        u8::try_from(128 + signal).map_or(Exit::INTERNAL, Exit)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.0)
    }
}

/// The section that help and the manual page end with; a test compares it with the codes above.
pub(crate) const HELP: &str = "\
Exit codes:
  the job's own code, or 128 + n when signal n ended it (also when a signal ends the wait)
  1     doctor: something is not fit for locks; leader: no client leads;
        schedules --overdue: one is; count --cas: it is another number
  64    usage: a flag, name, duration or URL is wrong; nothing was changed
  65    something that is not a lock lies under the name, or the record is damaged
  69    the store cannot be reached or does not serve now
  70    internal fault
  71    the system lacks open files, processes, memory or /proc
  73    the folder for the locks cannot be made, or its disk or a lock file is full
  74    standard output cannot be written, for example on a full disk
  75    busy: another holder has the lock, or there are fewer permits (see --busy-exit-code);
        latch: not all have arrived; limit: the rate is used up
  77    refused: credentials, permission, a file system unfit for locks, a latch of another
        count, a sum beyond 64 bits, a counter under another lock; once: an earlier run crashed,
        or the attempts are used up
  79    the lease was lost before the job ended, or is not the caller's to change; count --fenced: a
        later holder has changed the counter
  126   the job's command cannot be executed
  127   the job's command was not found";

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const TABLE: [(Exit, u8); 13] = [
        (Exit::UNFIT, 1),
        (Exit::USAGE, 64),
        (Exit::FOREIGN_DATA, 65),
        (Exit::UNAVAILABLE, 69),
        (Exit::INTERNAL, 70),
        (Exit::SYSTEM, 71),
        (Exit::CANNOT_CREATE, 73),
        (Exit::OUTPUT, 74),
        (Exit::BUSY, 75),
        (Exit::REFUSED, 77),
        (Exit::LOST, 79),
        (Exit::CANNOT_EXECUTE, 126),
        (Exit::NOT_FOUND, 127),
    ];

    #[test]
    fn the_help_names_exactly_the_codes_that_exist() {
        let named: Vec<u8> = HELP
            .lines()
            .filter_map(|line| line.split_whitespace().next()?.parse().ok())
            .collect();
        assert_eq!(named, TABLE.map(|(_, number)| number));
        for (exit, number) in TABLE {
            assert_eq!(exit, Exit(number));
        }
    }

    #[test]
    fn every_trouble_of_the_store_has_the_code_that_says_what_to_do() {
        use ErrorKind as K;
        let rows: [(Exit, &[ErrorKind]); 5] = [
            (
                Exit::UNAVAILABLE,
                &[K::Unreachable, K::NoReply, K::Loading, K::OutOfMemory],
            ),
            (
                Exit::UNAVAILABLE,
                &[K::ReadOnly, K::NoReplicas, K::ClusterDown, K::NotServing],
            ),
            (
                Exit::REFUSED,
                &[K::Auth, K::Forbidden, K::UnsupportedFilesystem, K::Mismatch],
            ),
            (Exit::FOREIGN_DATA, &[K::WrongType, K::Corrupt]),
            (Exit::CANNOT_CREATE, &[K::StorageFull, K::CannotCreate]),
        ];
        for (exit, kinds) in rows {
            for kind in kinds {
                assert_eq!(Exit::of_store(*kind), exit, "{kind:?}");
            }
        }
        assert_eq!(Exit::of_store(K::Internal), Exit::INTERNAL);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn errors_of_the_operations_keep_their_meaning() {
        let client = leaselock::Client::open("mem:").unwrap();
        let holder = client.mutex("job").try_acquire().await.unwrap().unwrap();

        let other = client
            .mutex("job")
            .wait(leaselock::Wait::Timeout(Duration::from_millis(20)));
        let busy = other.acquire().await.unwrap_err();
        assert_eq!(Exit::of_acquire(&busy, Exit::chosen(5)), Exit(5));
        let invalid = client.mutex("").try_acquire().await.unwrap_err();
        assert_eq!(Exit::of_acquire(&invalid, Exit::BUSY), Exit::USAGE);
        let invalid = client.inspect("").await.unwrap_err();
        assert_eq!(Exit::of_inspect(&invalid), Exit::USAGE);

        let terms = leaselock::inspect::BreakOptions::default().now();
        client.break_lease("job", terms.clone()).await.unwrap();
        let gone = client.break_lease("job", terms.clone()).await.unwrap_err();
        assert_eq!(Exit::of_break(&gone), Exit::LOST);
        let lost = holder.extend(Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(Exit::of_extend(&lost), Exit::LOST);

        let next = client.mutex("job").try_acquire().await.unwrap().unwrap();
        client.break_lease("job", terms.clone()).await.unwrap();
        assert_eq!(
            Exit::of_release(&next.release().await.unwrap_err()),
            Exit::LOST
        );
    }

    #[test]
    fn a_job_that_ended_by_itself_gives_its_own_code() {
        // The raw status holds the code in its second byte.
        for code in [0, 1, 75, 255] {
            assert_eq!(
                Exit::of_job(ExitStatus::from_raw(i32::from(code) << 8)),
                Exit(code)
            );
        }
    }

    #[test]
    fn a_job_ended_by_a_signal_gives_128_and_its_number() {
        assert_eq!(Exit::of_job(ExitStatus::from_raw(9)), Exit(137));
        assert_eq!(Exit::of_job(ExitStatus::from_raw(15)), Exit(143));
        assert_eq!(Exit::by_signal(Signal::INT), Exit(130));
    }
}
