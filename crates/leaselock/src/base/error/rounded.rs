//! Times in messages.

use std::time::Duration;

/// Returns a measured time for a message: to the millisecond, or to the microsecond if it is shorter.
pub(crate) fn rounded(time: Duration) -> Duration {
    /// Below it a message shows microseconds.
    const SHORT: Duration = Duration::from_millis(100);
    let unit_ns = if time < SHORT { 1_000 } else { 1_000_000 };
    time - Duration::from_nanos(u64::from(time.subsec_nanos() % unit_ns))
}
