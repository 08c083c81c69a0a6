//! The clock of deadlines: nanoseconds since boot, with the time the machine slept.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Now, as the nanoseconds that a lease's deadline counts in.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}

/// A duration in nanoseconds; what does not fit is for ever.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
