//! The one place where a clock is read.
//!
//! Deadlines use a clock that also counts while the machine sleeps (`CLOCK_BOOTTIME` on Linux), because a lease on a
//! server expires during that time too. `std::time::Instant` stops there, and wall time steps; a lint refuses both
//! everywhere else.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leaselock_fence::InvalidInput;
use rustix::time::ClockId;
use tokio::sync::watch;

use super::span::span;

/// A point on the clock that counts suspended time, in nanoseconds.
///
/// Moments of different processes on one machine can be compared; those of different machines cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Creates a moment from nanoseconds of `CLOCK_BOOTTIME`.
    pub const fn from_nanos(nanos: u64) -> Self {
        Moment(nanos)
    }

    /// Returns the nanoseconds of `CLOCK_BOOTTIME`.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns how long after `earlier` this is; zero when it is not later.
    pub const fn saturating_since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the moment this much later; the end of time when that is beyond it.
    #[must_use]
    pub fn plus(self, by: Duration) -> Moment {
        Moment(self.0.saturating_add(nanos(by)))
    }

    /// Returns the moment this much earlier; the start of time when that is before it.
    #[must_use]
    pub fn minus(self, by: Duration) -> Moment {
        Moment(self.0.saturating_sub(nanos(by)))
    }
}

fn nanos(of: Duration) -> u64 {
    u64::try_from(of.as_nanos()).unwrap_or(u64::MAX)
}

/// The machine's clock, for timeouts of requests: unlike those of leases no test moves them by hand.
pub(crate) static CLOCK: Clock = Clock::boot();

/// A client's source of time: the machine's own clock, or one that a test moves by hand.
#[derive(Debug, Clone)]
pub struct Clock(ClockSource);

#[derive(Debug, Clone)]
enum ClockSource {
    Boot,
    Manual(Arc<watch::Sender<u64>>),
}

/// The manual clock starts here and not at zero, so that earlier moments exist.
const MANUAL_START_NANOS: u64 = 1_000_000_000_000;

impl Clock {
    /// Returns the machine's clock, which counts suspended time.
    pub const fn boot() -> Self {
        Clock(ClockSource::Boot)
    }

    /// Creates a clock that stands still until [`advance`](Clock::advance) moves it.
    ///
    /// For tests of your own code. Clones share the time.
    pub fn manual() -> Self {
        Clock(ClockSource::Manual(Arc::new(watch::Sender::new(
            MANUAL_START_NANOS,
        ))))
    }

    /// Moves a manual clock and wakes the tasks that wait on it. The machine's clock does not move.
    pub fn advance(&self, by: Duration) {
        if let ClockSource::Manual(nanos) = &self.0 {
            nanos.send_modify(|now| *now = Moment(*now).plus(by).as_nanos());
        }
    }

    /// Returns the time now.
    pub fn now(&self) -> Moment {
        match &self.0 {
            ClockSource::Boot => boot_now(),
            ClockSource::Manual(nanos) => Moment(*nanos.borrow()),
        }
    }

    /// Returns how long it is until `moment`; zero when that has passed.
    pub(crate) fn left(&self, moment: Moment) -> Duration {
        moment.saturating_since(self.now())
    }

    pub(crate) fn is_manual(&self) -> bool {
        matches!(self.0, ClockSource::Manual(_))
    }

    /// Waits until `moment`.
    ///
    /// On the machine's clock this is a timer that may be late after a suspend, so a task that decides something reads
    /// the clock again.
    #[doc(hidden)]
    pub async fn sleep_until(&self, moment: Moment) {
        match &self.0 {
            ClockSource::Boot => tokio::time::sleep(moment.saturating_since(boot_now())).await,
            ClockSource::Manual(nanos) => {
                let mut moved = nanos.subscribe();
                drop(moved.wait_for(|now| *now >= moment.0).await); // no error: the sender is this clock's
            }
        }
    }

    /// Waits until the end of a wait, if it has one.
    pub(crate) async fn sleep_until_end(&self, end: Option<Moment>) {
        match end {
            Some(end) => self.sleep_until(end).await,
            None => std::future::pending().await,
        }
    }

    pub(crate) async fn sleep(&self, by: Duration) {
        self.sleep_until(self.now().plus(by)).await;
    }
}

