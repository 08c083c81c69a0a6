//! Who waits for whom, as plain values: what is the same in two readings, what is left when all who can let go have done
//! so, and the circles in what is left.
//!
//! This is the reduction of a resource graph (R. C. Holt, *Some Deadlock Properties of Computer Systems*, ACM Computing
//! Surveys 4(3), 1972), with the rules of `lua/holds.lua` and `lua/grant.lua` in place of counted resources.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::values::LockMode;

/// A digest of a token, which is no secret.
pub(crate) type Digest = String;
/// Names an owner among all clients.
pub(crate) type OwnerId = String;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GraphHold {
    pub(crate) digest: Digest,
    /// The client whose token holds; empty for another library's lock.
    pub(crate) client: String,
    pub(crate) share: LockMode,
}

/// A waiter in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GraphWaiter {
    pub(crate) digest: Digest,
    pub(crate) share: LockMode,
    pub(crate) priority: i64,
    /// Its order in the queue; the server's time of its arrival, in microseconds.
    pub(crate) ticket: u64,
    /// True if it hears messages.
    pub(crate) is_alive: bool,
}

/// One name: its holds, and its queue in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) holds: Vec<GraphHold>,
    pub(crate) queue: Vec<GraphWaiter>,
    /// How many permits there are; 0 when that is not known.
    pub(crate) permits: u64,
    pub(crate) now_us: u64,
}

/// What the owner of a hold waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GraphWait {
    pub(crate) owner: OwnerId,
    pub(crate) label: String,
    /// The key of the lock.
    pub(crate) lock: String,
    /// The digest of the waiting token.
    pub(crate) waiter: Digest,
}

/// One reading: the locks by their key, and what the owner of each hold waits for, by the hold's digest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Graph {
    pub(crate) locks: BTreeMap<String, Lock>,
    pub(crate) waits: BTreeMap<Digest, GraphWait>,
}

/// Owners that wait for each other, of which the first is the one that was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Circle {
    /// Each holds what the one before it waits for.
    pub(crate) owners: Vec<OwnerId>,
    /// The one that must let go.
    pub(crate) victim: OwnerId,
}

impl Graph {
    /// Returns what is the same in both readings.
    ///
    /// No token comes twice, so what is the same in both was so all the time between them.
    pub(crate) fn common(&self, later: &Graph) -> Graph {
        let lock = |(key, before): (&String, &Lock)| {
            let after = later.locks.get(key)?;
            let mut both = after.clone();
            both.holds.retain(|hold| before.holds.contains(hold));
            both.queue.retain(|waiter| before.queue.contains(waiter));
            both.permits = if before.permits == after.permits {
                after.permits
            } else {
                0
            };
            Some((key.clone(), both))
        };
        let mut waits = later.waits.clone();
        waits.retain(|digest, wait| self.waits.get(digest) == Some(wait));
        Graph {
            locks: self.locks.iter().filter_map(lock).collect(),
            waits,
        }
    }

    /// Returns the circle that this owner is in, if it can never be granted.
    pub(crate) fn circle_of(&self, owner: &str) -> Option<Circle> {
        let mut left = self.clone();
        left.reduce();
        let next = |of: &str| left.blockers_of(of);
        let members: BTreeSet<OwnerId> = reachable(owner, next)
            .into_iter()
            .filter(|other| reachable(other, next).contains(owner))
            .collect();
        if members.is_empty() {
            return None; // it waits behind a circle, or its wait can end
        }
        let rank = |member: &OwnerId| {
            let waiter = left.waiter_of(member);
            let (priority, ticket) = waiter.map_or((i64::MAX, 0), |w| (w.priority, w.ticket));
            (priority, std::cmp::Reverse(ticket), member.clone())
        };
        Some(Circle {
            owners: shortest(owner, next),
            victim: members.iter().min_by_key(|member| rank(member))?.clone(),
        })
    }

