//! A queue entry, with what its waiter knows of it.

use std::time::Duration;

use crate::base::{Clock, Moment};
use crate::engine::guard::lease::Lease;
use crate::engine::services::{CleanupGuard, ClockSample, Registration};
use crate::engine::ways::ask::Ask;
use crate::engine::ways::schedule::RateLimit;
use crate::store::Traffic;
use crate::store::subscriptions::Subscription;

/// A queue entry, or what may be one, with what its waiter knows of it. Another task can go on with it.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    pub(crate) registration: Registration,
    pub(super) guard: CleanupGuard,
    /// True if an answer said that the entry is in the queue.
    pub(super) in_queue: bool,
    /// The clocks at the latest such answer.
    pub(super) reading: Option<ClockSample>,
    /// True if a request had no usable reply: it may have made the entry, or been granted.
    pub(super) ambiguous: bool,
    /// What to do about a holder of another library.
    pub(super) foreign: Foreign,
    /// The entry is far from the head of a queue in a folder.
    pub(super) far: Option<Far>,
}

impl QueueEntry {
    /// Registers for wake-ups. Nothing is sent.
    pub(crate) fn new(ask: &Ask<'_>, guard: CleanupGuard) -> Self {
        QueueEntry {
            registration: ask.background.notifier.register(&ask.held.token),
            guard,
            in_queue: false,
            reading: None,
            ambiguous: false,
            foreign: Foreign::default(),
            far: None,
        }
    }

    /// True if something of this token may be on the store, whatever the latest request came to.
    pub(super) fn may_exist(&self) -> bool {
        self.in_queue || self.ambiguous
    }

    /// The entry is granted. From here on the lease has an owner, and only late requests may need a cleanup.
    pub(crate) fn granted(self, mut lease: Lease) -> Lease {
        if self.ambiguous {
            lease.expect_late_requests();
        }
        if self.guard.settle() {
            lease.set_queued();
        }
        lease
    }
}

// Polls of waiters that are far from the head of a queue in a folder.
//
// Each call reads all of the lock's file, so a poll costs more the longer the queue is, and a long queue has many who
// poll. A waiter that is far from the head therefore polls in three steps, each only when the one before has found a
// reason: it asks how often the file was written, which costs the same whatever is in it; it reads its position, for
// which it neither locks nor writes the file; and it makes the request that got it into the queue. Whether it is alive
// is told by the system, so the file need not say that it has polled.

/// Up to this position every poll is a full request. It locks and writes the file, so only those who may soon be the
/// next make it. When no waiter has written for half a minute, the script of the second step asks for a full request.
pub(super) const NEAR: u64 = 2;
/// Up to this position a waiter may soon be the next, and asks as often as the store wants.
pub(super) const SOON: u64 = 32;
/// All waiters together read the file twenty times a second: each waits so long for each byte of it,
const PER_BYTE: Duration = Duration::from_micros(200);
/// and no longer than this, in case thousands in front of it were killed at once.
const LONGEST: Duration = Duration::from_secs(300);

/// What a waiter that is far from the head knows of the file since its latest answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Far {
    pub(super) position: u64,
    pub(super) commits: u64,
    pub(super) at: Moment,
}

impl Far {
    /// One of those in front leaves with a commit, as a rule: the waiter rests until it may be near the head, or until
    /// half of them may be gone.
    pub(super) fn may_rest(&self, now: Moment, traffic: Traffic) -> bool {
        let Some(since) = traffic.commits.checked_sub(self.commits) else {
            return false; // another file
        };
        let at_most = PER_BYTE.saturating_mul(u32::try_from(traffic.bytes).unwrap_or(u32::MAX));
        let few = (self.position / 2).max(self.position.saturating_sub(SOON));
        since < few && now.saturating_since(self.at) < at_most.min(LONGEST)
    }
}

/// A store that asks for more polls asks those for them who may soon be the next.
pub(super) fn polls_at_least_each(look_every: Duration, position: u64) -> Duration {
    let share = u32::try_from(position / SOON).unwrap_or(u32::MAX);
    look_every.saturating_mul(share.max(1))
}

// First in the queue behind a holder of another library, whose release wakes no waiter here.
//
// The server can announce it, if its keyspace notifications are on. Nothing asks whether they are: the waiter listens to
// the key's channel meanwhile. If they are off, nothing comes, and the polls by timer find the free lock. Behind a holder
// of leaselock nothing of this is needed, because it hands over.

/// What a waiter knows of such a holder.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    subscription: Option<Subscription>,
    /// True if the waiter listens since the latest poll, or does not listen yet.
    begins: bool,
    due: bool,
    pace: RateLimit,
}

