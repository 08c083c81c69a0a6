//! `leaselock break NAME`

use std::io::{BufRead as _, IsTerminal as _};

use leaselock::inspect::{BreakOptions, Holder, Holding, LockMode};
use leaselock::satellite::rounded;
use leaselock::{Client, Fence};
use serde_json::json;

use crate::args::Globals;
use crate::args::inspect::BreakArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{output, session, show};

/// Takes the lock away, from the holder that the operator has seen.
pub(crate) fn run(args: &BreakArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::client(globals, Purpose::Operator)?;
    let name = args.like.name(&args.name, globals)?;
    session::block_on(async {
        let mut terms = BreakOptions::default();
        if args.now {
            terms = terms.now();
        }
        if args.foreign {
            terms = terms.foreign();
        }
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
        let who = show::who(broken.process.as_ref());
        if globals.json {
            let object = json!({
                "name": name,
                "broken": {
                    "client": show::client(broken.process.as_ref()),
                    "process": show::process_json(broken.process.as_ref()),
                    "fence": broken.fence,
                    "holders": broken.count,
                    "remaining_ms": broken.remaining.map(show::ms),
                },
            });
            output::print(output::json(&object).as_bytes())?;
        } else if !globals.quiet {
            let fence = broken
                .fence
                .map(|fence| format!(", fence {fence}"))
                .unwrap_or_default();
            let (who, has, works) = match broken.count {
                1 => (who, "its holder has", "it may work"),
                count => (format!("all {count} holders"), "they have", "each may work"),
            };
            let what_next = match broken.remaining {
                Some(rest) => format!(
                    "it is free when {has} released it, in {} at the latest",
                    rounded(rest)
                ),
                None if broken.process.is_none() => {
                    format!("{works} on and never notice, because another lock library has it")
                }
                None => format!("{works} on until its next renewal"),
            };
            let name = output::sanitized(&name);
            output::say(&format!(
                "leaselock: `{name}` was taken from {who}{fence}; {what_next}\n"
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
async fn confirm(client: &Client, name: &str) -> Result<Answer, Failure> {
    let seen = client.inspect(name).await?;
    let (fence, from) = match &seen.state {
        Holding::Held { holders, count, .. } => {
            // Each holder of permits has a fencing token of its own.
            let of_permits = |one: &&Holder| matches!(one.mode, LockMode::Permits(_));
            let first = holders.first().filter(|one| !of_permits(one));
            let from = match count {
                1 => String::new(),
                count => format!(" from all {count}"),
            };
            (first.and_then(|one| one.fence), from)
        }
        _ => return Ok(Answer::Break(None)), // the library says what is there instead
    };
    let text = show::text(&seen);
    if !std::io::stdin().is_terminal() {
        let exactly = fence.map_or("--yes".to_owned(), |fence| format!("--fence {fence}"));
        let held = text.trim_end();
        let text = format!("no terminal to ask on; {held}; to break this grant give {exactly}");
        return Err(Failure::new(text, Exit::USAGE));
    }
    output::say(&format!("{text}Take it away{from}? [y/N] "));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(match line.trim() {
        "y" | "Y" | "yes" => Answer::Break(fence),
        _ => Answer::Leave,
    })
}
