//! `leaselock break NAME`

use std::io::{BufRead as _, IsTerminal as _};

use leaselock::error::BreakError;
use leaselock::inspect::{BreakOptions, BreakOutcome, Holding};
use leaselock::interop::Protocol;
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
        let terms = BreakOptions::default().by(operator());
        let mut terms = terms.protocol(args.effective_protocol());
        if args.now {
            terms = terms.now();
        }
        if args.foreign {
            terms = terms.foreign();
        }
        let (mut grants, mut asked) = (Vec::new(), None);
        match args.fence {
            Some(fence) => grants.push(Fence::new(fence)),
            None if args.yes => {}
            None => match confirm(&client, &name, args).await? {
                Answer::Break(seen, why) => (grants, asked) = (seen, why),
                Answer::Leave => return Err(Failure::new("nothing was broken", Exit::LOST)),
            },
        }
        if let Some(why) = args.why.clone().or(asked) {
            terms = terms.because(why);
        }
        let broken = take(&client, &name, &terms, &grants).await?;
        if globals.json {
            let object = json!({
                "name": name,
                "broken": {
                    "client": show::client(broken.process.as_ref()),
                    "process": show::process_json(broken.process.as_ref()),
                    "fence": broken.fence,
                    "holders": broken.count,
                    "remaining_ms": broken.remaining.map(show::ms),
                    "lasts_with_job": broken.lasts_with_job,
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
        Some(_) if broken.lasts_with_job => {
            "its process is dead, and it is free when its job has ended".to_owned()
        }
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

/// The tokens of the grants that a break takes away: readers share one, each holder of permits has its own. None where a
/// holder has no token, or is not shown.
pub(super) fn grants(state: &Holding) -> Vec<Fence> {
    let Holding::Held { holders, count, .. } = state else {
        return Vec::new();
    };
    let fences: Option<Vec<Fence>> = holders.iter().map(|one| one.fence).collect();
    let mut fences = fences.unwrap_or_default();
    fences.dedup();
    let all_shown = fences.len() == 1 || holders.len() == *count;
    fences.into_iter().filter(|_| all_shown).collect()
}

/// Takes these grants away and no other one, or with none of them the lock from whoever holds it.
pub(super) async fn take(
    client: &Client,
    name: &str,
    terms: &BreakOptions,
    grants: &[Fence],
) -> Result<BreakOutcome, BreakError> {
    let Some((first, others)) = grants.split_first() else {
        return client.break_lease(name, terms.clone()).await;
    };
    let only = |fence: &Fence| client.break_lease(name, terms.clone().only(*fence));
    let mut taken = only(first).await;
    for fence in others {
        taken = match (taken, only(fence).await) {
            (Ok(mut all), Ok(one)) => {
                all.count += one.count;
                all.remaining = all.remaining.max(one.remaining);
                all.lasts_with_job |= one.lasts_with_job;
                all.fence = None;
                Ok(all)
            }
            // That holder has left by itself.
            (Ok(all), Err(BreakError::Mismatch { .. } | BreakError::NotHeld { .. })) => Ok(all),
            (Err(BreakError::Mismatch { .. } | BreakError::NotHeld { .. }), next) => next,
            (Err(error), _) | (Ok(_), Err(error)) => return Err(error),
        };
    }
    taken
}

enum Answer {
    /// Break these grants and no later one, if they have fences, for this reason.
    Break(Vec<Fence>, Option<String>),
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
        Holding::NotALock { .. } if args.effective_protocol() == Protocol::Redisson => {
            String::new()
        }
        _ => return Ok(Answer::Break(Vec::new(), None)), // the library says what is there instead
    };
    let (grants, text) = (grants(&seen.state), show::text(&seen));
    if !std::io::stdin().is_terminal() {
        let exactly = match &grants[..] {
            [fence] => format!("--fence {fence}"),
            _ => "--yes".to_owned(),
        };
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
    Ok(Answer::Break(grants, why))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn of_several_holders_of_permits_those_are_broken_that_were_seen() {
        let client = Client::open("mem:").unwrap();
        let pool = client.semaphore("pool", 3);
        let take_one = async || pool.try_acquire().await.unwrap().unwrap();
        let [leaves, stays] = [take_one().await, take_one().await];
        let seen = grants(&client.inspect("pool").await.unwrap().state);
        assert_eq!(seen.len(), 2, "each has a token of its own");
        leaves.release().await.unwrap();
        let comes = take_one().await;
        let terms = BreakOptions::default().now();
        let broken = take(&client, "pool", &terms, &seen).await.unwrap();
        assert_eq!((broken.count, broken.fence), (1, stays.fence()));
        assert!(stays.release().await.is_err());
        let again = take(&client, "pool", &terms, &seen).await.unwrap_err();
        assert!(matches!(again, BreakError::Mismatch { .. }), "{again}");
        comes.release().await.unwrap();
    }
}
