//! `leaselock break NAME`

use std::io::{BufRead as _, IsTerminal as _};

use leaselock::inspect::{BreakOptions, BreakOutcome, Holder, Holding, LockMode};
use leaselock::satellite::{rounded, user};
use leaselock::{Client, Fence};
use serde_json::json;

use crate::args::Globals;
use crate::args::elect::host_name;
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
        let mut terms = BreakOptions::default().by(operator());
        if args.now {
            terms = terms.now();
        }
        if args.foreign {
            terms = terms.foreign();
        }
        let mut asked = None;
        match args.fence {
            Some(fence) => terms = terms.only(Fence::new(fence)),
            None if args.yes => {}
            None => match confirm(&client, &name, args).await? {
                Answer::Break(Some(fence), why) => (terms, asked) = (terms.only(fence), why),
                Answer::Break(None, why) => asked = why,
                Answer::Leave => return Err(Failure::new("nothing was broken", Exit::LOST)),
            },
        }
        if let Some(why) = args.why.clone().or(asked) {
            terms = terms.because(why);
        }
        let broken = client.break_lease(&name, terms).await?;
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
            output::say(&format!("leaselock: {}\n", in_words(&name, &broken)));
        }
        Ok(Exit::OK)
    })
}

/// From whom a lock was taken, and when it is free.
pub(super) fn in_words(name: &str, broken: &BreakOutcome) -> String {
    let fence = broken
        .fence
        .map(|fence| format!(", fence {fence}"))
        .unwrap_or_default();
    let (who, has, works) = match broken.count {
        1 => (
            show::who(broken.process.as_ref()),
            "its holder has",
            "it may work",
        ),
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
    let name = output::sanitized(name);
    format!("`{name}` was taken from {who}{fence}; {what_next}")
}

/// The token of the grant that a break takes away; `None` where each of several holders has one of its own.
pub(super) fn fence(state: &Holding) -> Option<Fence> {
    let of_permits = |one: &&Holder| matches!(one.mode, LockMode::Permits(_));
    let first = show::first_holder(state).filter(|one| !of_permits(one));
    first.and_then(|one| one.fence)
}

enum Answer {
    /// Break this grant and no later one, if it has a fence, for this reason.
    Break(Option<Fence>, Option<String>),
    Leave,
}

/// Shows who would be hit, and asks.
async fn confirm(client: &Client, name: &str, args: &BreakArgs) -> Result<Answer, Failure> {
    let seen = client.inspect(name).await?;
    let from = match &seen.state {
        Holding::Held { count: 1, .. } => String::new(),
        Holding::Held { count, .. } => format!(" from all {count}"),
        // One that comes now is not the one that was looked at.
        Holding::Free => return Err(Failure::new(format!("`{name}` is not held"), Exit::LOST)),
        _ => return Ok(Answer::Break(None, None)), // the library says what is there instead
    };
    let (fence, text) = (fence(&seen.state), show::text(&seen));
    if !std::io::stdin().is_terminal() {
        let exactly = fence.map_or("--yes".to_owned(), |fence| format!("--fence {fence}"));
        let held = text.trim_end();
        let text = format!("no terminal to ask on; {held}; to break this grant give {exactly}");
        return Err(Failure::new(text, Exit::USAGE));
    }
    output::say(&format!("{text}Take it away{from}? [y/N] "));
    if !matches!(answer()?.as_str(), "y" | "Y" | "yes") {
        return Ok(Answer::Leave);
    }
    let mut why = None;
    if args.why.is_none() {
        output::say("Why, for the holder and the log? ");
        why = Some(answer()?).filter(|why| !why.is_empty());
    }
    Ok(Answer::Break(fence, why))
}

fn answer() -> std::io::Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// The user of this process on this host, as far as the environment says.
pub(super) fn operator() -> String {
    let user = user(&["SUDO_USER", "LOGNAME", "USER"]);
    format!("{user}@{}", host_name())
}
