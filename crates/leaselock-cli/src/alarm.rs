//! A timer on the clock that counts suspend, which the runtime's timers do not.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::time::{
    TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::boottime::timer_at;
use crate::process::watch_readable;

pub(crate) struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// Inside a runtime.
    pub(crate) fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Alarm(watch_readable(timer)?))
    }

    /// Completes at this moment. Cancel safe.
    pub(crate) async fn rings_at(&self, at: u64) -> io::Result<()> {
        timerfd_settime(
            self.0.as_fd(),
            TimerfdTimerFlags::ABSTIME,
            &timer_at(Some(at)),
        )?;
        loop {
            let mut ready = self.0.readable().await?;
            match rustix::io::read(&self.0, &mut [0; 8]) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
