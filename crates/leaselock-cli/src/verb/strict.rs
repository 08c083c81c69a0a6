//! `leaselock strict init`, `leaselock strict status`

use std::time::Duration;

use leaselock::satellite::{rounded, span};
use leaselock::strict::StrictStatus;
use serde_json::json;

use crate::args::Globals;
use crate::args::strict::{InitArgs, Step, StrictArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{output, session, show};

pub(crate) fn run(args: &StrictArgs, globals: &Globals) -> Result<Exit, Failure> {
    match &args.step {
        Step::Init(args) => init(args, globals),
        Step::Status(_) => status(globals),
    }
}

fn init(args: &InitArgs, globals: &Globals) -> Result<Exit, Failure> {
    let Some(longest) = args.longest.or(globals.strict) else {
        let text =
            "name the longest ttl that any client will ask for, as in `strict init --longest 1m`";
        return Err(Failure::new(text, Exit::USAGE));
    };
    if globals.strict.is_some_and(|strict| strict != longest) {
        let text = "--longest and --strict (or LEASELOCK_STRICT) name two lengths: name one";
        return Err(Failure::new(text, Exit::USAGE));
    }
    let client = session::client_in_strict_mode(globals, longest)?;
    session::block_on(async {
        client.init_strict().await?;
        say(&client.strict_status().await?, globals)
    })
}

fn status(globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "strict")?;
    session::block_on(async { say(&client.strict_status().await?, globals) })
}

fn say(status: &StrictStatus, globals: &Globals) -> Result<Exit, Failure> {
    let text = if globals.json {
        output::json(&object(status))
    } else {
        words(status, globals.strict.is_some()) + "\n"
    };
    output::print(text.as_bytes())?;
    Ok(Exit::OK)
}

/// `is_in_use`: this client is in strict mode.
fn words(status: &StrictStatus, is_in_use: bool) -> String {
    let begins = "the first to ask for a lock begins a quarantine";
    match status {
        StrictStatus::Missing if !is_in_use => {
            "strict mode is not in use here, or the server lost its data: with --strict, \
             a restarted server grants no lock until all old leases have ended"
                .to_owned()
        }
        StrictStatus::Missing => format!("not set up, or the server lost its data: {begins}"),
        StrictStatus::Moved { longest } => format!(
            "another server process replies than before: {begins}; leases of at most {}",
            span(*longest)
        ),
        StrictStatus::Quarantined { remaining, longest } => format!(
            "no locks are granted for another {}; leases of at most {}",
            rounded(*remaining),
            span(*longest)
        ),
        StrictStatus::Open { longest } => {
            format!("locks are granted; leases of at most {}", span(*longest))
        }
        _ => "in a state that this version does not know".to_owned(),
    }
}

fn object(status: &StrictStatus) -> serde_json::Value {
    let (state, remaining, longest) = match status {
        StrictStatus::Missing => ("missing", None, None),
        StrictStatus::Moved { longest } => ("moved", None, Some(*longest)),
        StrictStatus::Quarantined { remaining, longest } => {
            ("quarantined", Some(*remaining), Some(*longest))
        }
        StrictStatus::Open { longest } => ("open", None, Some(*longest)),
        _ => ("unknown", None, None),
    };
    let ms = |time: Option<Duration>| time.map(show::ms);
    json!({ "strict": state, "remaining_ms": ms(remaining), "longest_ms": ms(longest) })
}
