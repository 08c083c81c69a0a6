//! The arguments of the verbs that acquire, extend and release a lease.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leaselock::Wait;
use leaselock::detached::Handle;
use leaselock::interop::Preset;

use super::like::LikeArgs;
use crate::exit::Exit;
use crate::{duration, manual};

/// The properties of a lease.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// How soon the lock expires when its holder dies
    ///
    /// `run` and `hold` renew the lease before it expires, `acquire` does not. From 10ms (`run`: 100ms) to 30d.
    /// Default: 10s, or the ttl of --like, and at most --strict or --longest-ttl.
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    ttl: Option<Duration>,

    /// Queue priority: higher first, then by arrival
    ///
    /// The default is 0.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    pub(crate) priority: i32,

    /// A note that others see while the lock is held
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,

    /// Acquire the lock only if this many replicas of the server confirm it
    ///
    /// If fewer confirm it in time, leaselock releases the lock and exits 69. Renewals do not wait for
    /// replicas.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    min_replicas: Option<u32>,

    /// Timeout of --min-replicas, less than the ttl [default: 1s, or a quarter of a ttl below 4s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(
        allow_negative_numbers = true,
        requires = "min_replicas",
        hide_short_help = true
    )]
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

    /// The length of the lease. `longest` is the limit of the store: a default ttl is made to fit, as the library does
    /// it.
    pub(crate) fn ttl(&self, longest: Option<Duration>) -> Duration {
        let theirs = || self.like.preset.and_then(Preset::ttl);
        let usual = || theirs().unwrap_or(leaselock::options::DEFAULT_TTL);
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

/// How long to wait for a lock that another holder has. The aliases are the spellings of flock(1).
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Do not wait: fail at once when the lock is held
    #[arg(short, long, alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,

    /// Wait at most this long [default: forever]
    #[arg(short, long, alias = "timeout", value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) wait: Option<Duration>,

    /// Exit code when the lock stays held [default: 75]
    ///
    /// From 0 to 255.
    #[arg(
        short = 'E',
        long,
        alias = "conflict-exit-code",
        value_name = "N",
        default_value_t = 75,
        hide_default_value = true
    )]
    #[arg(allow_negative_numbers = true)]
    busy_exit_code: u8,
}

impl WaitArgs {
    /// What -n and -w say together.
    pub(crate) fn policy(&self) -> Wait {
        wait_policy(self.nonblock, self.wait, Wait::Forever)
    }

    /// The exit code for a lock that was not free in time.
    pub(crate) fn busy(&self) -> Exit {
        Exit::chosen(self.busy_exit_code)
    }
}

/// `without_limit`: the wait of a caller that gives neither -n nor -w.
pub(crate) fn wait_policy(nonblock: bool, limit: Option<Duration>, without_limit: Wait) -> Wait {
    match (nonblock, limit) {
        (true, _) => Wait::Never,
        (false, Some(limit)) => Wait::Timeout(limit),
        (false, None) => without_limit,
    }
}

/// Where a handle is read from; never from the arguments, which `ps` shows to every user.
#[derive(Debug, Args)]
pub(crate) struct HandleArgs {
    /// Read the handle from this file [default: LEASELOCK_HANDLE, else standard input]
    #[arg(long, value_name = "FILE")]
    pub(crate) handle_file: Option<PathBuf>,
}

/// Extend the lease of a handle: a new ttl, counted from now
#[derive(Debug, Args)]
#[command(after_help = manual::EXTEND)]
pub(crate) struct ExtendArgs {
    #[command(flatten)]
    pub(crate) handle: HandleArgs,

    /// New ttl, from 10ms to 30d [default: that of acquire, or --strict or --longest-ttl when less]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    #[arg(allow_negative_numbers = true)]
    ttl: Option<Duration>,
}

impl ExtendArgs {
    /// The new length, that of `handle` unless it was given; `longest` is the limit of the store.
    pub(crate) fn ttl(&self, handle: &Handle, longest: Option<Duration>) -> Duration {
        self.ttl
            .unwrap_or_else(|| fitting(handle.ttl(), longest, false))
    }
}

/// Release the lock of a handle
#[derive(Debug, Args)]
#[command(after_help = manual::RELEASE)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) handle: HandleArgs,
}