#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::Boottime;
/// Other systems are not tested. Their monotonic clock may stop while the machine sleeps.
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::Monotonic;

fn boot_now() -> Moment {
    Moment(read_nanos(BOOT))
}

fn read_nanos(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Returns this time of a wall clock; `None` for one that no clock shows.
pub(crate) fn from_unix_ms(unix_ms: u64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms))
}

/// Returns wall time in microseconds since 1970.
///
/// For display and for the embedded store's anchor, never for a deadline.
pub(crate) fn wall_us() -> u64 {
    read_nanos(ClockId::Realtime) / 1000
}

/// A timer of the client's own thread, on time even after a suspend (a timerfd on the same clock).
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    #[cfg(target_os = "linux")]
    timer: Option<tokio::net::unix::pipe::Receiver>,
}

impl Alarm {
    /// Creates the timer, on a runtime with I/O.
    ///
    /// Without a timerfd (descriptors used up) it falls back to a plain timer.
    pub(crate) fn new(clock: Clock) -> Self {
        #[cfg(target_os = "linux")]
        {
            use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
            use tokio::net::unix::pipe::Receiver;
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            // It is no pipe, but reads like one, and this needs no unsafe registration of a bare descriptor.
            let watched = |timer| Receiver::from_owned_fd_unchecked(timer).ok();
            let timer = (!clock.is_manual())
                .then(|| timerfd_create(TimerfdClockId::Boottime, flags).ok())
                .flatten()
                .and_then(watched);
            Alarm { clock, timer }
        }
        #[cfg(not(target_os = "linux"))]
        Alarm { clock }
    }

    pub(crate) async fn ring_at(&self, moment: Moment) {
        #[cfg(target_os = "linux")]
        if let Some(timer) = &self.timer
            && set_timer(timer, moment).is_ok()
        {
            while self.clock.now() < moment {
                if timer.readable().await.is_err() {
                    break;
                }
                timer.try_read(&mut [0; 8]).ok(); // the count of expirations; the clock decides
            }
        }
        self.clock.sleep_until(moment).await;
    }
}

#[cfg(target_os = "linux")]
fn set_timer(timer: &tokio::net::unix::pipe::Receiver, moment: Moment) -> rustix::io::Result<()> {
    use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
    let at = Timespec {
        tv_sec: i64::try_from(moment.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::from(u32::try_from(moment.as_nanos() % 1_000_000_000).unwrap_or(0)),
    };
    let spec = Itimerspec {
        it_interval: Timespec::default(), // it fires once
        it_value: at,
    };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec).map(|_| ())
}

/// The shortest ttl: 10 ms. With a shorter one, drift and a single round trip leave no time to work.
pub const TTL_MIN: Duration = Duration::from_millis(10);
/// The longest ttl: 30 days. A crashed holder blocks every waiter for its ttl.
pub const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The default ttl: 10 s.
///
/// It survives a pause of the process or the network, and is short enough to wait for after a crash. Many lock libraries
/// have the same default.
pub const DEFAULT_TTL: Duration = Duration::from_secs(10);

/// The duration of a lease: 10 ms to 30 days, in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ttl(u64);

impl Ttl {
    /// How long a lease lasts whose ttl no caller has set.
    pub(crate) const DEFAULT: Ttl = Ttl(10_000);

    pub(crate) fn new(ttl: Duration) -> Result<Self, InvalidInput> {
        let in_range = (TTL_MIN..=TTL_MAX).contains(&ttl);
        match u64::try_from(ttl.as_millis()) {
            Ok(ms) if in_range => Ok(Ttl(ms)),
            _ => Err(InvalidInput::new(format!(
                "ttl {} is out of range: from 10 ms to 30 days (10 s is the default)",
                span(ttl)
            ))),
        }
    }

    pub(crate) const fn whole_ms(ms: u64) -> Option<Self> {
        if ms >= 10 && ms <= 30 * 24 * 3600 * 1000 {
            Some(Ttl(ms))
        } else {
            None
        }
    }

    pub(crate) const fn as_ms(self) -> u64 {
        self.0
    }

    pub(crate) const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    pub(crate) fn min(self, other: Ttl) -> Ttl {
        Ttl(self.0.min(other.0))
    }
}

