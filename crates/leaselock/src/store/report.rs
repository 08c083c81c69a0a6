//! An operator's report about a store.

use std::time::Duration;

use crate::base::span::rounded;

/// Whether something is fit for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Verdict {
    /// Good for locks.
    Fit,
    /// Works, with a weakness that the advice names.
    Warn,
    /// Not fit for locks.
    Unfit,
}

/// One finding of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// What was checked, such as `eviction policy`.
    pub topic: String,
    /// What was found.
    pub found: String,
    /// Whether that is fit for locks.
    pub verdict: Verdict,
    /// What to change; `None` when nothing needs a change.
    pub advice: Option<String>,
}

impl Finding {
    pub(crate) fn new(
        topic: &str,
        found: impl Into<String>,
        verdict: Verdict,
        advice: Option<&str>,
    ) -> Self {
        Finding {
            topic: topic.to_owned(),
            found: found.into(),
            verdict,
            advice: advice.map(str::to_owned),
        }
    }

    pub(crate) fn fit(topic: &str, found: impl Into<String>) -> Self {
        Finding::new(topic, found, Verdict::Fit, None)
    }

    /// Creates a finding that is a weakness if there is advice about it.
    pub(crate) fn advised(
        topic: &str,
        found: impl Into<String>,
        advice: Option<impl AsRef<str>>,
    ) -> Self {
        match advice {
            Some(advice) => Finding::warn(topic, found, advice),
            None => Finding::fit(topic, found),
        }
    }

    pub(crate) fn warn(topic: &str, found: impl Into<String>, advice: impl AsRef<str>) -> Self {
        Finding::new(topic, found, Verdict::Warn, Some(advice.as_ref()))
    }

    pub(crate) fn unfit(topic: &str, found: impl Into<String>, advice: impl AsRef<str>) -> Self {
        Finding::new(topic, found, Verdict::Unfit, Some(advice.as_ref()))
    }
}

/// Reports how often the clock jumped, and by how much last.
pub(crate) fn clock_jumps(jumps: u64, last_ms: Option<i64>) -> Option<Finding> {
    let last_ms = last_ms?;
    let way = if last_ms < 0 { "back" } else { "forward" };
    let found = format!(
        "{jumps} seen by this client, the last by {} {way}",
        rounded(Duration::from_millis(last_ms.unsigned_abs()))
    );
    let advice = if last_ms < 0 {
        "locks that were held then outlive their holders by so much: give those back that are stuck with `leaselock \
         break`, and let NTP slew the server's clock instead of stepping it"
    } else {
        "leases that were held then ended early, and others may have got their locks: let NTP slew the server's clock \
         instead of stepping it"
    };
    Some(Finding::warn("clock jumps", found, advice))
}

/// One sentence about what the present set-up can or cannot promise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Guarantee {
    /// The sentence. Of a promise that is not kept it says what may happen instead.
    #[cfg_attr(feature = "serde", serde(rename = "guarantee"))]
    pub text: String,
    /// Whether the set-up keeps it, as far as the settings can tell; `None` when the deciding one could not be read.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "status", serialize_with = "as_status")
    )]
    pub kept: Option<bool>,
}

#[cfg(feature = "serde")]
fn as_status<S: serde::Serializer>(kept: &Option<bool>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match kept {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    })
}

impl Guarantee {
    pub(crate) fn new(kept: Option<bool>, text: impl Into<String>) -> Self {
        let text = text.into();
        Guarantee { text, kept }
    }

    pub(crate) fn kept(text: impl Into<String>) -> Self {
        Guarantee::new(Some(true), text)
    }

    pub(crate) fn broken(text: impl Into<String>) -> Self {
        Guarantee::new(Some(false), text)
    }

    pub(crate) fn unknown(text: impl Into<String>) -> Self {
        Guarantee::new(None, text)
    }
}

/// All findings about a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// The store's description, without secrets.
    pub store: String,
    /// The findings; with several servers those that concern them together.
    pub findings: Vec<Finding>,
    /// The report of each of several servers; empty when there is one.
    pub nodes: Vec<Report>,
    /// What this set-up can and cannot promise, in sentences.
    pub guarantees: Vec<Guarantee>,
}

impl Report {
    pub(crate) fn new(store: String, findings: Vec<Finding>, guarantees: Vec<Guarantee>) -> Self {
        Report {
            store,
            findings,
            nodes: Vec::new(),
            guarantees,
        }
    }

    /// True if nothing is unfit, on any server. Warnings are allowed.
    pub fn is_fit(&self) -> bool {
        let nodes = self.nodes.iter().flat_map(|node| &node.findings);
        self.findings
            .iter()
            .chain(nodes)
            .all(|check| check.verdict < Verdict::Unfit)
    }
}
