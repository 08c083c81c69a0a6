//! The one place where the command reads a clock. Deadlines count nanoseconds since boot, with the time the machine
//! slept; ages for people count from 1970.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Itimerspec, Timespec, clock_gettime};

/// Now, as the nanoseconds that a lease's deadline counts in.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}

/// A moment in the form of a timer on that clock, which `None` disarms. Zero would disarm it too, so the first
/// nanosecond stands for "now".
pub(crate) fn timer_at(at: Option<u64>) -> Itimerspec {
    let part = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let at = at.map_or(0, |at| at.max(1));
    let moment = Timespec {
        tv_sec: part(at / 1_000_000_000),
        tv_nsec: part(at % 1_000_000_000),
    };
    Itimerspec {
        it_interval: Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: moment,
    }
}

/// A duration in nanoseconds; what does not fit is for ever.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// When a lease ends: the latest deadline, which its hook writes.
pub(crate) type End = Arc<AtomicU64>;

/// How long until then.
pub(crate) fn ends_in(end: &End) -> Duration {
    Duration::from_nanos(end.load(Ordering::SeqCst).saturating_sub(now()))
}

/// Milliseconds since 1970, for ages that people read and for nothing else.
#[expect(clippy::disallowed_methods, reason = "an age to show, not a deadline")]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A point in time for the runtime's timers, which wake tasks up and decide nothing.
pub(crate) fn alarm_in(pause: Duration) -> tokio::time::Instant {
    tokio::time::Instant::now() + pause
}
