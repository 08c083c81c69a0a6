//! Whose turn it is among the tasks of one client that share a queue entry. Pure: time is an argument.
//!
//! A lease that was granted to the entry goes from task to task without a request, first come, first served, within a
//! budget: so many turns and so much time, because other clients may wait in the queue. Each turn has a fencing token
//! of its own out of the range that the grant reserved.

use std::collections::VecDeque;
use std::time::Duration;

use leaselock_fence::Fence;

use crate::base::Moment;

/// How many turns one grant has at most, and how many fencing tokens it reserves. At a few microseconds a turn, the
/// round trip of a hand-over is spread over so many; and fences run ahead of the server's clock by no more than this.
pub(crate) const LOCAL_TURNS: u64 = 64;
/// How long after its grant a lease goes on to another task of the same process: what a waiter elsewhere loses at most,
/// beside the hold of the last of them. Long against a round trip, short for people.
pub(crate) const LOCAL_TIME: Duration = Duration::from_millis(100);
/// With so few turns left the group enters the queue again, so that it is there before the last turn is over.
const EARLY: u64 = 24;

/// With less than half of its time left a lease is not worth waiting for: it is released, and the next grant is whole.
pub(crate) fn is_worth_passing_on(left: Duration, granted: Duration) -> bool {
    left >= granted / 2
}

/// What a grant said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// How many fencing tokens, and so how many turns.
    pub(crate) range: u64,
    /// True if other clients were left in the queue.
    pub(crate) others: bool,
}

impl Share {
    /// The share of a grant that passes to no other task.
    pub(crate) const NONE: Share = Share {
        range: 1,
        others: false,
    };
}

/// Whether the group needs its next queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Now,
    /// The budget may suffice; it ends some time after this.
    At(Moment),
    Never,
}

#[derive(Debug)]
pub(crate) struct TurnBudget<W> {
    pub(crate) waiters: VecDeque<W>,
    budget: Option<Budget>,
}

#[derive(Debug)]
struct Budget {
    left: u64,
    early: u64,
    began: Moment,
    fence: Option<Fence>,
}

impl<W> Default for TurnBudget<W> {
    fn default() -> Self {
        TurnBudget {
            waiters: VecDeque::new(),
            budget: None,
        }
    }
}

impl<W> TurnBudget<W> {
    pub(crate) fn join(&mut self, who: W) {
        self.waiters.push_back(who);
    }

    /// The task that waited by itself was there first.
    pub(crate) fn join_first(&mut self, who: W) {
        self.waiters.push_front(who);
    }

    /// Takes one out, wherever it waits.
    pub(crate) fn leave(&mut self, is: impl Fn(&W) -> bool) -> Option<W> {
        let at = self.waiters.iter().position(is)?;
        self.waiters.remove(at)
    }

    /// A grant to the entry goes to the first; its own turn is the first of the budget.
    pub(crate) fn first(&mut self, fence: Option<Fence>, share: Share, now: Moment) -> Option<W> {
        let who = self.waiters.pop_front();
        if who.is_some() {
            self.begin(fence, share, now);
        }
        who
    }

    /// The budget of a lease that a task has already. When other clients wait, the tasks that wait here now have one
    /// turn each.
    pub(crate) fn begin(&mut self, fence: Option<Fence>, share: Share, now: Moment) {
        let all = share.range.min(LOCAL_TURNS);
        let here = u64::try_from(self.waiters.len()).unwrap_or(u64::MAX);
        let (left, early) = if share.others {
            (here.min(all.saturating_sub(1)), 0)
        } else {
            (all.saturating_sub(1), EARLY)
        };
        self.budget = Some(Budget {
            left,
            early,
            began: now,
            fence,
        });
    }

