//! Doing nothing for a while, to the microsecond: the runtime's own timer counts whole milliseconds.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A span to be waited for, again and again, by one task.
#[derive(Debug, Clone)]
pub struct Hold {
    pub span: Duration,
    timer: Option<Arc<AsyncFd<OwnedFd>>>,
}

impl Hold {
    pub const NONE: Hold = Hold {
        span: Duration::ZERO,
        timer: None,
    };

    /// Made within the runtime that will wait.
    #[expect(
        deprecated,
        reason = "unsound for types whose descriptor changes; an OwnedFd's does not"
    )]
    pub fn of(span: Duration) -> io::Result<Hold> {
        if span.is_zero() {
            return Ok(Hold::NONE);
        }
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        Ok(Hold {
            span,
            timer: Some(Arc::new(timer)),
        })
    }

    pub async fn pass(&self) -> io::Result<()> {
        let Some(timer) = &self.timer else {
            return Ok(());
        };
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let seconds = i64::try_from(self.span.as_secs()).unwrap_or(i64::MAX);
        let it_value = Timespec {
            tv_sec: seconds,
            tv_nsec: self.span.subsec_nanos().into(),
        };
        let once = Itimerspec {
            it_interval: none,
            it_value,
        };
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = timer.readable().await?;
            let mut expirations = [0; 8];
            let read = ready.try_io(|timer| Ok(rustix::io::read(timer, &mut expirations)?));
            if let Ok(read) = read {
                return read.map(drop);
            }
        }
    }
}
