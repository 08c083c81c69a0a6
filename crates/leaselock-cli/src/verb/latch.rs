//! `leaselock latch NAME --count N`

use leaselock::latch::{Latch, LatchError, LatchState};
use serde_json::json;

use crate::args::Globals;
use crate::args::latch::LatchArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{output, session};

/// Arrives, waits, and shows the latch, as far as each was asked for.
pub(crate) fn run(args: &LatchArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::one_store(globals, Purpose::Operator, "latch")?;
    session::block_on(async {
        let latch = client.latch(&args.latch, args.count);
        if let Some(party) = &args.arrive {
            latch.arrive(party).await?;
        }
        let waited = match (args.waits(), args.within) {
            (false, _) => Ok(()),
            (true, None) => latch.wait().await,
            (true, Some(limit)) => latch.wait_within(limit).await,
        };
        match waited {
            Ok(()) => show(&latch, args, globals).await?,
            Err(error @ LatchError::TimedOut { .. }) => {
                if globals.json {
                    show(&latch, args, globals).await?;
                }
                if globals.json || globals.quiet {
                    return Ok(Exit::BUSY);
                }
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Exit::OK)
    })
}

async fn show(latch: &Latch, args: &LatchArgs, globals: &Globals) -> Result<(), Failure> {
    let state = latch.state().await?;
    let text = match globals.json {
        true => output::json(&json!({
            "name": args.latch,
            "count": args.count,
            "arrived": state.arrived,
            "left": state.left,
            "open": state.is_open(),
        })),
        false => text(&state, args),
    };
    Ok(output::print(text.as_bytes())?)
}

fn text(state: &LatchState, args: &LatchArgs) -> String {
    let name = output::sanitized(&args.latch);
    let word = if state.is_open() { "open" } else { "closed" };
    let parties: Vec<String> = state
        .arrived
        .iter()
        .map(|party| output::sanitized(party))
        .collect();
    let (arrived, count) = (parties.len(), args.count);
    let listed = match parties.is_empty() {
        true => String::new(),
        false => format!(": {}", parties.join(", ")),
    };
    format!("{name}: {word}, {arrived} of {count} arrived{listed}\n")
}
