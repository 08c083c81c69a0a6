//! `leaselock once KEY -- COMMAND`

use std::sync::atomic::Ordering;
use std::time::Duration;

use leaselock::once::{Once, OnceError, OnceStart};
use tokio::time::sleep;

use super::job_lock::{JobLock, start_guardian};
use super::once_record::{code, code_text, read, record};
use super::once_show;
use crate::ancestors::Ancestors;
use crate::args::Globals;
use crate::args::once::OnceArgs;
use crate::boottime::End;
use crate::capture::Capture;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::first_contact::FirstContact;
use crate::guardian::Guardian;
use crate::held::Held;
use crate::look::Look;
use crate::process::SignalSet;
use crate::progress::Progress;
use crate::session::Purpose;
use crate::supervise::Outcome;
use crate::waiting_message::WaitState;
use crate::{output, session};

/// How long a run that was told to end waits for the reader of its output.
const READER_LIMIT: Duration = Duration::from_secs(1);

/// Guardian first, as in `run`; then the result, or the run; then the job.
pub(crate) fn run(args: &OnceArgs, globals: &Globals) -> Result<Exit, Failure> {
    if args.show {
        return once_show::show(args, globals);
    }
    if args.forget {
        return once_show::forget(args, globals);
    }
    let usage = |wrong| Failure::new(wrong, Exit::USAGE);
    args.check().map_err(usage)?;
    let plan = args.run.plan(globals.longest()).map_err(usage)?;
    let client = session::one_store(globals, Purpose::Job("once", &plan.program), "once")?;
    let state = WaitState::default();
    let told = state.clone();
    let once = args.once(&client, globals.longest());
    let once = once.on_wait(move |waiting| told.tell(waiting)).validate()?;
    let ancestors = Ancestors::of_this_process();
    let (guardian, signals) = start_guardian(plan.guardian)?;
    let mask = signals.mask_before();
    session::block_on(async {
        let signals = signals.listen()?;
        let names = [args.run.name.clone()];
        let mut lock = JobLock::new(&args.run, globals, &plan, &client, &signals, &names, false);
        lock.progress = Progress::of(&names, false, globals); // callers wait in no queue
        let exit = result(args, &lock, once, &state, ancestors, guardian, mask).await;
        let code = exit.as_ref().map(|exit| *exit);
        lock.textfile
            .run_ended(code.unwrap_or_else(|failure| failure.exit));
        exit
    })
}

/// Replays the result of an earlier run, or runs the job.
async fn result(
    args: &OnceArgs,
    lock: &JobLock<'_>,
    once: Once,
    state: &WaitState,
    ancestors: Ancestors,
    guardian: Guardian,
    mask: SignalSet,
) -> Result<Exit, Failure> {
    let (client, names) = (lock.client, [args.run.name.clone()]);
    let look = Look::native(client);
    let limit = session::request_timeout(lock.plan.guardian.ttl);
    let contact = FirstContact::begin(args.run.wait.policy());
    let begin = async |policy| once.clone().wait(policy).begin().await;
    let begun = tokio::select! {
        biased;
        begun = contact.ask(begin, |_| {}) => begun,
        signal = lock.signals.ending() => {
            guardian.retire();
            session::close_within(client, limit).await;
            let signal = signal?;
            lock.progress.gave_up_at(signal);
            return Ok(Exit::by_signal(signal));
        }
        failure = ancestors.holds(&look, &names, true, args.run.wait.busy()), if !args.run.wait.nonblock => {
            guardian.retire();
            session::close_within(client, limit).await;
            return Err(failure);
        }
        () = lock.progress.follow(state, &look) => unreachable!("it never ends"),
    };
    let run = match begun {
        Ok(OnceStart::Run(run)) => run,
        Ok(OnceStart::Done(result)) => {
            guardian.retire();
            client.close().await;
            lock.progress.replayed(result.fence);
            return replay(&result.value, lock);
        }
        Err(error) => {
            guardian.retire();
            client.close().await;
            let ended = ended(&error, args, lock.globals);
            return ended.map_err(|failure| contact.failed(&error, failure));
        }
    };
    let held = Held::Once(run);
    lock.progress.acquired(&held);
    hold(args, lock.globals, lock, held, guardian, mask).await
}

