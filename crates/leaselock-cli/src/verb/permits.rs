//! `leaselock permits NAME [set N | unset]`

use leaselock::inspect::{Holding, Inspection};

use crate::args::Globals;
use crate::args::permits::{PermitsArgs, Step};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{output, session, show};

/// Shows the permits of a name; before that, says how many there are when that was asked for.
pub(crate) fn run(args: &PermitsArgs, globals: &Globals) -> Result<Exit, Failure> {
    let step = args
        .step()
        .map_err(|wrong| Failure::new(wrong, Exit::USAGE))?;
    let client = session::one_store(globals, Purpose::Operator, "permits")?;
    session::block_on(async {
        match step {
            Step::Show => {}
            Step::Set(permits) => {
                let pool = client.semaphore(args.name(), permits);
                pool.set_permits(permits).await?;
            }
            Step::Unset => {
                client.semaphore(args.name(), 1).unset_permits().await?;
            }
        }
        let seen = client.inspect(args.name()).await?;
        let text = match globals.json {
            true => output::json(&show::json(&seen)),
            false => text(&seen),
        };
        output::print(text.as_bytes())?;
        Ok(Exit::OK)
    })
}

fn text(seen: &Inspection) -> String {
    if !matches!(seen.state, Holding::Free) && !show::of_permits(seen) {
        let permits = seen.permits.as_ref();
        let permits = permits.map(|permits| format!("  {}\n", show::permits(permits)));
        return show::text(seen) + &permits.unwrap_or_default();
    }
    let name = output::sanitized(&seen.name);
    let first = match &seen.permits {
        None => {
            format!("{name}: no permits are known; `run --permits N` says how many there are\n")
        }
        Some(permits) => format!("{name}: {}\n", show::permits(permits)),
    };
    first + &show::holders(seen) + &show::waiters(seen)
}