    /// The next turn of the present lease: who has it and with which fencing token. `None` ends the budget.
    pub(crate) fn next(&mut self, now: Moment) -> Option<(W, Option<Fence>)> {
        let turn = self.budget.as_mut().and_then(|budget| {
            if budget.left == 0 || now >= budget.began.plus(LOCAL_TIME) {
                return None;
            }
            let who = self.waiters.pop_front()?;
            budget.left -= 1;
            budget.fence = budget.fence.map(|fence| Fence::new(fence.get() + 1));
            Some((who, budget.fence))
        });
        if turn.is_none() {
            self.end();
        }
        turn
    }

    /// The present lease goes to no other task.
    pub(crate) fn end(&mut self) {
        self.budget = None;
    }

    /// Waiters that the budget will not serve need a queue entry.
    pub(crate) fn entry_wanted(&self, now: Moment) -> Wanted {
        let here = u64::try_from(self.waiters.len()).unwrap_or(u64::MAX);
        let Some(budget) = self.budget.as_ref().filter(|_| here > 0) else {
            return if here > 0 { Wanted::Now } else { Wanted::Never };
        };
        let at = budget.began.plus(LOCAL_TIME / 2);
        if budget.left < here.max(budget.early) || now >= at {
            Wanted::Now
        } else {
            Wanted::At(at)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(us: u64) -> Moment {
        Moment::from_nanos(us * 1000)
    }

    const FIRST: Option<Fence> = Some(Fence::new(1000));

    fn share(range: u64, others: bool) -> Share {
        Share { range, others }
    }

    fn line_of(count: u64) -> TurnBudget<u64> {
        let mut turns = TurnBudget::default();
        (0..count).for_each(|who| turns.join(who));
        turns
    }

    #[test]
    fn turns_are_taken_in_order_each_with_the_next_number() {
        let mut turns = line_of(3);
        assert_eq!(turns.first(FIRST, share(64, false), at(0)), Some(0));
        turns.join(9);
        let taken: Vec<_> = std::iter::from_fn(|| turns.next(at(1))).collect();
        let fence = |number| Some(Fence::new(number));
        assert_eq!(
            taken,
            [(1, fence(1001)), (2, fence(1002)), (9, fence(1003))]
        );
    }

    #[test]
    fn without_others_a_grant_has_as_many_turns_as_numbers_and_never_more_than_the_most() {
        for (range, expected) in [(64, 63), (5, 4), (1, 0), (0, 0), (1000, 63)] {
            let mut turns = line_of(200);
            turns.first(FIRST, share(range, false), at(0));
            let taken = std::iter::from_fn(|| turns.next(at(1))).count();
            assert_eq!(taken, expected, "{range}");
        }
    }

    #[test]
    fn when_others_wait_those_here_have_one_turn_each_and_newcomers_none() {
        let mut turns = line_of(3);
        turns.first(FIRST, share(64, true), at(0));
        turns.join(8);
        turns.join(9);
        assert_eq!(turns.next(at(1)).map(|turn| turn.0), Some(1));
        assert_eq!(turns.next(at(1)).map(|turn| turn.0), Some(2));
        assert_eq!(turns.next(at(1)), None);
        assert_eq!(turns.waiters.len(), 2, "they wait for the next grant");
    }

    #[test]
    fn after_its_time_a_lease_goes_to_nobody() {
        let mut turns = line_of(5);
        turns.first(FIRST, share(64, false), at(0));
        assert!(turns.next(at(99_999)).is_some());
        assert!(turns.next(at(100_000)).is_none());
        assert!(turns.next(at(1)).is_none(), "the budget is over for good");
    }

    #[test]
    fn a_lease_that_is_more_than_half_over_is_not_passed_on() {
        let ms = Duration::from_millis;
        assert!(is_worth_passing_on(ms(50), ms(100)));
        assert!(!is_worth_passing_on(ms(49), ms(100)) && !is_worth_passing_on(ms(0), ms(100)));
    }

    #[test]
    fn without_a_grant_nobody_has_a_turn() {
        let mut turns = line_of(5);
        assert!(turns.next(at(0)).is_none());
        turns.first(FIRST, share(64, false), at(0));
        turns.end();
        assert!(turns.next(at(1)).is_none());
    }

    #[test]
    fn a_queue_entry_is_wanted_when_the_budget_will_not_serve_all() {
        let mut turns = line_of(3);
        assert_eq!(turns.entry_wanted(at(0)), Wanted::Now, "nothing is granted");
        turns.first(FIRST, share(64, true), at(0));
        assert_eq!(turns.entry_wanted(at(0)), Wanted::At(at(50_000)));
        assert_eq!(turns.entry_wanted(at(50_000)), Wanted::Now, "nearly over");
        turns.join(7);
        assert_eq!(turns.entry_wanted(at(0)), Wanted::Now, "one is too many");
        turns.waiters.clear();
        assert_eq!(turns.entry_wanted(at(90_000)), Wanted::Never);
        // Alone there are many turns, and the group is in the queue before they are over.
        turns.begin(FIRST, share(64, false), at(0));
        let mut taken = 0;
        turns.join(0);
        while turns.entry_wanted(at(1)) != Wanted::Now {
            turns.next(at(1));
            turns.join(0);
            taken += 1;
        }
        assert_eq!(taken, 63 - EARLY + 1);
    }

    #[derive(Debug, Clone)]
    enum Op {
        Join,
        Leave(usize),
        Grant { range: u64, others: bool },
        Pass,
        Lose,
        Wait(u64),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            4 => Just(Op::Join),
            1 => (0..8_usize).prop_map(Op::Leave),
            2 => (1..70_u64, any::<bool>()).prop_map(|(range, others)| Op::Grant { range, others }),
            8 => Just(Op::Pass),
            1 => Just(Op::Lose),
            1 => (0..60_000_u64).prop_map(Op::Wait),
        ];
        prop::collection::vec(op, 1..200)
    }

    proptest! {
        /// Against a plain list: order, one holder at a time, numbers within the range of the grant, the bounds.
        #[test]
        fn whatever_happens_turns_keep_their_order_and_their_bounds(ops in ops()) {
            let (mut turns, mut model) = (TurnBudget::default(), Vec::new());
            let (mut now, mut newcomer, mut next_fence) = (0, 0_u64, 1_u64);
            // The present lease: granted when, its last number, the present number, turns left for those here.
            let mut lease: Option<(u64, u64, u64, u64)> = None;
            for op in ops {
                match op {
                    Op::Join => { newcomer += 1; turns.join(newcomer); model.push(newcomer); }
                    Op::Leave(at) => {
                        let who = model.get(at).copied();
                        let left = turns.leave(|other| Some(*other) == who);
                        prop_assert_eq!(left, who);
                        model.retain(|other| Some(*other) != who);
                    }
                    Op::Grant { range, others } => {
                        let fence = Some(Fence::new(next_fence));
                        let who = turns.first(fence, share(range, others), at(now));
                        prop_assert_eq!(who, model.first().copied());
                        if who.is_some() {
                            model.remove(0);
                            let here = if others { model.len() as u64 } else { LOCAL_TURNS };
                            lease = Some((now, next_fence + range - 1, next_fence, here));
                            next_fence += range;
                        }
                    }
                    Op::Pass => match (turns.next(at(now)), &mut lease) {
                        (Some((who, fence)), Some((began, last, present, here))) => {
                            prop_assert_eq!(who, model.remove(0));
                            let fence = fence.unwrap().get();
                            prop_assert!(fence > *present && fence <= *last);
                            prop_assert!(now - *began < 100_000 && *here > 0);
                            (*present, *here) = (fence, *here - 1);
                        }
                        (None, _) => lease = None,
                        (Some(_), None) => prop_assert!(false, "a turn of no lease"),
                    },
                    Op::Lose => { turns.end(); lease = None; }
                    Op::Wait(us) => now += us,
                }
                prop_assert_eq!(turns.waiters.iter().copied().collect::<Vec<_>>(), model.clone());
            }
        }
    }
}