/// Runs the job, and stores what it came to. A job that was not started is no attempt.
async fn hold(
    args: &OnceArgs,
    globals: &Globals,
    lock: &JobLock<'_>,
    held: Held,
    guardian: Guardian,
    mask: SignalSet,
) -> Result<Exit, Failure> {
    let (capture, job_output) = match Capture::start() {
        Ok(started) => started,
        Err(error) => {
            guardian.retire();
            lock.release(held).await.ok();
            return Err(error.into());
        }
    };
    let end = End::default();
    let supervised = lock.supervised(&held, guardian, mask, &end, Some(job_output));
    let (outcome, leaving) = match supervised.await {
        Ok(supervised) => supervised,
        Err(failure) => {
            lock.release(held).await.ok();
            return Err(failure);
        }
    };
    let is_to_end = lock.signals.has_been_asked_to_end();
    let written = capture.written();
    let cut = || {
        tell_of_cut(lock, written.load(Ordering::Relaxed));
        None
    };
    // The reader of our output may never come back.
    let stalls = async {
        if !is_to_end {
            lock.signals.ending().await?;
        }
        sleep(READER_LIMIT).await;
        std::io::Result::Ok(())
    };
    let output = tokio::select! {
        output = capture.end() => output,
        stalled = stalls => stalled.map(|()| cut()),
    };
    if let Err(error) = &output {
        tell_of_lost_output(args, error, globals);
    }
    let exit = match (outcome, held) {
        (Outcome::Ended(status), Held::Once(run)) => {
            let exit = Exit::of_job(status);
            if args.has_crashed(exit) {
                drop(run); // gives the name back without a result
                lock.progress.released();
                tell_of_crash(args, exit, globals);
                return leave(lock, leaving, Ok(exit)).await;
            }
            let exit = if output.is_ok() { exit } else { Exit::OUTPUT };
            let outcome = match exit == Exit::OK || args.keep_failures {
                true => Ok(record(exit, output.unwrap_or_default())),
                false => Err(code_text(exit).into()),
            };
            let stored = run.finish(outcome).await;
            lock.progress.released();
            match stored {
                Ok(_)
                | Err(OnceError::Failed {
                    source: Some(_), ..
                }) => Ok(exit),
                Err(error) => ended(&error, args, globals),
            }
        }
        (Outcome::Unguarded(_), _) => Ok(Exit::INTERNAL),
        _ => Ok(Exit::LOST),
    };
    leave(lock, leaving, exit).await
}

async fn leave(
    lock: &JobLock<'_>,
    guardian: Option<Guardian>,
    exit: Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let limit = session::request_timeout(lock.plan.guardian.ttl);
    session::close_within(lock.client, limit).await;
    if let Some(guardian) = guardian {
        guardian.wait(); // it has ended by now
    }
    exit
}

fn tell_of_crash(args: &OnceArgs, exit: Exit, globals: &Globals) {
    if !globals.quiet {
        let text = format!(
            "`{}`: a signal ended the command, so the run has crashed, and no other begins",
            args.run.name
        );
        Failure::new(text, exit).say(globals.json);
    }
}

/// Said even with `-q`. The reader may have a part of what is being written, too.
fn tell_of_cut(lock: &JobLock<'_>, written: u64) {
    let name = lock.name;
    let text = format!(
        "`{name}`: its output is cut, because a signal came and the reader stalls; it was given at least {written} bytes"
    );
    lock.say("output-cut", &text);
}

/// Said even with `-q`: callers must not take the run for a success.
fn tell_of_lost_output(args: &OnceArgs, error: &std::io::Error, globals: &Globals) {
    let name = &args.run.name;
    let text = format!(
        "`{name}`: the run is no success, because its output could not be written: {error}"
    );
    Failure::new(text, Exit::OUTPUT).say(globals.json);
}

/// Prints the output of an earlier run, and exits as it did.
fn replay(value: &[u8], lock: &JobLock<'_>) -> Result<Exit, Failure> {
    let (exit, kept) = read(value);
    match kept {
        Some(kept) => output::print(kept)?,
        None if lock.globals.quiet => {}
        None => {
            let why = "it was longer than 1 MiB less 64 bytes, or was not read to its end";
            let text = format!("the output of the run was not kept: {why}");
            lock.say("output-not-kept", &text);
        }
    }
    Ok(exit)
}

/// A caller that waited for a run which failed exits as that did.
fn ended(error: &OnceError, args: &OnceArgs, globals: &Globals) -> Result<Exit, Failure> {
    let busy = args.run.wait.busy();
    let failure = Failure::once(error, busy);
    let theirs = match error {
        OnceError::Failed { message, .. } => code(message),
        OnceError::Acquire(leaselock::AcquireError::TimedOut { .. }) if globals.quiet => Some(busy),
        _ => return Err(failure),
    };
    let Some(exit) = theirs else {
        return Err(failure);
    };
    if !globals.quiet {
        failure.say(globals.json);
    }
    Ok(exit)
}
