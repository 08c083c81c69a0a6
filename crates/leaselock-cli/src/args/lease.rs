//! The arguments of the verbs that take, keep and give back a lease.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leaselock::Preset;

use super::like::LikeArgs;
use crate::duration;
use crate::exit::Exit;

/// What a lease is to be like.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// Length of the lease: how long others wait at most when this holder vanishes
    ///
    /// `run` renews it all the time; from `acquire` it counts once. From 10ms, for `run` from 100ms, to 30d;
    /// 10s when not given, or what the library of --like has, and never more than --strict or --longest-ttl.
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    ttl: Option<Duration>,

    /// Place in line: a higher number goes first, equal numbers in the order of arrival
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub(crate) priority: i32,

    /// A note that others see while this lease is held
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,

    /// Count the lock as taken only once so many replicas of the server have it
    ///
    /// When fewer have it in time, the lock is given back and the exit code is 69. Renewals are not waited for.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    min_replicas: Option<u32>,

    /// How long the replicas may take, less than the ttl [default: 1s, or a quarter of a ttl below 4s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true, requires = "min_replicas")]
    replica_timeout: Option<Duration>,

    #[command(flatten)]
    pub(crate) like: LikeArgs,
}

impl LockArgs {
    /// How many replicas must have the lock, and how long they may take.
    pub(crate) fn replicas(&self, longest: Option<Duration>) -> Option<(u32, Duration)> {
        let usual = Duration::from_secs(1).min(self.ttl(longest) / 4);
        let timeout = self.replica_timeout.unwrap_or(usual);
        self.min_replicas.map(|count| (count, timeout))
    }

    /// The length of the lease. `longest` is the limit of the store: a length that nobody asked for is made to fit, as
    /// the library does it.
    pub(crate) fn ttl(&self, longest: Option<Duration>) -> Duration {
        let theirs = || self.like.preset.and_then(Preset::ttl);
        let usual = || theirs().unwrap_or(leaselock::TTL);
        let whole = self.like.preset.is_some_and(Preset::whole_seconds);
        self.ttl.unwrap_or_else(|| fitting(usual(), longest, whole))
    }
}

/// The usual ttl, or the longest that the store allows when that is less.
fn fitting(usual: Duration, longest: Option<Duration>, whole_seconds: bool) -> Duration {
    match longest.filter(|longest| *longest < usual) {
        None => usual,
        Some(longest) if whole_seconds && longest >= Duration::from_secs(1) => {
            Duration::from_secs(longest.as_secs())
        }
        Some(longest) => longest,
    }
}

/// How long to wait for a lock that somebody else holds.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Do not wait: give up at once when somebody else holds the lock
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait at most this long [default: for ever]
    #[arg(short, long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,

    /// Exit code when the lock is not free in time, 0 to 255
    #[arg(short = 'E', long, value_name = "N", default_value_t = 75)]
    #[arg(allow_negative_numbers = true)]
    busy_exit_code: u8,
}

impl WaitArgs {
    /// The exit code for a lock that was not free in time.
    pub(crate) fn busy(&self) -> Exit {
        Exit::chosen(self.busy_exit_code)
    }
}

/// Take a lock and print its handle, for extend and release
///
/// The lease is not renewed: it ends after its ttl unless `extend` comes in time. Whoever has the
/// handle can give the lock back, so keep it as you keep a password.
#[derive(Debug, Args)]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) lock: LockArgs,

    /// What the lock protects, for example nightly-report
    pub(crate) name: String,
}

/// Where a handle is read from; never from the arguments, which `ps` shows to everybody.
#[derive(Debug, Args)]
pub(crate) struct HandleArgs {
    /// Read the handle from this file [default: LEASELOCK_HANDLE, else standard input]
    #[arg(long, value_name = "FILE")]
    pub(crate) handle_file: Option<PathBuf>,
}

/// Give a lease that acquire took a new ttl, counted from now
#[derive(Debug, Args)]
pub(crate) struct ExtendArgs {
    #[command(flatten)]
    pub(crate) handle: HandleArgs,

    /// New length of the lease, from 10ms to 30d [default: 10s, or --strict or --longest-ttl when less]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    ttl: Option<Duration>,
}

impl ExtendArgs {
    /// The new length; `longest` is the limit of the store.
    pub(crate) fn ttl(&self, longest: Option<Duration>) -> Duration {
        self.ttl
            .unwrap_or_else(|| fitting(leaselock::TTL, longest, false))
    }
}

/// Give back a lease that acquire took
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) handle: HandleArgs,
}
