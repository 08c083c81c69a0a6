//! The wrapper's part: what `leaselock run` does once it holds a lease, with a made-up lease.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use crate::boottime;
use crate::exit::Exit;
use crate::guardian::{Guardian, Plan};
use crate::job::{Job, JobSpec};
use crate::procfs::Status;
use crate::signals::Signals;
use crate::supervise::{GuardianNotices, Outcome, supervise};

/// The first argument that makes this program a wrapper.
pub(crate) const PART: &str = "play-the-wrapper";

/// Asks 800 ms and kills 200 ms before the deadline: room enough to see what came first, also on
/// a machine that does much else.
pub(crate) const PLAN: Plan = Plan {
    ttl: Duration::from_secs(20),
    kill_after: Duration::from_millis(800),
    signal: Signal::TERM,
};

/// The made-up lease, as it passes through the arguments.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lease {
    pub(crate) length_ms: u64,
    /// Renewed this often; 0 for never.
    pub(crate) renew_ms: u64,
    /// Lost, whatever the deadline says; 0 for never.
    pub(crate) lost_ms: u64,
    /// Whether the job inherits a descriptor that counts as the lock.
    pub(crate) job_holds: bool,
    /// Whether the guardian keeps a descriptor that counts as the lock.
    pub(crate) guardian_keeps: bool,
}

impl Lease {
    pub(crate) fn arguments(&self) -> [String; 5] {
        let numbers = [self.length_ms, self.renew_ms, self.lost_ms];
        let flags = [self.job_holds, self.guardian_keeps].map(u64::from);
        [numbers[0], numbers[1], numbers[2], flags[0], flags[1]].map(|number| number.to_string())
    }

    fn from_arguments(arguments: &mut impl Iterator<Item = OsString>) -> Lease {
        let mut next = || {
            arguments
                .next()
                .unwrap()
                .into_string()
                .unwrap()
                .parse()
                .unwrap()
        };
        let [length_ms, renew_ms, lost_ms]: [u64; 3] = std::array::from_fn(|_| next());
        let [job_holds, guardian_keeps] = std::array::from_fn(|_| next() == 1);
        Lease {
            length_ms,
            renew_ms,
            lost_ms,
            job_holds,
            guardian_keeps,
        }
    }
}

/// Plays the part in the present folder: the deadline goes to the file `deadline`, the lock is
/// the file `lock`.
pub(crate) fn play(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let lease = Lease::from_arguments(&mut arguments);
    let command: Vec<OsString> = arguments.collect();
    let status = Status::read().unwrap();
    let guardian = Guardian::start(&status, PLAN).unwrap();
    let signals = Signals::block(&status).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(guard(lease, &command, guardian, signals))
        .into()
}

async fn guard(lease: Lease, command: &[OsString], guardian: Guardian, signals: Signals) -> Exit {
    let deadline = boottime::now() + lease.length_ms * 1_000_000;
    std::fs::write("deadline", deadline.to_string()).unwrap();
    guardian.channel().deadline(deadline);
    if lease.renew_ms > 0 {
        let line = guardian.channel();
        std::thread::spawn(move || {
            loop {
                // The made-up lease is renewed so often.
                std::thread::sleep(Duration::from_millis(lease.renew_ms));
                line.deadline(boottime::now() + lease.length_ms * 1_000_000);
            }
        });
    }
    if lease.guardian_keeps {
        guardian.channel().keep(lock()).unwrap();
    }
    let mask = signals.mask_before();
    let spec = JobSpec {
        leads: false,
        output: None,
        owner: None,
        withhold_url: false,
        program: &command[0],
        arguments: &command[1..],
        name: "drill",
        fence: Some(7),
        fences: None,
        sequencers: None,
        tick: None,
        ttl: PLAN.ttl,
        session: lease.job_holds.then(inheritable_lock),
        limited: false,
    };
    let job = match Job::start(&spec, guardian.channel(), mask) {
        Ok(job) => job,
        Err(refusal) => {
            guardian.retire();
            return refusal.exit();
        }
    };
    drop(spec);
    let lost = async {
        match lease.lost_ms {
            0 => std::future::pending().await,
            // The scenario says when it is lost.
            ms => tokio::time::sleep(Duration::from_millis(ms)).await,
        }
    };
    let signals = signals.listen().unwrap();
    let tell = |reason, _| eprintln!("{reason:?}");
    let notices = GuardianNotices::listen(guardian.channel()).unwrap();
    let supervised = supervise(job, guardian, notices, &PLAN, &signals, lost, tell).await;
    let (outcome, leaving) = supervised.unwrap();
    if let Some(guardian) = leaving {
        guardian.wait();
    }
    match outcome {
        Outcome::Ended(status) => Exit::of_job(status),
        Outcome::Lost(_) => Exit::LOST,
        Outcome::Unguarded(_) => Exit::INTERNAL,
    }
}

fn lock() -> OwnedFd {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open("lock")
        .unwrap();
    flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    file.into()
}

fn inheritable_lock() -> OwnedFd {
    let fd = lock();
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty()).unwrap();
    fd
}

/// Whether the lock of this folder is free.
pub(crate) fn is_free(folder: &std::path::Path) -> bool {
    let file = File::open(folder.join("lock")).unwrap();
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}
