//! `leaselock hold NAME`

use std::cell::Cell;
use std::io::{IsTerminal as _, stdout};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leaselock::interop::Protocol;
use leaselock::{Client, Lost, LostReason, ReleaseError};
use rustix::process::getppid;
use tokio::sync::Notify;

use super::acquire::{LEAVE_WITHIN, Obtained, Wanted, obtain};
use super::job_lock::{ensure_whole, release, start_guardian};
use super::request::{self, Request};
use crate::alarm::Alarm;
use crate::args::Globals;
use crate::args::hold::{HoldArgs, HoldPlan};
use crate::boottime::{self, End};
use crate::caller::{Caller, Processes};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::feed::Feed;
use crate::guardian::{Guardian, Refusal};
use crate::held::Held;
use crate::owner::JobOwner;
use crate::procfs::{self, Status};
use crate::progress::{Outlet, Progress};
use crate::session::{self, Purpose};
use crate::signals::{SignalStream, Signals};
use crate::supervise::{GuardianNotices, Outcome, StopReason, supervise};

/// How long a release may take. Longer than that of a job, because the program waits for the answer; a machine on which
/// many programs end at once needs it.
const RELEASE_WITHIN: Duration = Duration::from_secs(4);

/// The processes first, whose numbers may pass to others; then the guardian, while there is one thread; then the lock.
pub(crate) fn run(args: &HoldArgs, globals: &Globals) -> Result<Exit, Failure> {
    let processes = Processes::find(args.kill)?;
    let plan = args
        .plan(globals.longest())
        .map_err(|wrong| Failure::new(wrong, Exit::USAGE))?;
    let names = args.lock.like.names(&args.name, &args.also, globals)?;
    let (client, request) = client_and_request(args, &plan, globals)?;
    let (guardian, signals) = match args.kill {
        Some(_) => start_guardian(plan.guardian).map(|(it, signals)| (Some(it), signals))?,
        None => (None, Signals::block(&Status::read()?)?),
    };
    session::block_on(async {
        let feed = match stdout().is_terminal() && !globals.json {
            true => None,
            false => Some(Feed::start()?),
        };
        let queued = session::has_queue(globals) && args.protocol() == Protocol::Native;
        let outlet = match &feed {
            Some(feed) => Outlet::Feed(feed.clone()),
            None if globals.quiet => Outlet::Nowhere,
            None => Outlet::Lines,
        };
        let hold = Hold {
            args,
            plan: &plan,
            client: &client,
            signals: &signals.listen()?,
            progress: Progress::of(&names, queued, globals).to(outlet),
            feed,
            end: End::default(),
            renewed: Arc::default(),
            is_lost: Cell::default(),
            asked_who: Cell::default(),
        };
        let killed = processes.killed()?;
        let mut caller = Caller::listen(processes)?;
        let exit = match hold.wait(request, &names, &mut caller, globals).await {
            Ok(Obtained::Lease(lease)) => {
                let guarded = guardian.zip(killed);
                return hold.keep(lease, caller, guarded).await;
            }
            Ok(Obtained::Ended(exit)) => Ok(exit),
            Err(failure) => Err(failure),
        };
        if let Some(guardian) = guardian {
            guardian.retire();
        }
        hold.flush().ok();
        exit
    })
}

fn client_and_request(
    args: &HoldArgs,
    plan: &HoldPlan,
    globals: &Globals,
) -> Result<(Client, Request), Failure> {
    let (name, lock) = (&args.name, &args.lock);
    let program = getppid().and_then(procfs::program_name);
    let purpose = Purpose::Hold(program.as_deref().unwrap_or_default());
    let (client, mut request) = match &plan.value {
        Some(value) => request::open_leadership(name, value, lock, globals, purpose, "--lead")?,
        None => request::open(name, plan.mode, lock, globals, purpose)?,
    };
    request = request.along_with(&args.also);
    if let Some(longest) = args.max_hold {
        request = request.max_hold(longest);
    }
    Ok((client, request.validate()?))
}

