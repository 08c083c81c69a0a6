//! A deadlock: owners that wait for each other in a circle.

use std::fmt;
use std::time::Duration;

use leaselock_fence::Name;

/// Owners that wait for each other in a circle, so that none of them would ever be granted.
///
/// The owner that gets it still holds everything that it held. Release that, or at least what another owner of the circle
/// waits for, and begin again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// The owners, each of which holds what the one before it waits for. The first one is the owner that got the error.
    ///
    /// One link: the owner would wait for itself.
    pub circle: Vec<Link>,
    /// How to ask so that the owner does not wait for itself.
    pub(crate) way_out: Option<&'static str>,
}

/// One owner of a circle.
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

impl Deadlock {
    pub(crate) fn of(circle: Vec<Link>) -> Self {
        Deadlock {
            circle,
            way_out: None,
        }
    }

    /// Creates the error of an owner that would wait for itself.
    pub(crate) fn of_itself(owner: &str, client: &str, name: &Name, way_out: &'static str) -> Self {
        let link = Link {
            owner: owner.to_owned(),
            client: client.to_owned(),
            holds: name.clone(),
            waits_for: name.clone(),
            since: Duration::ZERO,
        };
        Deadlock {
            circle: vec![link],
            way_out: Some(way_out),
        }
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [link] = self.circle.as_slice() {
            let Link { owner, holds, .. } = link;
            write!(
                f,
                "deadlock: the owner `{owner}` would wait for itself, because it holds `{holds}`"
            )?;
        } else {
            f.write_str("deadlock: ")?;
        }
        for (at, link) in self
            .circle
            .iter()
            .enumerate()
            .filter(|_| self.circle.len() > 1)
        {
            let Link {
                owner,
                holds,
                waits_for,
                ..
            } = link;
            let comma = if at == 0 { "" } else { ", " };
            write!(
                f,
                "{comma}`{owner}` holds `{holds}` and waits for `{waits_for}`"
            )?;
        }
        self.way_out
            .map_or(Ok(()), |way_out| write!(f, "; {way_out}"))
    }
}
