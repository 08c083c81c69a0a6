//! The one clock of the tests.
//!
//! `CLOCK_MONOTONIC` is the same for all processes of a machine, which makes it a global clock:
//! histories written by several processes can be laid side by side.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since some fixed point in the past, the same point for every process of this machine.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("CLOCK_MONOTONIC is never negative");
    let nanos = u32::try_from(time.tv_nsec).expect("nanoseconds are below one second");
    Duration::new(seconds, nanos)
}

/// Microseconds since 1970 by the clock that servers of this machine answer `TIME` from. Only for comparing numbers
/// that were made from it: it may be set at any time.
pub fn wall_us() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(time.tv_sec).expect("it is after 1970");
    let nanos = u64::try_from(time.tv_nsec).expect("nanoseconds are never negative");
    seconds * 1_000_000 + nanos / 1_000
}