    /// Lets every owner go that does not wait, and every waiter that can be granted, until nothing moves.
    fn reduce(&mut self) {
        loop {
            let waiting = self.waiting();
            let mut moved = false;
            let waits = &self.waits;
            for lock in self.locks.values_mut() {
                let before = (lock.holds.len(), lock.queue.len());
                let is_stuck = |hold: &GraphHold| {
                    let wait = waits.get(&hold.digest);
                    wait.is_some_and(|wait| waiting.contains(&wait.owner))
                };
                lock.holds.retain(is_stuck);
                lock.queue.retain(|waiter| waiter.is_alive);
                // The first that does not fit keeps those behind it waiting. One that is granted lets go at once.
                let stuck = lock.queue.iter().position(|waiter| !lock.fits(waiter));
                lock.queue.drain(..stuck.unwrap_or(lock.queue.len()));
                moved |= before != (lock.holds.len(), lock.queue.len());
            }
            if !moved {
                return;
            }
        }
    }

    /// The owners that wait in a queue.
    fn waiting(&self) -> BTreeSet<OwnerId> {
        let waits = self.waits.values().filter(|wait| self.find(wait).is_some());
        waits.map(|wait| wait.owner.clone()).collect()
    }

    fn find(&self, wait: &GraphWait) -> Option<&GraphWaiter> {
        let mut queue = self.locks.get(&wait.lock)?.queue.iter();
        queue.find(|waiter| waiter.digest == wait.waiter && waiter.is_alive)
    }

    pub(crate) fn wait_of(&self, owner: &str) -> Option<&GraphWait> {
        self.waits.values().find(|wait| wait.owner == owner)
    }

    pub(crate) fn waiter_of(&self, owner: &str) -> Option<&GraphWaiter> {
        self.find(self.wait_of(owner)?)
    }

    /// The owners that hold what this owner waits for.
    fn blockers_of(&self, owner: &str) -> BTreeSet<OwnerId> {
        let lock = self.wait_of(owner).filter(|wait| self.find(wait).is_some());
        let lock = lock.and_then(|wait| self.locks.get(&wait.lock));
        let holds = lock.map(|lock| lock.holds.as_slice()).unwrap_or_default();
        let owner_of = |hold: &GraphHold| Some(self.waits.get(&hold.digest)?.owner.clone());
        holds.iter().filter_map(owner_of).collect()
    }
}

impl Lock {
    /// Whether this request fits beside what is held. What is not known fits.
    fn fits(&self, waiter: &GraphWaiter) -> bool {
        let others = || {
            self.holds
                .iter()
                .filter(|hold| hold.digest != waiter.digest)
        };
        let none = |share: fn(LockMode) -> bool| !others().any(|hold| share(hold.share));
        match waiter.share {
            // An upgrade too: the upgradable read is a hold of its own token.
            LockMode::Exclusive => others().next().is_none(),
            LockMode::Shared => {
                none(|held| matches!(held, LockMode::Exclusive | LockMode::Permits(_)))
            }
            LockMode::Upgradable => none(|held| held != LockMode::Shared),
            LockMode::Permits(count) => {
                let used = self.holds.iter().map(|hold| hold.share.permits());
                let used: u64 = used.chain([count]).map(u64::from).sum();
                let room = self.permits == 0 || used <= self.permits;
                room && none(|held| !matches!(held, LockMode::Permits(_)))
            }
        }
    }
}

/// The owners that this one waits for, directly or through others; itself only when it is in a circle.
fn reachable(owner: &str, next: impl Fn(&str) -> BTreeSet<OwnerId>) -> BTreeSet<OwnerId> {
    let (mut found, mut open) = (BTreeSet::new(), vec![owner.to_owned()]);
    while let Some(one) = open.pop() {
        open.extend(
            next(&one)
                .into_iter()
                .filter(|other| found.insert(other.clone())),
        );
    }
    found
}

/// A shortest way from this owner back to itself; the owner alone when there is none.
fn shortest(owner: &str, next: impl Fn(&str) -> BTreeSet<OwnerId>) -> Vec<OwnerId> {
    let mut ways = vec![vec![owner.to_owned()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().map_or(owner, String::as_str);
            for other in next(last) {
                if other == owner {
                    return way;
                }
                if seen.insert(other.clone()) {
                    longer.push([way.clone(), vec![other]].concat());
                }
            }
        }
        ways = longer;
    }
    vec![owner.to_owned()]
}

#[cfg(test)]
mod tests;
