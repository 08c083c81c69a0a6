//! `leaselock once KEY -- COMMAND`

use leaselock::{AnyClient, OnceError, OnceStart};

use super::job_lock::{JobLock, start_guardian};
use crate::args::Globals;
use crate::args::once::OnceArgs;
use crate::boottime::End;
use crate::capture::Capture;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::guardian::Guardian;
use crate::held::Held;
use crate::process::SignalSet;
use crate::session::Purpose;
use crate::supervise::Outcome;
use crate::{output, session};

/// Guardian first, as in `run`; then the result, or the run; then the job.
pub(crate) fn run(args: &OnceArgs, globals: &Globals) -> Result<Exit, Failure> {
    let usage = |wrong| Failure::new(wrong, Exit::USAGE);
    args.check().map_err(usage)?;
    let plan = args.run.plan(globals.longest()).map_err(usage)?;
    let why = "once: several servers do not agree on a result";
    let client = session::one_store(globals, Purpose::Job(&plan.program), why)?;
    let once = args.once(&client, globals.longest()).validate()?;
    let client = AnyClient::from(client);
    let (guardian, signals) = start_guardian(&plan)?;
    let mask = signals.mask_before();
    session::block_on(async {
        let signals = signals.listen()?;
        let names = [args.run.name.clone()];
        let lock = JobLock::new(&args.run, globals, &plan, &client, &signals, &names, false);
        let begun = tokio::select! {
            biased;
            begun = once.begin() => begun,
            signal = signals.ending() => {
                guardian.retire();
                let limit = session::request_timeout(plan.guardian.ttl);
                session::close_within(&client, limit).await;
                return Ok(Exit::by_signal(signal?));
            }
        };
        let run = match begun {
            Ok(OnceStart::Run(run)) => run,
            Ok(OnceStart::Done(result)) => {
                guardian.retire();
                client.close().await;
                return replay(&result.value);
            }
            Err(error) => {
                guardian.retire();
                client.close().await;
                return ended(&error, args, globals);
            }
        };
        let held = Held::Once(run);
        lock.progress.acquired(&held);
        hold(args, globals, &lock, held, guardian, mask).await
    })
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
    let output = capture.end().await;
    let exit = match (outcome, held) {
        (Outcome::Ended(status), Held::Once(run)) => {
            let exit = Exit::of_job(status);
            let outcome = match exit == Exit::OK || args.keep_failures {
                true => Ok(record(exit, output)),
                false => Err(code_text(exit)),
            };
            let stored = run.finish(outcome).await;
            lock.progress.released();
            match stored {
                Ok(_) | Err(OnceError::Failed { ran_here: true, .. }) => Ok(exit),
                Err(error) => ended(&error, args, globals),
            }
        }
        (Outcome::Unguarded(_), _) => Ok(Exit::INTERNAL),
        _ => Ok(Exit::LOST),
    };
    let limit = session::request_timeout(lock.plan.guardian.ttl);
    session::close_within(lock.client, limit).await;
    if let Some(guardian) = leaving {
        guardian.wait(); // it has ended by now
    }
    exit
}

fn code_text(exit: Exit) -> String {
    format!("exit {}", exit.code())
}

/// What is stored: a line with the exit code, and the output behind it; without one, `not-kept` in the line.
fn record(exit: Exit, output: Option<Vec<u8>>) -> Vec<u8> {
    let code = code_text(exit);
    match output {
        Some(output) => [code.as_bytes(), b"\n", &output].concat(),
        None => format!("{code} not-kept\n").into_bytes(),
    }
}

/// Reads a record; `None` for the output when it was not kept. The result of a program that uses the library is all
/// output.
fn read(record: &[u8]) -> (Exit, Option<&[u8]>) {
    let whole = (Exit::OK, Some(record));
    let Some(at) = record.iter().position(|byte| *byte == b'\n') else {
        return whole;
    };
    let Ok(line) = std::str::from_utf8(&record[..at]) else {
        return whole;
    };
    let (line, is_kept) = match line.strip_suffix(" not-kept") {
        Some(line) => (line, false),
        None => (line, true),
    };
    match code(line) {
        Some(exit) => (exit, is_kept.then(|| &record[at + 1..])),
        None => whole,
    }
}

fn code(text: &str) -> Option<Exit> {
    let code = text.strip_prefix("exit ")?.parse().ok()?;
    Some(Exit::chosen(code))
}

/// Prints the output of an earlier run, and exits as it did.
fn replay(value: &[u8]) -> Result<Exit, Failure> {
    let (exit, kept) = read(value);
    match kept {
        Some(kept) => output::print(kept)?,
        None => {
            let why = "it was longer than 1 MiB, or was not read to its end";
            output::say(&format!(
                "leaselock: the output of the run was not kept: {why}\n"
            ));
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
        OnceError::Acquire(leaselock::AcquireError::StillBusy { .. }) if globals.quiet => {
            Some(busy)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_other_results_are_output() {
        for (code, output) in [(0, &b""[..]), (3, b"a\nb\xff\0"), (255, b"exit 9\n")] {
            let exit = Exit::chosen(code);
            let written = record(exit, Some(output.to_vec()));
            assert_eq!(read(&written), (exit, Some(output)));
            assert_eq!(read(&record(exit, None)), (exit, None));
        }
        for other in [&b"receipt 7"[..], b"exit 300\n", b"exit\n", b"", b"\xff\n"] {
            assert_eq!(read(other), (Exit::OK, Some(other)));
        }
    }
}