/// Drift: how far the clocks of client and server may run apart during one lease.
///
/// `deadline = t0 + ttl - (ttl * rho + 2 ms)`, where `t0` was read before the request could leave. This is the
/// validity of the Redlock algorithm (redis.io, *Distributed locks with Redis*), in integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drift {
    pub(crate) ppm: u32,
}

/// Covers the server's millisecond rounding of key expiry.
const FLOOR: Duration = Duration::from_millis(2);

impl Drift {
    pub(crate) fn of(self, ttl: Ttl) -> Duration {
        Duration::from_nanos(ttl.as_ms().saturating_mul(u64::from(self.ppm))) + FLOOR
    }

    /// Returns how far clocks may drift apart in this time.
    pub(crate) fn over(self, time: Duration) -> Duration {
        let nanos = time.as_nanos().saturating_mul(u128::from(self.ppm)) / 1_000_000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the deadline of a lease of `ttl` whose request began at `t0`.
    pub(crate) fn deadline(self, t0: Moment, ttl: Ttl) -> Moment {
        t0.plus(ttl.as_duration().saturating_sub(self.of(ttl)))
    }

    /// Returns the deadline of a lease that the server granted `since` after `t0`, by its own clock.
    ///
    /// The clocks may have drifted apart during that time too.
    pub(crate) fn deadline_after(self, t0: Moment, since: Duration, ttl: Ttl) -> Moment {
        let whole = since.saturating_add(ttl.as_duration());
        let drift = self.over(since).saturating_add(self.of(ttl));
        t0.plus(whole.saturating_sub(drift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_never_wrap() {
        let end = Moment::from_nanos(u64::MAX);
        assert_eq!(end.plus(Duration::MAX), end);
        assert_eq!(
            Moment::from_nanos(5).minus(Duration::from_secs(1)),
            Moment::from_nanos(0)
        );
        assert_eq!(Moment::from_nanos(5).saturating_since(end), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_when_it_is_moved() {
        let clock = Clock::manual();
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            let until = clock.now().plus(Duration::from_secs(60));
            async move { clock.sleep_until(until).await }
        });
        clock.advance(Duration::from_secs(59));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        sleeper.await.unwrap();
    }

    #[test]
    fn boot_time_does_not_go_back() {
        let clock = Clock::boot();
        let first = clock.now();
        assert!(clock.now() >= first && first > Moment::from_nanos(0));
    }
}

#[cfg(test)]
mod ttl_tests {
    use super::*;

    #[test]
    fn a_ttl_outside_its_range_is_refused_and_the_range_is_named() {
        for bad in [
            Duration::ZERO,
            Duration::from_millis(9),
            Duration::from_secs(2_592_001),
            Duration::MAX,
        ] {
            let refusal = Ttl::new(bad).unwrap_err().to_string();
            assert!(refusal.contains("10 ms to 30 days"), "{refusal}");
        }
        assert_eq!(Ttl::new(TTL_MIN).unwrap().as_ms(), 10);
        assert_eq!(Ttl::new(TTL_MAX).unwrap().as_ms(), 2_592_000_000);
    }

    #[test]
    fn validity_is_ttl_less_one_percent_and_two_milliseconds() {
        let drift = Drift { ppm: 10_000 };
        let t0 = Moment::from_nanos(1_000_000_000);
        let deadline = drift.deadline(t0, Ttl::new(Duration::from_secs(10)).unwrap());
        assert_eq!(deadline.saturating_since(t0), Duration::from_millis(9898));
    }

    #[test]
    fn the_time_before_a_lease_was_handed_over_counts_for_drift_too() {
        let drift = Drift { ppm: 10_000 };
        let (t0, ttl) = (
            Moment::from_nanos(0),
            Ttl::new(Duration::from_secs(5)).unwrap(),
        );
        let deadline = drift.deadline_after(t0, Duration::from_secs(3), ttl);
        assert_eq!(deadline.saturating_since(t0), Duration::from_millis(7918));
        assert_eq!(
            drift.deadline_after(t0, Duration::ZERO, ttl),
            drift.deadline(t0, ttl)
        );
    }

    #[test]
    fn a_drift_larger_than_the_ttl_leaves_no_validity_and_does_not_wrap() {
        let t0 = Moment::from_nanos(1_000);
        let deadline = Drift { ppm: 1_000_000 }.deadline(t0, Ttl::new(TTL_MIN).unwrap());
        assert_eq!(deadline, t0);
    }
}
