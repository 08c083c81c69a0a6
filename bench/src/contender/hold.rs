//! Doing nothing for a while, to the microsecond: the runtime's own timer counts whole milliseconds.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

/// A span to be waited for, again and again, by one task.
#[derive(Debug, Clone)]
pub struct Hold {
    pub span: Duration,
    timer: Option<Arc<Receiver>>,
}

impl Hold {
    pub const NONE: Hold = Hold {
        span: Duration::ZERO,
        timer: None,
    };

    /// Made within the runtime that will wait.
    pub fn of(span: Duration) -> io::Result<Hold> {
        if span.is_zero() {
            return Ok(Hold::NONE);
        }
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // A timer is read like a pipe, and a pipe is what the runtime can watch.
        let timer = Receiver::from_owned_fd_unchecked(timer)?;
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
        let it_value = Timespec {
            tv_sec: i64::try_from(self.span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: self.span.subsec_nanos().into(),
        };
        let once = Itimerspec {
            it_interval: none,
            it_value,
        };
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
        loop {
            timer.readable().await?;
            match timer.try_read(&mut [0; 8]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}
