//! Which fencing token to propose: the newest time of any server, never one of our own clock.
//!
//! A reply carries what a server's clock showed before it came. The time that has passed since then is added, measured
//! by our own clock. The sum is not later than that server's now, so wall clocks of clients do not matter.

use std::sync::Mutex;
use std::time::Duration;

use leaselock_fence::Fence;

use crate::base::{Moment, hold};

/// A report older than this counts only when no other node has reported since: clocks drift apart.
const FRESH: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Proposals(Mutex<KnownTimes>);

#[derive(Debug)]
struct KnownTimes {
    /// For each node, what its clock showed and when that report came.
    nodes: Vec<Option<(u64, Moment)>>,
    /// The highest fencing token that was proposed or required.
    highest: u64,
}

impl Proposals {
    pub(crate) fn new(nodes: usize) -> Self {
        Proposals(Mutex::new(KnownTimes {
            nodes: vec![None; nodes],
            highest: 0,
        }))
    }

    /// Records a node's clock when its reply left, which came at `received`.
    pub(crate) fn showed(&self, node: usize, time_us: u64, received: Moment) {
        hold(&self.0).nodes[node] = Some((time_us, received));
    }

    /// Records that a node requires at least this.
    ///
    /// A number that no node accepts would make all later proposals vain.
    pub(crate) fn asked_for(&self, least: u64) {
        if least > Fence::MAX.get() {
            return;
        }
        let mut known = hold(&self.0);
        known.highest = known.highest.max(least.saturating_sub(1));
    }

    /// Returns the next proposal, larger than all before; 0 when nothing is known yet.
    pub(crate) fn propose(&self, now: Moment) -> u64 {
        let mut known = hold(&self.0);
        let age = |at: Moment| now.saturating_since(at);
        let all = known.nodes.iter().flatten();
        let youngest = all.clone().map(|(_, at)| age(*at)).min();
        let fresh = all.filter(|(_, at)| age(*at) <= FRESH || Some(age(*at)) == youngest);
        let passed = |at: Moment| u64::try_from(age(at).as_micros()).unwrap_or(u64::MAX);
        let newest = fresh.map(|(us, at)| us.saturating_add(passed(*at))).max();
        if newest.is_none() && known.highest == 0 {
            return 0;
        }
        known.highest = newest.unwrap_or(0).max(known.highest + 1);
        known.highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Moment {
        Moment::from_nanos(us * 1000)
    }

    #[test]
    fn the_newest_servers_time_is_proposed_and_nothing_when_none_is_known() {
        let times = Proposals::new(3);
        assert_eq!(times.propose(at(5)), 0);
        times.showed(0, 1_000, at(10));
        times.showed(2, 5_000, at(20));
        assert_eq!(times.propose(at(120)), 5_100);
    }

    #[test]
    fn every_proposal_is_larger_than_the_one_before() {
        let times = Proposals::new(1);
        times.showed(0, 1_000, at(10));
        assert_eq!([0; 3].map(|_| times.propose(at(10))), [1_000, 1_001, 1_002]);
        times.showed(0, 500, at(11)); // its clock went back
        assert_eq!(times.propose(at(11)), 1_003);
        times.asked_for(2_000);
        assert_eq!(times.propose(at(12)), 2_000);
        times.asked_for(1_500);
        assert_eq!(times.propose(at(12)), 2_001);
    }

    #[test]
    fn a_node_that_has_been_silent_for_long_does_not_lead() {
        let times = Proposals::new(2);
        times.showed(0, 9_000_000, at(0));
        let later = at(61_000_000);
        assert_eq!(times.propose(later), 70_000_000);
        times.showed(1, 65_000_000, later);
        let mut fresh = Proposals::new(2);
        fresh.showed(0, 9_000_000, at(0));
        fresh.showed(1, 65_000_000, later);
        assert_eq!(fresh.propose(later), 65_000_000);
        fresh = times;
        assert_eq!(fresh.propose(later), 70_000_001);
    }
}
