//! What an operator should know about a store.

/// Whether something is fit for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// Good for locks.
    Fit,
    /// Works, with a weakness that the advice names.
    Warn,
    /// Not fit for locks.
    Unfit,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// What was looked at, such as `eviction policy`.
    pub topic: String,
    /// What was found.
    pub found: String,
    /// Whether that is fit for locks.
    pub fit: Fit,
    /// What to change, when there is something to change.
    pub advice: Option<String>,
}

impl Check {
    pub(crate) fn new(
        topic: &str,
        found: impl Into<String>,
        fit: Fit,
        advice: Option<&str>,
    ) -> Self {
        Check {
            topic: topic.to_owned(),
            found: found.into(),
            fit,
            advice: advice.map(str::to_owned),
        }
    }
}

/// All that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The store in words, without secrets.
    pub store: String,
    /// Each thing that was looked at.
    pub checks: Vec<Check>,
}

impl Report {
    pub(crate) fn new(store: String, checks: Vec<Check>) -> Self {
        Report { store, checks }
    }

    /// Nothing is unfit. Warnings are allowed.
    pub fn is_fit(&self) -> bool {
        self.checks.iter().all(|check| check.fit < Fit::Unfit)
    }
}
