//! `leaselock break NAME`

use std::io::{BufRead as _, IsTerminal as _};

use leaselock::error::BreakError;
use leaselock::inspect::{BreakOptions, BreakOutcome, Holding};
use leaselock::interop::Protocol;
use leaselock::satellite::{operator, rounded};
use leaselock::{Client, Fence};
use serde_json::Value;

use super::broken_before::{BrokenBefore, BrokenHolders};
use crate::args::Globals;
use crate::args::inspect::BreakArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::look::{Look, Seen};
use crate::session::Purpose;
use crate::{output, session, show};

/// Takes the lock away, from the holder that the operator has seen.
pub(crate) fn run(args: &BreakArgs, globals: &Globals) -> Result<Exit, Failure> {
    let client = session::client(globals, Purpose::Operator)?;
    let name = args.key(&client, globals)?;
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
        if let Some(before) = BrokenBefore::find(&client, &name, &terms, &grants).await {
            tell(before.json(&name), before.in_words(&name), globals)?;
            return Ok(Exit::OK);
        }
        let taken = take(&client, &name, &terms, &grants).await?;
        tell(
            object(&name, &taken.broken),
            in_words(&name, &taken),
            globals,
        )?;
        taken.failed.map_or(Ok(Exit::OK), Err)
    })
}

fn tell(object: Value, text: String, globals: &Globals) -> Result<(), Failure> {
    if globals.json {
        output::print(output::json(&object).as_bytes())?;
    } else if !globals.quiet {
        output::say(&format!("leaselock: {text}\n"));
    }
    Ok(())
}

fn object(name: &str, broken: &BreakOutcome) -> Value {
    let broken = BrokenHolders {
        first: broken.process.as_ref(),
        fence: broken.fence,
        count: broken.count,
        remaining: broken.remaining,
        lasts_with_job: broken.lasts_with_job,
    };
    broken.json(name, &Value::Null)
}

/// What was taken away.
#[derive(Debug)]
pub(super) struct Taken {
    /// All grants that were broken, as if by one break.
    pub(super) broken: BreakOutcome,
    /// Why the others that were to be broken were not, or why that is unknown.
    pub(super) failed: Option<Failure>,
}

/// From whom a lock was taken, and when it is free.
pub(super) fn in_words(name: &str, taken: &Taken) -> String {
    let broken = &taken.broken;
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
        count => {
            let all = taken.failed.as_ref().map_or("all ", |_| "");
            let who = format!("{all}{count} holders");
            (who, "they have", "each may work")
        }
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

/// Takes these grants away and no other one, or with none of them the lock from its holders.
pub(super) async fn take(
    client: &Client,
    name: &str,
    terms: &BreakOptions,
    grants: &[Fence],
) -> Result<Taken, BreakError> {
    let only = async |fence| {
        let mut terms = terms.clone();
        terms.only_fence = fence;
        client.break_lease(name, terms).await
    };
    one_by_one(grants, only).await
}

/// Breaks each of these grants that is still there, until an error tells that no further one can be broken.
async fn one_by_one(
    grants: &[Fence],
    only: impl AsyncFn(Option<Fence>) -> Result<BreakOutcome, BreakError>,
) -> Result<Taken, BreakError> {
    let mut grants_left = grants.iter();
    let mut taken = only(grants_left.next().copied()).await;
    for fence in grants_left {
        if taken.as_ref().is_err_and(|error| !has_left(error)) {
            break;
        }
        match (&mut taken, only(Some(*fence)).await) {
            (Ok(all), Ok(one)) => {
                all.count += one.count;
                all.remaining = all.remaining.max(one.remaining);
                all.lasts_with_job |= one.lasts_with_job;
                all.fence = None;
            }
            (Ok(_), Err(error)) if has_left(&error) => {}
            (Ok(all), Err(error)) => {
                let failed = Failure::from(error).after_a_part(all.count, grants.len());
                return Ok(Taken {
                    broken: all.clone(),
                    failed: Some(failed),
                });
            }
            (Err(_), next) => taken = next,
        }
    }
    Ok(Taken {
        broken: taken?,
        failed: None,
    })
}

/// True if that holder has left by itself.
fn has_left(error: &BreakError) -> bool {
    matches!(
        error,
        BreakError::Mismatch { .. } | BreakError::NotHeld { .. }
    )
}

enum Answer {
    /// Break these grants and no later one, if they have fences, for this reason.
    Break(Vec<Fence>, Option<String>),
    Leave,
}

/// Shows who would be hit, and asks.
async fn confirm(client: &Client, name: &str, args: &BreakArgs) -> Result<Answer, Failure> {
    let theirs = args.effective_protocol() != Protocol::Native;
    let look = Look::at(client, theirs.then(|| args.mutex(client)));
    // One that comes now is not the one that was shown.
    let free = || Err(Failure::new(format!("`{name}` is not held"), Exit::LOST));
    let (grants, from, text) = match look.see(name).await? {
        Seen::Theirs(None) => return free(),
        Seen::Theirs(Some(holder)) => {
            let text = show::text_of_others(name, Some(&holder));
            (holder.fence.into_iter().collect(), String::new(), text)
        }
        Seen::Ours(seen) => {
            let from = match &seen.state {
                Holding::Held { count: 1, .. } => String::new(),
                Holding::Held { count, .. } => format!(" from all {count}"),
                Holding::Free => return free(),
                _ => {
                    args.mutex(client).holder().await?; // an error that says what lies there instead
                    return Ok(Answer::Leave);
                }
            };
            (grants(&seen.state), from, show::text(&seen))
        }
    };
    if !std::io::stdin().is_terminal() {
        let exactly = match &grants[..] {
            [fence] => format!("to break this grant give --fence {fence}"),
            [] => "to break it give --yes".to_owned(),
            _ => "to break one grant give --fence N, to take it from all give --yes".to_owned(),
        };
        // A long queue is cut off at its end.
        let held = text.trim_end().replace("\n  ", "; ");
        let text = format!("no terminal to ask on; {exactly}; {held}");
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
        let broken = broken.broken;
        assert_eq!((broken.count, broken.fence), (1, stays.fence()));
        assert!(stays.release().await.is_err());
        let again = take(&client, "pool", &terms, &seen).await.unwrap_err();
        assert!(matches!(again, BreakError::Mismatch { .. }), "{again}");
        comes.release().await.unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_error_ends_a_break_of_several_and_hides_none_that_was_broken_before() {
        let client = Client::open("mem:").unwrap();
        let pool = client.semaphore("pool", 2);
        let take_one = async || pool.try_acquire().await.unwrap().unwrap();
        let leases = [take_one().await, take_one().await];
        let [fine, fails] = [0, 1].map(|at| leases[at].fence().unwrap());
        let only = async |fence| {
            let mut terms = BreakOptions::default().now();
            terms.only_fence = fence;
            // Memory has no locks of that protocol.
            let terms = match fence == Some(fails) {
                true => terms.protocol(Protocol::Redisson),
                false => terms,
            };
            client.break_lease("pool", terms).await
        };
        one_by_one(&[fails, fine], only).await.unwrap_err();
        assert_eq!(
            grants(&client.inspect("pool").await.unwrap().state).len(),
            2
        );
        let taken = one_by_one(&[fine, fails], only).await.unwrap();
        assert_eq!((taken.broken.count, taken.broken.fence), (1, Some(fine)));
        let failed = taken.failed.unwrap();
        assert_eq!(failed.exit, Exit::USAGE);
        let text = failed.to_string();
        assert!(
            text.ends_with("; 1 of the 2 holders had been broken before"),
            "{text}"
        );
    }
}
