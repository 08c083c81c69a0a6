//! `leaselock once KEY --show` and `--forget`

use std::time::{Duration, SystemTime};

use leaselock::Fence;
use leaselock::once::{Once, OnceResult, OnceState};
use leaselock::satellite::rounded;
use serde_json::{Value, json};

use super::once_record::read;
use crate::args::Globals;
use crate::args::once::OnceArgs;
use crate::exit::Exit;
use crate::failure::{Failure, after_a_crash};
use crate::session::Purpose;
use crate::{output, session, show};

/// Prints what became of the latest run.
pub(crate) fn show(args: &OnceArgs, globals: &Globals) -> Result<Exit, Failure> {
    let once = open(args, globals)?;
    session::block_on(async {
        let name = &args.run.name;
        let state = once.state().await.map_err(failure)?;
        let text = match globals.json {
            true => output::json(&json_of(name, &state)),
            false => format!("{}: {}\n", output::sanitized(name), text(name, &state)),
        };
        output::print(text.as_bytes())?;
        Ok(Exit::OK)
    })
}

/// Forgets the latest run, so that the next caller runs the command.
pub(crate) fn forget(args: &OnceArgs, globals: &Globals) -> Result<Exit, Failure> {
    let once = open(args, globals)?;
    session::block_on(async {
        let name = &args.run.name;
        let is_forgotten = once.forget().await.map_err(failure)?;
        if globals.json {
            let object = json!({ "name": name, "forgotten": is_forgotten });
            output::print(output::json(&object).as_bytes())?;
        } else if !globals.quiet {
            let what = match is_forgotten {
                true => "the latest run is forgotten; the next caller runs",
                false => "no run is known",
            };
            output::say(&format!(
                "leaselock: `{}`: {what}\n",
                output::sanitized(name)
            ));
        }
        Ok(Exit::OK)
    })
}

fn open(args: &OnceArgs, globals: &Globals) -> Result<Once, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "once")?;
    Ok(client.once(&args.run.name).validate()?)
}

fn failure(error: leaselock::once::OnceError) -> Failure {
    Failure::once(&error, Exit::BUSY)
}

fn text(name: &str, state: &OnceState) -> String {
    let run = |attempt: u32, fence: Fence| format!("run {attempt}, fence {fence}");
    match state {
        OnceState::Absent => "no run is known".to_owned(),
        OnceState::Running { fence, attempt } => format!("running: {}", run(*attempt, *fence)),
        OnceState::Done(result) => {
            let (exit, bytes) = ended(result);
            let output = match bytes {
                Some(bytes) => format!("{bytes} bytes of output"),
                None => "its output was not kept".to_owned(),
            };
            let run = run(result.attempt, result.fence);
            format!("done: {run}, exit {}, {output}", exit.code())
        }
        OnceState::Failed {
            fence,
            attempt,
            message,
            retry_in,
        } => {
            let next = match retry_in {
                None => "kept, so no other begins".to_owned(),
                Some(Duration::ZERO) => "another may begin".to_owned(),
                Some(rest) => format!("another may begin in {}", rounded(*rest)),
            };
            let (run, message) = (run(*attempt, *fence), output::sanitized(message));
            format!("failed: {run}, {message}; {next}")
        }
        OnceState::Crashed { fence, attempt } => {
            let (run, began) = (run(*attempt, *fence), show::age(began(*fence)));
            let next = after_a_crash(name);
            let known = "whether its work was done is not known";
            format!(
                "crashed: {run}, began {} ago; {known}: {next}",
                show::whole(began)
            )
        }
        other => format!("{other:?}"), // the library knows more than we do
    }
}

/// A fencing token is about the microseconds of the store's clock when the run began.
fn began(fence: Fence) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(fence.get())
}

fn json_of(name: &str, state: &OnceState) -> Value {
    let of = |word: &str, fence: Fence, attempt: u32| json!({ "name": name, "state": word, "fence": fence, "attempt": attempt });
    match state {
        OnceState::Absent => json!({ "name": name, "state": "absent" }),
        OnceState::Running { fence, attempt } => of("running", *fence, *attempt),
        OnceState::Done(result) => {
            let (exit, bytes) = ended(result);
            let mut object = of("done", result.fence, result.attempt);
            object["exit"] = exit.code().into();
            object["output_bytes"] = bytes.into();
            object
        }
        OnceState::Failed {
            fence,
            attempt,
            message,
            retry_in,
        } => {
            let mut object = of("failed", *fence, *attempt);
            object["message"] = message.as_str().into();
            object["retry_in_ms"] = retry_in.map(show::ms).into();
            object
        }
        OnceState::Crashed { fence, attempt } => of("crashed", *fence, *attempt),
        other => json!({ "name": name, "state": format!("{other:?}") }),
    }
}

/// The exit code of the run, and how much output is kept.
fn ended(result: &OnceResult) -> (Exit, Option<usize>) {
    let (exit, output) = read(&result.value);
    (exit, output.map(<[u8]>::len))
}
