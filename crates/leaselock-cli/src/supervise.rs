//! What the wrapper does while work is done under its lease, until the work has ended.

use std::future::{Future, pending};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until, timeout};

use crate::boottime::alarm_in;
use crate::guardian::{Channel, Guardian, Notice, Plan, Verdict};
use crate::process::watch_readable;
use crate::signals::{ReceivedSignal, SignalStream};

/// What is done under a lease, and ended when the lease is lost.
pub(crate) trait Work {
    /// How it ended.
    type End;

    /// Completes when it has ended, however that came. Cancel safe.
    async fn ended(&mut self) -> io::Result<()>;

    /// Asks it to end.
    fn terminate(&mut self, signal: Signal);

    /// Ends it. To be repeated until it has ended.
    fn kill(&mut self);

    /// Whether this process may signal it.
    fn obeys(&self) -> bool;

    /// Takes a signal that the wrapper got.
    fn hear(&mut self, received: ReceivedSignal);

    /// Whether nothing is left that is to end with the lease, as far as it can be known.
    fn is_gone(&self) -> bool;

    /// How it ended. After this the numbers of its processes may be another's.
    fn reap(self) -> io::Result<Self::End>;
}

/// How the work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome<E = ExitStatus> {
    /// By itself.
    Ended(E),
    /// The guardian or the wrapper ended it because the lease was lost or about to expire.
    Lost(E),
    /// The wrapper ended it because the guardian had died and could no longer end it in time.
    Unguarded(E),
}

/// Why the work must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// `lost` completed.
    Lost,
    /// The guardian got no new deadline in time.
    NotRenewed,
    /// The guardian died.
    Unguarded,
}

/// Passes signals on until the work has ended, and makes sure that it ends when it must.
///
/// `lost` completes when the lease is lost; `tell` is called once for every reason, with whether the work obeys. The
/// guardian that is returned has nothing left to do: the caller waits for its end, but can release the lock before that.
pub(crate) async fn supervise<W: Work>(
    mut work: W,
    guardian: Guardian,
    notices: GuardianNotices,
    plan: &Plan,
    signals: &SignalStream,
    lost: impl Future<Output = ()>,
    tell: impl Fn(StopReason, bool),
) -> io::Result<(Outcome<W::End>, Option<Guardian>)> {
    let mut lost = pin!(lost);
    let (mut is_lost, mut alone) = (false, false);
    let mut fallback = Fallback {
        plan,
        channel: guardian.channel(),
        due: None,
        asked: false,
    };
    loop {
        tokio::select! {
            biased;
            ended = work.ended() => break ended?,
            notice = notices.notice(), if !alone => match notice? {
                Notice::Fired => {
                    if !std::mem::replace(&mut is_lost, true) {
                        tell(StopReason::NotRenewed, work.obeys());
                    }
                    fallback.leave_the_signal();
                }
                Notice::Gone => {
                    alone = true;
                    if !fallback.asked {
                        fallback.act(&mut work); // first: the reader of standard error may be slow
                    }
                    tell(StopReason::Unguarded, work.obeys());
                }
            },
            () = &mut lost, if !is_lost => {
                is_lost = true;
                guardian.channel().lost(); // first: the reader of standard error may be slow
                tell(StopReason::Lost, work.obeys());
                fallback.due.get_or_insert(alarm_in(GUARDIAN_FIRST));
            }
            () = fallback.due() => fallback.act(&mut work),
            received = signals.next() => work.hear(received?),
        }
    }
    let verdict = guardian.dismiss();
    if verdict == Verdict::Fired && !is_lost {
        tell(StopReason::NotRenewed, true); // the work had ended before the notice was read
    }
    // The processes that the job left behind got the signal too, and have until the kill to end.
    let limit = plan.kill_after + Duration::from_secs(1);
    if verdict != Verdict::Fired && (is_lost || fallback.asked) {
        timeout(limit, fallback.end_the_rest(&mut work)).await.ok();
    }
    let end = work.reap()?;
    let leaving = if verdict == Verdict::Fired {
        if timeout(limit, notices.gone()).await.is_ok() {
            guardian.wait();
        }
        None
    } else {
        Some(guardian)
    };
    let outcome = match verdict {
        Verdict::Fired => Outcome::Lost(end),
        _ if is_lost => Outcome::Lost(end),
        _ if fallback.asked => Outcome::Unguarded(end),
        _ => Outcome::Ended(end),
    };
    Ok((outcome, leaving))
}

/// The guardian ends the work once, at the right times, so the wrapper asks it first. The guardian
/// needs microseconds; a stopped one never answers.
const GUARDIAN_FIRST: Duration = Duration::from_millis(100);
/// How often the wrapper checks what is left of the work, and kills it.
const KILL_EVERY: Duration = Duration::from_millis(100);

/// The wrapper ends the work itself when the guardian is dead or stopped.
struct Fallback<'a> {
    plan: &'a Plan,
    channel: Channel,
    due: Option<Instant>,
    asked: bool,
}

impl Fallback<'_> {
    async fn due(&self) {
        match self.due {
            Some(at) => sleep_until(at).await,
            None => pending().await,
        }
    }

    /// The guardian has sent the signal. The wrapper kills when the guardian does, which may be stopped or dead by then.
    fn leave_the_signal(&mut self) {
        let kill = alarm_in(self.plan.kill_in(self.channel.lease_ends_in()));
        let known = self.due.filter(|_| self.asked);
        self.due = Some(known.map_or(kill, |due| due.min(kill)));
        self.asked = true;
    }

    fn act(&mut self, work: &mut impl Work) {
        let pause = if self.asked {
            work.kill();
            KILL_EVERY
        } else {
            work.terminate(self.plan.signal);
            self.plan.kill_in(self.channel.lease_ends_in())
        };
        self.asked = true;
        self.due = Some(alarm_in(pause));
    }

    /// Ends the processes that the work left behind, and completes when none is left. To be called before the work is
    /// reaped: until then the number of its group is its own.
    async fn end_the_rest(&mut self, work: &mut impl Work) {
        let mut due = self.due.unwrap_or_else(|| alarm_in(Duration::ZERO));
        while !work.is_gone() {
            if due <= alarm_in(Duration::ZERO) {
                self.act(work);
                due = self.due.unwrap_or(due);
            }
            sleep_until(due.min(alarm_in(KILL_EVERY))).await;
        }
    }
}

/// The guardian's own messages. Made before the job starts: without it the wrapper would not notice a dead guardian.
pub(crate) struct GuardianNotices {
    channel: Channel,
    readable: AsyncFd<OwnedFd>,
}

impl GuardianNotices {
    pub(crate) fn listen(channel: Channel) -> io::Result<GuardianNotices> {
        let readable = watch_readable(channel.as_fd().try_clone_to_owned()?)?;
        Ok(GuardianNotices { channel, readable })
    }

    async fn notice(&self) -> io::Result<Notice> {
        loop {
            let mut ready = self.readable.readable().await?;
            match self.channel.notice() {
                Some(notice) => return Ok(notice),
                None => ready.clear_ready(),
            }
        }
    }

    async fn gone(&self) {
        while !matches!(self.notice().await, Ok(Notice::Gone) | Err(_)) {}
    }
}