impl Foreign {
    /// A poll has found such a holder, and no waiter before this one. `subscribe`: listens to the key's channel.
    pub(super) fn polled(&mut self, now: Moment, subscribe: impl FnOnce() -> Option<Subscription>) {
        self.pace.polled(now);
        self.due = false;
        if self.subscription.is_none() {
            self.subscription = subscribe();
            self.begins = true;
        }
    }

    /// A poll has found that a release will wake the waiter.
    pub(super) fn is_over(&mut self) {
        self.subscription = None;
    }

    /// A pause after which the next poll keeps the pace.
    pub(super) fn paced(&self, pause: Duration, now: Moment) -> Duration {
        pause.max(self.pace.next(now).saturating_since(now))
    }

    /// Ends when there is a reason to poll and a poll keeps the pace.
    ///
    /// # Cancel safety
    /// Safe: the reason is there for the next call.
    pub(super) async fn calls(&mut self, clock: &Clock) {
        let Some(subscription) = &self.subscription else {
            return std::future::pending().await;
        };
        if !self.due {
            // What happened before the waiter listened may have been the release.
            if !self.begins || !subscription.ready(Duration::MAX).await {
                self.begins = false;
                subscription.woken().await;
            }
            self.begins = false;
            self.due = true;
        }
        clock.sleep_until(self.pace.next(clock.now())).await;
        // A poll without an answer is tried again by the timer; otherwise no wait would come to its end.
        self.due = false;
    }
}

/// Whether a notification about a key may mean that it is gone. A holder that renews makes many of the others.
pub(crate) fn may_mean_free(event: &[u8]) -> bool {
    const STAYS: [&[u8]; 7] = [
        b"expire", b"pexpire", b"persist", b"set", b"new", b"hset", b"hincrby",
    ];
    !STAYS.contains(&event)
}

#[cfg(test)]
mod far_tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn far() -> (Far, Moment) {
        let at = Moment::from_nanos(1);
        let far = Far {
            position: 1_000,
            commits: 7,
            at,
        };
        (far, at)
    }

    fn traffic(commits: u64, bytes: u64) -> Traffic {
        Traffic { commits, bytes }
    }

    #[test]
    fn a_far_waiter_rests_longer_the_more_a_poll_costs_and_never_for_more_than_five_minutes() {
        let (far, at) = far();
        for (bytes, rests) in [
            (5_000, 1),
            (500_000, 100),
            (1_500_000, 300),
            (5_000_000_000, 300),
        ] {
            let rests = rests * SECOND;
            let before = at.plus(rests - Duration::from_millis(1));
            assert!(far.may_rest(before, traffic(7, bytes)), "{bytes}");
            assert!(!far.may_rest(at.plus(rests), traffic(7, bytes)), "{bytes}");
        }
    }

    #[test]
    fn a_far_waiter_polls_when_it_may_be_near_or_half_of_those_in_front_gone_or_the_file_is_another()
     {
        let (far, at) = far();
        let now = at.plus(SECOND);
        assert!(far.may_rest(now, traffic(7 + 967, 500_000)));
        assert!(!far.may_rest(now, traffic(7 + 968, 500_000)));
        assert!(!far.may_rest(now, traffic(6, 500_000)));
        let near = Far {
            position: 40,
            ..far
        };
        assert!(near.may_rest(now, traffic(7 + 19, 500_000)));
        assert!(!near.may_rest(now, traffic(7 + 20, 500_000)));
    }

    #[test]
    fn who_may_soon_be_the_next_polls_as_often_as_the_store_asks() {
        let each = |position| polls_at_least_each(SECOND, position).as_secs();
        assert_eq!((each(1), each(63), each(64), each(3_200)), (1, 1, 2, 100));
        let never = polls_at_least_each(Duration::MAX, 3_200);
        assert_eq!(never, Duration::MAX);
    }
}

#[cfg(all(test, feature = "redis"))]
mod key_watch_tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::store::subscriptions::Subscriptions;

    fn calls_at_once(foreign: &mut Foreign, clock: &Clock) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(foreign.calls(clock)).poll(&mut context).is_ready()
    }

    /// A poll without an answer is followed by the timer's, which knows when the wait is over.
    #[test]
    fn one_reason_is_one_poll_even_when_that_has_no_answer() {
        let (subscriptions, clock) = (Subscriptions::new(), Clock::manual());
        let mut foreign = Foreign::default();
        foreign.polled(clock.now(), || Some(subscriptions.subscribe_to_all("news")));
        assert!(
            !calls_at_once(&mut foreign, &clock),
            "nothing is received yet"
        );
        subscriptions.subscribed("news");
        assert!(calls_at_once(&mut foreign, &clock));
        assert!(!calls_at_once(&mut foreign, &clock), "the poll was made");
        subscriptions.message("news", b"del");
        assert!(calls_at_once(&mut foreign, &clock));
    }
}
