//! `leaselock doctor`

use leaselock::{Check, Fit};
use serde_json::json;

use crate::args::Globals;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{output, session};

/// Everything that was looked at, and 1 when something is not fit for locks.
pub(crate) fn run(globals: &Globals) -> Result<Exit, Failure> {
    let client = session::client(globals)?;
    session::block_on(async {
        let report = client.doctor().await?;
        let text = if globals.json {
            report
                .checks
                .iter()
                .map(|check| format!("{}\n", object(&report.store, check)))
                .collect()
        } else {
            let width = report
                .checks
                .iter()
                .map(|check| check.topic.len())
                .max()
                .unwrap_or(0);
            let lines = report.checks.iter().map(|check| line(check, width));
            format!(
                "{}\n{}",
                output::tame(&report.store),
                lines.collect::<String>()
            )
        };
        output::print(text.as_bytes())?;
        Ok(if report.is_fit() {
            Exit::OK
        } else {
            Exit::UNFIT
        })
    })
}

fn word(fit: Fit) -> &'static str {
    match fit {
        Fit::Fit => "fit",
        Fit::Warn => "warn",
        Fit::Unfit => "UNFIT",
    }
}

fn line(check: &Check, width: usize) -> String {
    let found = output::tame(&check.found);
    let advice = check
        .advice
        .as_deref()
        .map(|advice| format!("\n       {:width$}  {advice}", ""));
    format!(
        "{:5}  {:width$}  {found}{}\n",
        word(check.fit),
        check.topic,
        advice.unwrap_or_default()
    )
}

fn object(store: &str, check: &Check) -> serde_json::Value {
    json!({
        "store": store,
        "topic": check.topic,
        "found": check.found,
        "fit": word(check.fit).to_lowercase(),
        "advice": check.advice,
    })
}
