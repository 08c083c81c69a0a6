//! `leaselock run NAME -- COMMAND`

use leaselock::Client;

use super::acquire::{Obtained, Wanted, obtain};
use super::job_lock::{JobLock, start_guardian};
use super::request::{self, Request};
use crate::args::Globals;
use crate::args::run::{RunArgs, RunPlan};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::process::SignalSet;
use crate::session::{self, Purpose};

/// Guardian first, while there is one thread; then the lock; then the job.
pub(crate) fn run(args: &RunArgs, globals: &Globals) -> Result<Exit, Failure> {
    run_as(args, globals, None)?.exit
}

/// What became of the job.
pub(crate) struct Ended {
    pub(crate) exit: Result<Exit, Failure>,
    /// True if the lease was lost, and no signal has asked for an end.
    pub(crate) is_lost: bool,
    /// The signals that were blocked at the start.
    pub(crate) mask: SignalSet,
}

/// The same as a leader, whose followers read `value`; `None` for a lock without followers.
pub(crate) fn run_as(
    args: &RunArgs,
    globals: &Globals,
    value: Option<&str>,
) -> Result<Ended, Failure> {
    let plan = args
        .plan(globals.longest())
        .map_err(|wrong| Failure::new(wrong, Exit::USAGE))?;
    let names = args.lock.like.names(&args.name, &args.also, globals)?;
    let (client, mut request) = client_and_request(args, &plan, globals, value)?;
    if let Some(longest) = args.max_hold {
        request = request.max_hold(longest);
    }
    let request = request.validate()?;
    let (guardian, signals) = start_guardian(plan.guardian)?;
    let mask = signals.mask_before();
    session::block_on(async {
        let signals = signals.listen()?;
        let leads = value.is_some();
        let lock = JobLock::new(args, globals, &plan, &client, &signals, &names, leads);
        let wanted = Wanted {
            request,
            names: &names,
            owner: Some(&lock.owner),
            protocol: args.effective_protocol(),
        };
        let obtained = obtain(
            &client,
            wanted,
            &args.wait,
            globals,
            &signals,
            &lock.progress,
        );
        let ended = match obtained.await {
            Ok(Obtained::Lease(lease)) => {
                lock.progress.acquired(&lease);
                lock.hold(lease, guardian, mask).await
            }
            Ok(Obtained::Ended(exit)) => {
                guardian.retire();
                Ok((exit, false))
            }
            Err(failure) => {
                guardian.retire();
                Err(failure)
            }
        };
        let (exit, is_lost) = match ended {
            Ok((exit, is_lost)) => (Ok(exit), is_lost),
            Err(failure) => (Err(failure), false),
        };
        let code = exit.as_ref().map(|exit| *exit);
        lock.textfile
            .run_ended(code.unwrap_or_else(|failure| failure.exit));
        Ok(Ended {
            exit,
            is_lost: is_lost && !signals.has_been_asked_to_end(),
            mask,
        })
    })
}

fn client_and_request(
    args: &RunArgs,
    plan: &RunPlan,
    globals: &Globals,
    value: Option<&str>,
) -> Result<(Client, Request), Failure> {
    let verb = value.map_or("run", |_| "elect");
    let (name, lock, purpose) = (&args.name, &args.lock, Purpose::Job(verb, &plan.program));
    if let Some(value) = value {
        return request::open_leadership(name, value, lock, globals, purpose, "elect");
    }
    let (client, request) = request::open(name, plan.mode, lock, globals, purpose)?;
    Ok((
        client,
        request.protocol(args.protocol).along_with(&args.also),
    ))
}
