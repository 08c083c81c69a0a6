//! The way in which a recorded run holds its name.

use leaselock_fence::Fence;

use crate::engine::guard::lease::mode::modes;
use crate::engine::guard::lease::{Lease, LeaseView};

/// One run of work that runs once, or of a tick of a schedule.
///
/// [`OnceRun`](crate::once::OnceRun) and [`CronRun`](crate::cron::CronRun) end it, by `finish` or `cancel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub(crate) number: u32,
}

modes! {
    Attempt: Fence;
}

/// Gives what has this mode the number of its run.
macro_rules! attempt {
    ($($of:ident)*) => {
        $(impl $of<Attempt> {
            /// Returns the number of the run, from 1. With more than 1, an earlier run failed or crashed, and may have
            /// done the work in part.
            pub fn attempt(&self) -> u32 {
                self.known().number
            }
        })*
    };
}

attempt!(Lease LeaseView);

/// Gives the handle of recorded work the options of each run.
macro_rules! run_setters {
    () => {
        /// Sets how long the lease of a run lasts without renewal, as [`Mutex::ttl`](crate::Mutex::ttl): 10 s by default.
        ///
        /// So long after a crash the name is free again, and others know of the crash; in a folder, at once.
        pub fn ttl(mut self, ttl: Duration) -> Self {
            self.named.options.ttl = Some(ttl);
            self
        }

        /// Sets the longest time of a run, after which it is lost and counts as crashed; unlimited by default.
        pub fn max_hold(mut self, longest: Duration) -> Self {
            self.named.options.max_hold = Some(longest);
            self
        }
    };
}
pub(crate) use run_setters;
