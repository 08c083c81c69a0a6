//! `leaselock doctor`

use leaselock::report::{Finding, Guarantee, Report, Verdict};
use serde_json::{Value, json};

use crate::args::Globals;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::Purpose;
use crate::{output, session};

/// Prints every check, and exits 1 when something is not fit for locks.
pub(crate) fn run(globals: &Globals) -> Result<Exit, Failure> {
    let client = session::client(globals, Purpose::Operator)?;
    session::block_on(async {
        let report = client.doctor().await?;
        let text = if globals.json {
            objects(&report)
        } else {
            words(&report)
        };
        output::print(text.as_bytes())?;
        Ok(if report.is_fit() {
            Exit::OK
        } else {
            Exit::UNFIT
        })
    })
}

/// The store and each of its servers, with the checks made there.
fn parts(report: &Report) -> impl Iterator<Item = (&str, &[Finding])> {
    let nodes = report.nodes.iter();
    let nodes = nodes.map(|node| (node.store.as_str(), node.findings.as_slice()));
    std::iter::once((report.store.as_str(), report.findings.as_slice())).chain(nodes)
}

/// The same as text; each check and promise is a line, and so is an advice.
pub(super) fn words(report: &Report) -> String {
    let topics = parts(report).flat_map(|(_, checks)| checks);
    let width = topics.map(|check| check.topic.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (store, checks) in parts(report) {
        let lines: String = checks.iter().map(|check| line(check, width)).collect();
        let gap = if text.is_empty() { "" } else { "\n" };
        text += &format!("{gap}{}\n{lines}", output::sanitized(store));
    }
    for (kept, heading) in [
        (Some(true), "This can promise:"),
        (Some(false), "This cannot prevent:"),
        (None, "This could not be found out:"),
    ] {
        let sentences = report
            .guarantees
            .iter()
            .filter(|promise| promise.kept == kept);
        let lines: String = sentences.map(sentence).collect();
        if !lines.is_empty() {
            text += &format!("\n{heading}\n{lines}");
        }
    }
    text
}

fn objects(report: &Report) -> String {
    let checks = parts(report)
        .flat_map(|(store, checks)| checks.iter().map(move |check| object(store, json!(check))));
    let promises = report.guarantees.iter();
    let promises = promises.map(|promise| object(&report.store, json!(promise)));
    checks
        .chain(promises)
        .map(|object| output::json(&object))
        .collect()
}

fn word(fit: Verdict) -> &'static str {
    match fit {
        Verdict::Fit => "fit",
        Verdict::Warn => "warn",
        _ => "UNFIT",
    }
}

fn line(check: &Finding, width: usize) -> String {
    let found = output::sanitized(&check.found);
    let advice = check
        .advice
        .as_deref()
        .map(|advice| format!("\n       {:width$}  {}", "", output::sanitized(advice)));
    format!(
        "{:5}  {:width$}  {found}{}\n",
        word(check.verdict),
        check.topic,
        advice.unwrap_or_default()
    )
}

fn sentence(promise: &Guarantee) -> String {
    format!("  - {}\n", output::sanitized(&promise.text))
}

fn object(store: &str, mut told: Value) -> Value {
    told["store"] = store.into();
    told
}
