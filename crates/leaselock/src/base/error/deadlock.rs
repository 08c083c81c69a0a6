//! A deadlock: owners that wait for each other in a circle.

use std::time::Duration;

use leaselock_fence::Name;

/// One owner of a circle of owners that wait for each other: see [`AcquireError::Deadlock`](crate::AcquireError::Deadlock).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The owner's label.
    pub owner: String,
    /// The client of the owner.
    pub client: String,
    /// What it holds and the one before it in the circle waits for.
    pub holds: Name,
    /// What it waits for.
    pub waits_for: Name,
    /// For how long it has waited.
    pub since: Duration,
}

pub(super) fn in_words(circle: &[Link], way_out: Option<&str>) -> String {
    let each = |link: &Link| {
        let (owner, holds) = (&link.owner, &link.holds);
        format!(
            "`{owner}` holds `{holds}` and waits for `{}`",
            link.waits_for
        )
    };
    let mut text = match circle {
        [Link { owner, holds, .. }] => {
            format!("the owner `{owner}` would wait for itself, because it holds `{holds}`")
        }
        _ => circle.iter().map(each).collect::<Vec<_>>().join(", "),
    };
    if let Some(way_out) = way_out {
        text.push_str("; ");
        text.push_str(way_out);
    }
    text
}
