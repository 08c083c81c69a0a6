//! The arguments of `acquire`.

use clap::Args;
use leaselock::interop::Protocol;

use super::lease::{LockArgs, WaitArgs};
use super::mode::{Mode, ModeArgs};
use crate::manual;

/// Acquire a lock and print its handle, for extend and release
///
/// The lease has no renewal: it expires after its ttl unless `extend` comes in time. Everyone who
/// has the handle can release the lock, so keep it like a password. The handle says how the lock is
/// held, so extend and release need no -s and no --permits.
#[derive(Debug, Args)]
#[command(after_help = manual::ACQUIRE)]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    mode: ModeArgs,

    #[command(flatten)]
    pub(crate) lock: LockArgs,

    /// Name of the lock, for example nightly-report
    pub(crate) name: String,
}

impl AcquireArgs {
    /// The second stage: how the lock is to be held.
    pub(crate) fn mode(&self) -> Result<Mode, String> {
        self.mode.mode(&self.lock, Protocol::Native)
    }
}
