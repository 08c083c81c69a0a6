//! The lock of a job: what `run`, `elect`, `once` and `cron` do between the grant and the release.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leaselock::interop::Protocol;
use leaselock::{Client, LeaseError, ReleaseError};
use rustix::thread::set_name;
use serde_json::Value;
use tokio::time::timeout_at;

use crate::args::Globals;
use crate::args::run::{RunArgs, RunPlan};
use crate::boottime::{End, ends_in};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::guardian::{Guardian, Plan};
use crate::held::Held;
use crate::job::{CannotStart, Job, JobSpec};
use crate::loss::{self, Loss};
use crate::owner::JobOwner;
use crate::process::SignalSet;
use crate::procfs::Status;
use crate::progress::Progress;
use crate::signals::{SignalStream, Signals};
use crate::supervise::{GuardianNotices, Outcome, StopReason, supervise};
use crate::textfile::Textfile;
use crate::{boottime, environment, event, output, session};

/// Forks the guardian and blocks the signals, while there is one thread.
pub(super) fn start_guardian(plan: Plan) -> Result<(Guardian, Signals), Failure> {
    let status = Status::read()?;
    // What became itself again is called `exe`. The guardian gives itself a name of its own.
    set_name(c"leaselock").map_err(io::Error::from)?;
    let guardian = Guardian::start(&status, plan).map_err(|error| {
        Failure::new(format!("cannot start the guardian: {error}"), Exit::SYSTEM)
    })?;
    Ok((guardian, Signals::block(&status)?))
}

/// Releases the lock and retries in the background, but within this limit: if the store does not reply by then, the lease expires at its ttl. There is no error when no answer came in time. `tell` is called when it is
/// released.
pub(super) async fn release(
    client: &Client,
    lease: Held,
    limit: Duration,
    tell: impl FnOnce(),
) -> Result<(), Vec<ReleaseError>> {
    let until = boottime::alarm_in(limit);
    let is_over = |error: &ReleaseError| matches!(error, ReleaseError::NotHeld(_));
    let mut errors = match timeout_at(until, lease.release()).await {
        Ok(Ok(())) => {
            tell();
            client.close().await;
            return Ok(());
        }
        Ok(Err(errors)) if errors.iter().all(is_over) => {
            session::close_within(client, limit).await;
            return Err(errors);
        }
        Ok(Err(errors)) => errors,
        Err(_) => Vec::new(),
    };
    match timeout_at(until, client.close()).await {
        Ok(closed) if closed.unconfirmed == 0 => errors.retain(is_over),
        _ => return Err(errors),
    }
    if errors.is_empty() {
        tell();
        Ok(())
    } else {
        Err(errors)
    }
}

/// A lease that was handed over is short until its first renewal, but the guardian's plan needs a whole one. The
/// time that the answer of a plain grant took is no reason for another request.
pub(super) async fn ensure_whole(lease: &Held) -> Result<(), Failure> {
    let ttl = lease.ttl();
    if lease.remaining() >= ttl * 9 / 10 {
        return Ok(());
    }
    match lease.extend(ttl).await {
        Err(LeaseError::Invalid(_)) => Ok(()), // its protocol renews nothing, and hands nothing over
        extended => Ok(extended?),
    }
}

/// The lease ends where `--max-hold` ends it. That counts from before the request was sent.
pub(super) fn hold_is_over(max_hold: Option<Duration>, held_since: u64, end: &End) -> bool {
    /// A loss that comes so shortly before the end of `--max-hold` is that end.
    const SENT_BEFORE: Duration = Duration::from_secs(5);
    let hold = max_hold.map(boottime::nanoseconds);
    hold.is_some_and(|hold| {
        let until = held_since.saturating_add(hold);
        end.load(Ordering::SeqCst) + boottime::nanoseconds(SENT_BEFORE) >= until
    })
}

/// What a job's lock needs, before and while it is held.
pub(super) struct JobLock<'a> {
    args: &'a RunArgs,
    pub(super) globals: &'a Globals,
    pub(super) plan: &'a RunPlan,
    pub(super) client: &'a Client,
    pub(super) signals: &'a SignalStream,
    /// The first name, as leaselock knows it.
    pub(super) name: &'a str,
    /// True if the lock is a leadership, whose fence is a term.
    leads: bool,
    pub(super) progress: Progress,
    pub(super) owner: JobOwner,
    pub(super) textfile: Textfile<'a>,
}

