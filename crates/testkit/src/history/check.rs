//! Whether a history can come from locks that exclude each other and fence their holders.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::event::{Event, Id, What};
use super::violation::Violation;

/// What a sound history held: a check that saw no grants has shown nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Names that were granted at least once.
    pub names: usize,
    /// Grants.
    pub grants: usize,
    /// Leases whose holder was told that they are lost.
    pub lost: usize,
    /// Attempts that were under way while another attempt held their lock.
    pub contended: usize,
}

/// Checks a history, in any order of lines.
///
/// C1: no two holders at once, where a hold lasts from the return of the grant to the first of:
/// release sent, deadline, holder told of the loss. C2: fences are unique, grow from a grant that
/// was known to one that was asked for later, and stay as they are through extensions.
pub fn check(events: &[Event]) -> Result<Summary, Vec<Violation>> {
    let mut violations = Vec::new();
    let attempts = attempts(events, &mut violations);
    let mut summary = Summary::default();
    let mut names: BTreeMap<&str, Vec<Hold>> = BTreeMap::new();
    for (id, attempt) in &attempts {
        if let Some(hold) = attempt.hold(*id) {
            names.entry(attempt.name).or_default().push(hold);
            summary.lost += usize::from(attempt.lost.is_some());
        }
    }
    for (name, holds) in &mut names {
        summary.names += 1;
        summary.grants += holds.len();
        holds.sort_by_key(|hold| (hold.granted, hold.id));
        summary.contended += holds
            .windows(2)
            .filter(|pair| pair[1].invoked < pair[0].end)
            .count();
        exclusion(name, holds, &mut violations);
        uniqueness(name, holds, &mut violations);
        order(name, holds, &mut violations);
    }
    if violations.is_empty() {
        Ok(summary)
    } else {
        Err(violations)
    }
}

/// All that is known about one attempt.
#[derive(Default)]
struct Attempt<'a> {
    name: &'a str,
    invoked: Duration,
    grant: Option<(Duration, u64)>,
    deadline: Duration,
    released: Option<Duration>,
    lost: Option<Duration>,
}

/// An attempt that was granted. `end` may lie before `granted`: then it was never held.
struct Hold {
    id: Id,
    invoked: Duration,
    granted: Duration,
    end: Duration,
    fence: u64,
}

impl Attempt<'_> {
    fn hold(&self, id: Id) -> Option<Hold> {
        let (granted, fence) = self.grant?;
        let ends = [Some(self.deadline), self.released, self.lost];
        let end = ends.into_iter().flatten().min()?;
        Some(Hold {
            id,
            invoked: self.invoked,
            granted,
            end,
            fence,
        })
    }
}

fn attempts<'a>(events: &'a [Event], found: &mut Vec<Violation>) -> BTreeMap<Id, Attempt<'a>> {
    // Lines of one attempt are in order; a stable sort keeps those with equal times so.
    let mut events: Vec<&Event> = events.iter().collect();
    events.sort_by_key(|event| event.at);
    let mut attempts: BTreeMap<Id, Attempt<'a>> = BTreeMap::new();
    for event in events {
        let known = attempts.contains_key(&event.id);
        let attempt = attempts.entry(event.id).or_default();
        let sensible = match event.what {
            What::Invoke => {
                (attempt.name, attempt.invoked) = (&event.name, event.at);
                !known
            }
            What::Granted { fence, deadline } => {
                attempt.deadline = deadline;
                known && attempt.grant.replace((event.at, fence)).is_none()
            }
            What::Extended { fence, deadline } => {
                attempt.deadline = attempt.deadline.max(deadline);
                let before = attempt.grant.map(|(_, fence)| fence);
                if let Some(before) = before.filter(|before| *before != fence) {
                    let (name, id) = (event.name.clone(), event.id);
                    found.push(Violation::ChangedFence {
                        name,
                        id,
                        fences: (before, fence),
                    });
                }
                before.is_some()
            }
            What::Release => {
                attempt.grant.is_some() && attempt.released.replace(event.at).is_none()
            }
            What::Lost => {
                attempt.lost.get_or_insert(event.at);
                attempt.grant.is_some()
            }
            What::Released => attempt.released.is_some(),
            What::Failed => known && attempt.grant.is_none(),
        };
        if !sensible {
            found.push(Violation::Nonsense {
                id: event.id,
                what: event.what,
            });
        }
    }
    attempts
}

/// C1. `holds` are in the order of their grants; the longest one so far is compared with the next.
fn exclusion(name: &str, holds: &[Hold], found: &mut Vec<Violation>) {
    let mut held = holds.iter().filter(|hold| hold.granted < hold.end);
    let Some(mut longest) = held.next() else {
        return;
    };
    for hold in held {
        if hold.granted < longest.end {
            found.push(Violation::Overlap {
                name: name.to_owned(),
                first: longest.id,
                second: hold.id,
                overlap: longest.end.min(hold.end) - hold.granted,
            });
        }
        if hold.end > longest.end {
            longest = hold;
        }
    }
}

/// C2, the part about uniqueness.
fn uniqueness(name: &str, holds: &[Hold], found: &mut Vec<Violation>) {
    let mut seen = HashMap::new();
    for hold in holds {
        if let Some(first) = seen.insert(hold.fence, hold.id) {
            let (name, second, fence) = (name.to_owned(), hold.id, hold.fence);
            found.push(Violation::RepeatedFence {
                name,
                first,
                second,
                fence,
            });
        }
    }
}

/// C2, the part about order. Two attempts that overlap in time may be granted in either order, so
/// only grants that had returned before an attempt began bind it.
fn order(name: &str, holds: &[Hold], found: &mut Vec<Violation>) {
    let mut begun: Vec<&Hold> = holds.iter().collect();
    begun.sort_by_key(|hold| hold.invoked);
    let mut returned = holds.iter().peekable();
    let mut greatest: Option<&Hold> = None;
    for hold in begun {
        while let Some(earlier) = returned.next_if(|earlier| earlier.granted < hold.invoked) {
            greatest = greatest
                .filter(|known| known.fence > earlier.fence)
                .or(Some(earlier));
        }
        // An equal fence is a repeated one, which has its own complaint.
        if let Some(earlier) = greatest.filter(|earlier| earlier.fence > hold.fence) {
            let (first, second) = ((earlier.id, earlier.fence), (hold.id, hold.fence));
            found.push(Violation::ReorderedFence {
                name: name.to_owned(),
                first,
                second,
            });
        }
    }
}

#[cfg(test)]
mod tests;
