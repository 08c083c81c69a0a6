//! The clocks that are read: one that all processes of the machine share, and the processor's.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds that mean the same in every process.
pub fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Processor time of this process so far, all its threads together, in nanoseconds.
pub fn processor_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanoseconds(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