pub(super) struct Hold<'a> {
    pub(super) args: &'a HoldArgs,
    pub(super) plan: &'a HoldPlan,
    pub(super) client: &'a Client,
    signals: &'a SignalStream,
    pub(super) progress: Progress,
    /// `None` on a terminal.
    pub(super) feed: Option<Feed>,
    /// When the lease ends, by its latest deadline.
    pub(super) end: End,
    /// A later deadline than that of the grant has come.
    renewed: Arc<Notify>,
    /// True if the loss was told. Nothing but who broke the lease is told after that.
    pub(super) is_lost: Cell<bool>,
    /// True if the event log has said who that was, or nothing in time.
    pub(super) asked_who: Cell<bool>,
}

impl Hold<'_> {
    /// Waits for the lock as long as the flags say, and as long as there is a program to hold it for.
    async fn wait(
        &self,
        request: Request,
        names: &[String],
        caller: &mut Caller,
        globals: &Globals,
    ) -> Result<Obtained, Failure> {
        let owner = JobOwner::new(self.client, "hold", &self.args.name);
        let wanted = Wanted {
            request,
            names,
            owner: Some(&owner),
            protocol: self.args.protocol(),
        };
        let wait = &self.args.wait;
        tokio::select! {
            biased;
            ending = caller.ending() => {
                let why = ending?.in_words();
                session::close_within(self.client, LEAVE_WITHIN).await; // leaves the queue
                self.progress.gave_up(&why);
                Ok(Obtained::Ended(wait.busy()))
            }
            obtained = obtain(self.client, wanted, wait, globals, self.signals, &self.progress) => obtained,
        }
    }

    /// Holds the lock until the caller has enough of it, or it is lost.
    async fn keep(
        &self,
        lease: Held,
        caller: Caller,
        guarded: Option<(Guardian, OwnedFd)>,
    ) -> Result<Exit, Failure> {
        let (guardian, begun) = match guarded {
            Some((guardian, process)) => {
                let notices = self.begin_guarded(&lease, &guardian, &process).await;
                (Some(guardian), notices.map(Some))
            }
            None => (None, self.begin(&lease, |_| {}).await.map(|()| None)),
        };
        let notices = match begun.and_then(|notices| self.tell_grant(&lease).map(|()| notices)) {
            Ok(notices) => notices,
            Err(failure) => {
                if let Some(guardian) = guardian {
                    guardian.retire();
                }
                release(self.client, lease, RELEASE_WITHIN, || {})
                    .await
                    .ok();
                return Err(failure);
            }
        };
        let held = match guardian.zip(notices) {
            Some((guardian, notices)) => self.guarded(&lease, caller, guardian, notices).await,
            None => self
                .alone(&lease, caller)
                .await
                .map(|outcome| (outcome, None)),
        };
        let (outcome, leaving) = match held {
            Ok(held) => held,
            Err(failure) => {
                release(self.client, lease, RELEASE_WITHIN, || {})
                    .await
                    .ok();
                return Err(failure);
            }
        };
        let view = lease.view();
        let exit = self.end(lease, outcome).await;
        self.tell_breaker(&view).await;
        if let Some(guardian) = leaving {
            guardian.wait(); // it has ended by now
        }
        self.flush().ok();
        Ok(exit)
    }

    /// The lease is a whole one, and each deadline is known from now on.
    async fn begin(
        &self,
        lease: &Held,
        deadline: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<(), Failure> {
        ensure_whole(lease).await?;
        let (end, renewed) = (Arc::clone(&self.end), Arc::clone(&self.renewed));
        lease.on_deadline(move |moment| {
            let before = end.swap(moment.as_nanos(), Ordering::SeqCst);
            deadline(moment.as_nanos());
            if before != 0 && before != moment.as_nanos() {
                renewed.notify_one();
            }
        });
        Ok(())
    }

    /// The caller is not told before the guardian watches. In a folder it keeps the lock's descriptor, so that the
    /// lock is not free before the process is dead, if this one is killed.
    async fn begin_guarded(
        &self,
        lease: &Held,
        guardian: &Guardian,
        process: &OwnedFd,
    ) -> Result<GuardianNotices, Failure> {
        let channel = guardian.channel();
        let notices = GuardianNotices::listen(guardian.channel())?;
        if let Some(descriptor) = self.client.session_descriptor() {
            channel.keep(descriptor)?;
        }
        let its = guardian.channel();
        self.begin(lease, move |deadline| its.deadline(deadline))
            .await?;
        match channel.enlist_process(process.as_fd()) {
            Ok(()) => Ok(notices),
            Err(Refusal::TooLate) => {
                let text = "the lease was about to end, so it was released";
                Err(Failure::new(text, Exit::LOST))
            }
            Err(_) => {
                let text = "the guardian does not reply, so the lock was released";
                Err(Failure::internal(text))
            }
        }
    }

    /// Nothing is ended when the lease is lost, and the caller is told in time. It keeps the lock until the deadline, unless
    /// it says that it has stopped.
    async fn alone(&self, lease: &Held, mut caller: Caller) -> Result<Outcome<()>, Failure> {
        let alarm = Alarm::new()?;
        let lost = async {
            lease.lost().await;
            self.tell_loss(StopReason::Lost, lease);
            self.tell_breaker(&lease.view()).await;
        };
        let mut lost = std::pin::pin!(lost);
        let kill_after = boottime::nanoseconds(self.plan.guardian.kill_after);
        let mut last_deadline = None;
        loop {
            let end = self.end.load(Ordering::SeqCst);
            let due = last_deadline.unwrap_or(end.saturating_sub(kill_after));
            tokio::select! {
                biased;
                ending = caller.ending() => {
                    ending?;
                    break;
                }
                signal = self.signals.ending() => {
                    signal?;
                    break;
                }
                () = &mut lost, if !self.asked_who.get() => {
                    // Until the deadline the program may be at work, and no other has what is still held.
                    if !self.is_kept(lease) {
                        break;
                    }
                    last_deadline = last_deadline.or(Some(end));
                }
                () = self.renewed.notified() => self.tell_renewal(),
                rings = alarm.rings_at(due) => {
                    rings?;
                    if last_deadline.is_some() {
                        break;
                    }
                    if end == self.end.load(Ordering::SeqCst) {
                        self.tell_loss(StopReason::NotRenewed, lease);
                        last_deadline = Some(end);
                    }
                }
            }
        }
        Ok(match self.is_lost.get() {
            true => Outcome::Lost(()),
            false => Outcome::Ended(()),
        })
    }

    /// Whether something of a lost lease is held until its deadline: that which an operator broke, or other names.
    pub(super) fn is_kept(&self, lease: &Held) -> bool {
        let is_broken = |lost: Lost| lost.reason == LostReason::Broken;
        !self.args.also.is_empty() || lease.loss().is_some_and(is_broken)
    }

    /// The guardian ends the process of `--kill` when the lease is lost.
    async fn guarded(
        &self,
        lease: &Held,
        mut caller: Caller,
        guardian: Guardian,
        notices: GuardianNotices,
    ) -> Result<(Outcome<()>, Option<Guardian>), Failure> {
        caller.leave_parent();
        let losing = lease.lost();
        let lost = async { drop(losing.await) };
        let tell = |reason, _| self.tell_loss(reason, lease);
        let (plan, signals) = (&self.plan.guardian, self.signals);
        let supervised = supervise(caller, guardian, notices, plan, signals, lost, tell);
        let renewals = async {
            loop {
                self.renewed.notified().await;
                self.tell_renewal();
            }
        };
        tokio::select! {
            biased;
            supervised = supervised => Ok(supervised?),
            () = renewals => unreachable!("it never ends"),
        }
    }

    async fn end(&self, lease: Held, outcome: Outcome<()>) -> Exit {
        if outcome != Outcome::Ended(()) {
            release(self.client, lease, RELEASE_WITHIN, || {})
                .await
                .ok(); // the loss was told
            return match outcome {
                Outcome::Unguarded(()) => Exit::INTERNAL,
                _ => Exit::LOST,
            };
        }
        let Err(errors) = release(self.client, lease, RELEASE_WITHIN, || {
            self.progress.released()
        })
        .await
        else {
            return Exit::OK;
        };
        self.tell_not_released(&errors);
        match errors
            .iter()
            .find(|error| !matches!(error, ReleaseError::NotHeld(_)))
        {
            None if !errors.is_empty() => Exit::LOST,
            error => error.map_or(Exit::UNAVAILABLE, Exit::of_release),
        }
    }
}
