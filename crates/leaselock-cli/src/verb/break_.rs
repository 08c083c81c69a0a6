//! `leaselock break NAME`

use std::io::{BufRead as _, IsTerminal as _};

use leaselock::inspect::{BreakOptions, Holding};
use leaselock::{AnyClient, Fence};
use serde_json::json;

use crate::args::Globals;
use crate::args::inspect::BreakArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{output, session, show};

/// Takes the lock away, from the holder that the operator has seen.
pub(crate) fn run(args: &BreakArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::client(globals)?;
    let name = args.like.name(&args.name, globals)?;
    session::block_on(async {
        let mut terms = BreakOptions::default().foreign(args.foreign);
        match args.fence {
            Some(fence) => terms = terms.only(Fence::new(fence)),
            None if args.yes => {}
            None => match confirm(&client, &name).await? {
                Answer::Break(Some(fence)) => terms = terms.only(fence),
                Answer::Break(None) => {}
                Answer::Leave => return Err(Failure::new("nothing was broken", Exit::LOST)),
            },
        }
        let broken = client.break_lease(&name, terms).await?;
        let who = show::who(broken.process.as_ref(), broken.client.as_deref());
        if globals.json {
            let object = json!({
                "name": name,
                "broken": {
                    "client": broken.client,
                    "process": broken.process.as_ref().map(show::process_json),
                    "fence": broken.fence.map(Fence::get),
                },
            });
            output::print(output::json(&object).as_bytes())?;
        } else if !globals.quiet {
            let fence = broken
                .fence
                .map(|fence| format!(", fence {fence}"))
                .unwrap_or_default();
            output::say(&format!(
                "leaselock: `{}` was taken from {who}{fence}; it may work on until its next renewal\n",
                output::sanitized(&name)
            ));
        }
        Ok(Exit::OK)
    })
}

enum Answer {
    /// Break this grant and no later one, if it has a fence.
    Break(Option<Fence>),
    Leave,
}

/// Shows who would be hit, and asks.
async fn confirm(client: &AnyClient, name: &str) -> Result<Answer, Failure> {
    if !std::io::stdin().is_terminal() {
        let text =
            "no terminal to ask on: give --fence N to break the grant that status shows, or --yes";
        return Err(Failure::new(text, Exit::USAGE));
    }
    let seen = client.inspect(name).await?;
    let Holding::Held(holder) = &seen.state else {
        return Ok(Answer::Break(None)); // the library says what is there instead
    };
    output::say(&format!("{}Take it away? [y/N] ", show::text(&seen)));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(match line.trim() {
        "y" | "Y" | "yes" => Answer::Break(holder.fence),
        _ => Answer::Leave,
    })
}