impl<'a> JobLock<'a> {
    /// `names` are those of the lock, as leaselock knows them.
    pub(super) fn new(
        args: &'a RunArgs,
        globals: &'a Globals,
        plan: &'a RunPlan,
        client: &'a Client,
        signals: &'a SignalStream,
        names: &'a [String],
        leads: bool,
    ) -> Self {
        let name = names.first().map_or("", String::as_str);
        let queued = session::has_queue(globals) && args.effective_protocol() == Protocol::Native;
        JobLock {
            args,
            globals,
            plan,
            client,
            signals,
            name,
            leads,
            progress: Progress::of(names, queued, globals),
            owner: JobOwner::new(client, "run", name),
            textfile: Textfile::of(args, globals),
        }
    }
}

impl JobLock<'_> {
    /// The exit code, and whether the lease was lost.
    pub(super) async fn hold(
        &self,
        lease: Held,
        guardian: Guardian,
        mask: SignalSet,
    ) -> Result<(Exit, bool), Failure> {
        let end = End::default();
        let supervised = self.supervised(&lease, guardian, mask, &end, None);
        let (outcome, leaving) = match supervised.await {
            Ok(supervised) => supervised,
            Err(failure) => {
                self.release(lease).await.ok();
                return Err(failure);
            }
        };
        let view = lease.view();
        let released = self.release(lease).await;
        if let Some(guardian) = leaving {
            guardian.wait(); // it has ended by now
        }
        match outcome {
            Outcome::Ended(status) => {
                let Err(errors) = released else {
                    return Ok((Exit::of_job(status), false));
                };
                // A reply that comes before the deadline says that the lock was another's, or free, while the job ran.
                let is_early = ends_in(&end) > Duration::ZERO;
                let is_lost = |error: &ReleaseError| matches!(error, ReleaseError::NotHeld(_));
                self.tell_not_released(&errors, &end);
                match is_early && errors.iter().any(is_lost) {
                    true => Ok((Exit::LOST, true)),
                    false => Ok((Exit::of_job(status), false)),
                }
            }
            Outcome::Lost(_) => {
                if let Some(entry) = event::breaker(&view).await {
                    self.say_with("broken", &entry.to_string(), event::broken(&entry));
                }
                Ok((Exit::LOST, true))
            }
            Outcome::Unguarded(_) => Ok((Exit::INTERNAL, false)),
        }
    }

    /// Runs the job to its end; `output` is its standard output, if that is not ours. After a failure the job does not run.
    pub(super) async fn supervised(
        &self,
        lease: &Held,
        guardian: Guardian,
        mask: SignalSet,
        end: &End,
        output: Option<OwnedFd>,
    ) -> Result<(Outcome, Option<Guardian>), Failure> {
        self.textfile.granted(lease);
        if let Err(failure) = ensure_whole(lease).await {
            guardian.retire();
            return Err(failure);
        }
        let notices = match GuardianNotices::listen(guardian.channel()) {
            Ok(notices) => notices,
            Err(error) => {
                guardian.retire();
                return Err(self.not_started(&CannotStart::System(error)));
            }
        };
        let (channel, latest) = (guardian.channel(), Arc::clone(end));
        lease.on_deadline(move |deadline| {
            latest.store(deadline.as_nanos(), Ordering::SeqCst);
            channel.deadline(deadline.as_nanos());
        });
        let job = match self.start(lease, &guardian, mask, output) {
            Ok(job) => job,
            Err(reason) => {
                guardian.retire();
                return Err(self.not_started(&reason));
            }
        };
        self.textfile.job_began();
        let losing = lease.lost();
        let tell = |reason, obeys| self.tell(reason, obeys, lease, end);
        let lost = async { drop(losing.await) };
        let supervised = supervise(
            job,
            guardian,
            notices,
            &self.plan.guardian,
            self.signals,
            lost,
            tell,
        );
        let ended = supervised.await;
        self.textfile.job_ended();
        Ok(ended?)
    }

    /// As [`release`], within one request timeout.
    pub(super) async fn release(&self, lease: Held) -> Result<(), Vec<ReleaseError>> {
        let limit = session::request_timeout(lease.ttl());
        release(self.client, lease, limit, || self.progress.released()).await
    }

    /// One line for each name, or one for all when no answer came.
    fn tell_not_released(&self, errors: &[ReleaseError], end: &End) {
        let in_folder = self.client.session_descriptor().is_some();
        let none = errors.is_empty().then_some(None);
        for error in errors.iter().map(Some).chain(none) {
            let (over, store) = ("job finished", self.client.store());
            let text = loss::not_released(over, &store, error, ends_in(end), in_folder);
            self.say("not-released", &text);
        }
    }

    /// With `-o` the guardian keeps the lock's descriptor, so that the lock is not free before the
    /// job is dead; otherwise the job has it.
    fn start(
        &self,
        lease: &Held,
        guardian: &Guardian,
        mask: SignalSet,
        output: Option<OwnedFd>,
    ) -> Result<Job, CannotStart> {
        let mut session = self.client.session_descriptor();
        if self.args.close
            && let Some(descriptor) = session.take()
        {
            guardian
                .channel()
                .keep(descriptor)
                .map_err(CannotStart::from_keep)?;
        }
        let spec = JobSpec {
            program: &self.plan.program,
            arguments: &self.plan.arguments,
            name: self.name,
            fence: lease.fence(),
            fences: lease.fences(),
            sequencers: lease.sequencers(),
            leads: self.leads,
            tick: lease.tick(),
            ttl: self.plan.guardian.ttl,
            session,
            output,
            owner: self.owner.to_inherit(),
            withhold_url: environment::withholds_url(self.args.keep_url),
            limited: self.args.max_hold.is_some(),
        };
        Job::start(&spec, guardian.channel(), mask)
    }

    fn not_started(&self, reason: &CannotStart) -> Failure {
        let program = self.plan.program.to_string_lossy();
        let text = match reason {
            CannotStart::NotFound if program.is_empty() => {
                "the command is an empty word, as of a variable that is not set; say what to run"
                    .to_owned()
            }
            CannotStart::NotFound => format!("{program}: not found"),
            CannotStart::CannotExecute(error) => format!("{program}: {error}"),
            CannotStart::TooLate => {
                "the lease was about to end, so the job was not started".to_owned()
            }
            CannotStart::Unguarded => {
                "the guardian does not reply, so the job was not started".to_owned()
            }
            CannotStart::System(error) => format!("cannot start a process: {error}"),
        };
        Failure::new(text, reason.exit())
    }

    fn tell(&self, reason: StopReason, obeys: bool, lease: &Held, end: &End) {
        let store = &self.client.store();
        let loss = match (reason, lease.loss()) {
            (StopReason::Unguarded, _) => {
                return self.say(
                    "unguarded",
                    "the guardian process was killed: the job is ended, exit 70",
                );
            }
            (StopReason::Lost, Some(lost)) => Loss::of(store, &lost),
            (StopReason::Lost | StopReason::NotRenewed, _) => {
                Loss::near(store, &lease.first_to_end())
            }
        };
        let loss = loss
            .by_longest_hold(hold_is_over(
                self.args.max_hold,
                self.progress.held_since(),
                end,
            ))
            .without_renewal(self.args.is_never_renewed());
        let measure = match obeys {
            true => loss::measure(&self.plan.guardian, "the job", ends_in(end)),
            false => "the job is another user's and cannot be ended: it may work on".to_owned(),
        };
        let left = match reason {
            StopReason::Lost => Duration::ZERO,
            _ => ends_in(end),
        };
        let text = format!("{}; {measure}", loss.in_words());
        self.say_with("lost", &text, loss.facts(lease.fence(), left));
    }

    /// Printed even with `-q`: it is an error.
    pub(super) fn say(&self, event: &str, text: &str) {
        self.say_with(event, text, Value::Null);
    }

    fn say_with(&self, event: &str, text: &str, facts: Value) {
        // Without waiting long for a reader: while the job is watched, its end must come in time.
        if self.globals.json {
            output::report(&event::line(event, self.name, text, facts));
        } else {
            output::report(&format!("leaselock: {}\n", output::sanitized(text)));
        }
    }
}
