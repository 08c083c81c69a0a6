//! `leaselock run NAME -- COMMAND`

use leaselock::{Lease, Lost, LostReason, Protocol};
use serde_json::json;

use super::acquire::{Obtained, mutex, obtain};
use crate::args::Globals;
use crate::args::run::{RunArgs, RunPlan};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::guardian::Guardian;
use crate::job::{CannotStart, Job, Order};
use crate::process::SignalSet;
use crate::procfs::Status;
use crate::session::Locks;
use crate::signals::{Intake, Signals};
use crate::supervise::{Ears, Outcome, Trouble, supervise};
use crate::{environment, output, session, signal_name};

/// Guardian first, while there is one thread; then the lock; then the job.
pub(crate) fn run(args: &RunArgs, globals: &Globals) -> Result<Exit, Failure> {
    let plan = args
        .plan(globals.longest())
        .map_err(|wrong| Failure::new(wrong, Exit::USAGE))?;
    let name = args.lock.like.name(&args.name, globals)?;
    let client = session::client_that_runs(globals, &plan.program)?;
    let mut lock = mutex(&client, &args.name, &args.lock, globals);
    if args.protocol != Protocol::Native {
        lock = lock.protocol(args.protocol);
    }
    if let Some(longest) = args.max_hold {
        lock = lock.max_hold(longest);
    }
    let lock = lock.checked()?;
    let status = Status::read()?;
    let guardian = Guardian::start(&status, plan.guardian).map_err(|error| {
        Failure::new(format!("cannot start the guardian: {error}"), Exit::SYSTEM)
    })?;
    let signals = Signals::block(&status)?;
    let mask = signals.mask_before();
    session::block_on(async {
        let intake = signals.listen()?;
        match obtain(&client, lock, &args.wait, globals, &intake).await {
            Ok(Obtained::Lease(lease)) => {
                let scene = Scene {
                    args,
                    name: &name,
                    globals,
                    plan: &plan,
                    client: &client,
                    intake: &intake,
                };
                scene.hold(lease, guardian, mask).await
            }
            Ok(Obtained::Ended(exit)) => {
                guardian.retire();
                Ok(exit)
            }
            Err(failure) => {
                guardian.retire();
                Err(failure)
            }
        }
    })
}

struct Scene<'a> {
    args: &'a RunArgs,
    /// As leaselock knows it.
    name: &'a str,
    globals: &'a Globals,
    plan: &'a RunPlan,
    client: &'a Locks,
    intake: &'a Intake,
}

impl Scene<'_> {
    async fn hold(
        &self,
        lease: Lease,
        guardian: Guardian,
        mask: SignalSet,
    ) -> Result<Exit, Failure> {
        if let Err(failure) = self.make_whole(&lease).await {
            guardian.retire();
            lease.release().await.ok();
            self.client.close().await;
            return Err(failure);
        }
        let ears = match Ears::listen(guardian.line()) {
            Ok(ears) => ears,
            Err(error) => {
                guardian.retire();
                lease.release().await.ok();
                return Err(self.not_started(&CannotStart::System(error)));
            }
        };
        let line = guardian.line();
        lease.on_deadline(move |deadline| line.deadline(deadline.as_nanos()));
        let job = match self.start(&lease, &guardian, mask) {
            Ok(job) => job,
            Err(reason) => {
                guardian.retire();
                lease.release().await.ok();
                return Err(self.not_started(&reason));
            }
        };
        let losing = lease.lost();
        let lost = lease.lost();
        let tell = |trouble| self.tell(trouble, losing.check().err());
        let lost = async { drop(lost.await) };
        let (outcome, leaving) = supervise(
            job,
            guardian,
            ears,
            &self.plan.guardian,
            self.intake,
            lost,
            tell,
        )
        .await?;
        let released = lease.release().await;
        self.client.close().await;
        if let Some(guardian) = leaving {
            guardian.wait(); // it has ended meanwhile
        }
        match outcome {
            Outcome::Ended(status) => {
                if let Err(error) = released {
                    self.say("not-released", &format!("the job has ended, but {error}"));
                }
                Ok(Exit::of_job(status))
            }
            Outcome::Lost(_) => Ok(Exit::LOST),
            Outcome::Unguarded(_) => Ok(Exit::INTERNAL),
        }
    }

    /// A lease that was handed over is short until its first renewal, but the job's last moments are counted back from
    /// the end of a whole one. What the answer of an ordinary grant cost is no reason to ask again.
    async fn make_whole(&self, lease: &Lease) -> Result<(), Failure> {
        let ttl = lease.ttl();
        if lease.remaining() < ttl * 9 / 10 {
            lease.extend(ttl).await?;
        }
        Ok(())
    }

    /// With `-o` the guardian keeps the lock's descriptor, so that the lock is not free before the
    /// job is dead; otherwise the job has it.
    fn start(
        &self,
        lease: &Lease,
        guardian: &Guardian,
        mask: SignalSet,
    ) -> Result<Job, CannotStart> {
        let mut session = self.client.session_descriptor();
        if self.args.close
            && let Some(descriptor) = session.take()
        {
            guardian
                .line()
                .keep(descriptor)
                .map_err(CannotStart::System)?;
        }
        let order = Order {
            program: &self.plan.program,
            arguments: &self.plan.arguments,
            name: self.name,
            fence: lease.fence().map(leaselock::Fence::get),
            ttl: self.plan.guardian.ttl,
            session,
            withhold_url: environment::withholds_url(self.args.keep_url),
            limited: self.args.max_hold.is_some(),
        };
        Job::start(&order, guardian.line(), mask)
    }

    fn not_started(&self, reason: &CannotStart) -> Failure {
        let program = self.plan.program.to_string_lossy();
        let text = match reason {
            CannotStart::NotFound => format!("{program}: not found"),
            CannotStart::CannotExecute(error) => format!("{program}: {error}"),
            CannotStart::TooLate => {
                "the lease was about to end, so the job was not started".to_owned()
            }
            CannotStart::Unguarded => {
                "the guardian does not answer, so the job was not started".to_owned()
            }
            CannotStart::System(error) => format!("cannot start a process: {error}"),
        };
        Failure::new(text, reason.exit())
    }

    fn tell(&self, trouble: Trouble, lost: Option<Lost>) {
        let name = self.name;
        let signal = signal_name::name(self.plan.guardian.signal);
        let (event, text) = match trouble {
            Trouble::Lost => {
                let why = lost.map_or(LostReason::OutOfTouch, |lost| lost.reason);
                (
                    "lost",
                    format!(
                        "lost `{name}`: {why}; the job gets SIG{signal} and, if need be, SIGKILL"
                    ),
                )
            }
            Trouble::NotRenewed => (
                "lost",
                format!(
                    "`{name}` could not be renewed in time; the job is ended before its lease is"
                ),
            ),
            Trouble::Unguarded => (
                "unguarded",
                "the guardian died; the job is ended".to_owned(),
            ),
        };
        self.say(event, &text);
    }

    /// Said even with `-q`: it is an error.
    fn say(&self, event: &str, text: &str) {
        let text = output::tame(text);
        if self.globals.json {
            output::say(&output::json(
                &json!({ "event": event, "name": self.name, "text": text }),
            ));
        } else {
            output::say(&format!("leaselock: {text}\n"));
        }
    }
}
