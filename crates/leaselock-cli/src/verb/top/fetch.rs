//! The one place that asks the store.

use std::time::Duration;

use leaselock::inspect::{BreakOptions, Inspection};
use leaselock::satellite::operator;
use leaselock::{Client, Fence};

use crate::boottime;
use crate::failure::Failure;
use crate::verb::broken_before::BrokenBefore;
use crate::verb::{break_, doctor, log};

/// What is to be broken, as it was on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) grants: Vec<Fence>,
}

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// To be broken before anything is read, and why.
    pub(super) breaking: Option<(Target, String)>,
    pub(super) locks: bool,
    pub(super) events: bool,
    /// What `doctor` says.
    pub(super) report: bool,
}

/// What was found of it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// What came of a break.
    pub(super) said: Option<String>,
    /// All that are held, and how long the store took to list them.
    pub(super) locks: Option<(Vec<Inspection>, Duration)>,
    /// Lines; the newest is the last.
    pub(super) events: Option<Vec<String>>,
    pub(super) report: Option<Vec<String>>,
    /// Why the rest is missing.
    pub(super) trouble: Option<Failure>,
}

/// Asks the store for all of it.
pub(super) async fn fetch(client: &Client, pattern: &str, wish: Wish) -> Seen {
    let mut seen = Seen::default();
    if let Some((target, why)) = &wish.breaking {
        seen.said = Some(broken(client, target, why).await);
    }
    let reading = async {
        if wish.locks {
            let before = boottime::now();
            let locks = client.list(pattern).await?;
            let took = Duration::from_nanos(boottime::now().saturating_sub(before));
            seen.locks = Some((locks, took));
        }
        if wish.events {
            let entries = client.log(Duration::MAX).await?;
            let lines = entries.iter().map(log::line);
            seen.events = Some(lines.collect::<Result<_, _>>()?);
        }
        if wish.report {
            let text = doctor::words(&client.doctor().await?);
            seen.report = Some(text.lines().map(str::to_owned).collect());
        }
        Ok::<_, Failure>(())
    };
    let trouble = reading.await.err();
    Seen { trouble, ..seen }
}

async fn broken(client: &Client, target: &Target, why: &str) -> String {
    let mut terms = BreakOptions::default().by(operator());
    if !why.is_empty() {
        terms = terms.because(why);
    }
    let before = BrokenBefore::find(client, &target.name, &terms, &target.grants).await;
    if let Some(before) = before {
        return before.in_words(&target.name);
    }
    match break_::take(client, &target.name, &terms, &target.grants).await {
        Ok(taken) => {
            let text = break_::in_words(&target.name, &taken);
            taken
                .failed
                .map_or(text.clone(), |failure| format!("{text}; {failure}"))
        }
        Err(error) => Failure::from(error).to_string(),
    }
}
