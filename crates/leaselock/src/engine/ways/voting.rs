//! Waiting for a lock of a quorum: rounds of votes, between which a release wakes the waiter, or a timer does.
//!
//! There is no queue, because a majority cannot agree on a position in one. A release wakes one waiter on each node: the
//! one that has asked for the longest time there, which is mostly the same one on all. Of the tasks of one client that wait
//! for the same lock, one votes, and the others wait behind it.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Acquisition, Outcome};
use super::first_try::{FirstTry, StartedWait};
use super::patience::Patience;
use super::round::{LostRound, PATIENCE, Round};
use super::run::{Attempt, AttemptReply, Callers, Wake, run};
use super::schedule;
use super::solo::Solo;
use super::turn_budget::Share;
use crate::base::clock::Moment;
use crate::base::error::{AcquireError, StoreError};
use crate::base::error::{NodeVote, Vote};
use crate::base::keyed_mutex::KeyedMutexGuard;
use crate::engine::guard::lease::Lease;
use crate::engine::services::wakeups::notifier::Registration;
use crate::engine::values::ballot::Withdraw;
use crate::engine::values::resource::Resource;
use crate::quorum::group::{NodeQuestion, QuorumStore};
use crate::quorum::tally::majority;

impl Acquisition<'_> {
    /// Makes one round, for a task that does not wait.
    pub(super) async fn request_by_vote(
        &self,
        quorum: &QuorumStore,
        t0: Moment,
        within: Duration,
    ) -> Result<Outcome, StoreError> {
        match self.round(quorum, "", t0, within, PATIENCE).await? {
            Round::Won { fence, .. } => {
                let lease = self.hold_since(t0, self.now(), fence)?;
                Ok(Outcome::Granted(lease, Share::NONE))
            }
            Round::Lost(lost) => Ok(Outcome::Busy(lost.seen)),
        }
    }

    /// Makes one try together with other acquisitions, if there are some. If it is in vain, the task tries by itself under
    /// another token: what takes the votes of this one back may come late.
    pub(super) async fn try_votes_with_others(&mut self) -> Result<Option<Lease>, StoreError> {
        match self.try_with_others(None, self.now()).await? {
            FirstTry::Granted(lease) => return Ok(Some(lease)),
            FirstTry::StartedWait(None) => {}
            FirstTry::StartedWait(Some(begun)) => {
                if let Some(source) = begun.patience.error.clone() {
                    begun.guard.settle_unless(source.maybe_applied());
                    return Err(source);
                }
                begun.give_up();
                self.draw_token()?;
            }
        }
        Ok(None)
    }

    /// Votes until the lock is granted or the time is over.
    pub(super) async fn wait_by_voting(
        &mut self,
        quorum: &QuorumStore,
        start: Moment,
        end: Option<Moment>,
    ) -> Result<Lease, AcquireError> {
        let first = self.try_with_others(None, start).await;
        match first.map_err(|source| self.error(source, false))? {
            FirstTry::Granted(lease) => return Ok(lease),
            FirstTry::StartedWait(Some(begun)) => self.goes_on(*begun, end).await?,
            FirstTry::StartedWait(None) => {}
        }
        let turn = self.wait_for_turn(start, end).await?;
        let (clock, mut patience) = (&self.engine.clock, Patience::default());
        let solo = Solo::without_queue(self, start, end);
        let mut voting = Voting {
            // Most locks are free, and what a wait needs is made for those that are not.
            wakeups: self.is_contended().then(|| VoteWakeups::new(self, quorum)),
            acquisition: self,
            quorum,
            turn: &turn,
            end,
            rounds: 0,
            backoff: RoundBackoff::default(),
        };
        let ended = run(clock, None, &mut patience, &solo, &mut voting).await;
        drop(voting);
        self.without_queue(ended, &turn, start, &patience)
    }

    /// After a try with other acquisitions that was in vain: nothing of it is needed any more.
    async fn goes_on(&self, begun: StartedWait, end: Option<Moment>) -> Result<(), AcquireError> {
        let (now, error) = (self.now(), begun.patience.error.clone());
        if let (Some(source), true) = (error, end.is_some_and(|end| now >= end)) {
            return Err(self.failed(begun.guard, source, false));
        }
        let again = now.plus(begun.pause.unwrap_or_default());
        begun.give_up();
        let until = end.map_or(again, |end| end.min(again));
        if until > now {
            self.engine.clock.sleep_until(until).await;
        }
        Ok(())
    }

    /// Messages arrive, or did not in the time of one request.
    async fn hears(&self, end: Option<Moment>) -> bool {
        let within = self.engine.request_timeout(self.request.ttl);
        let left = end.map_or(within, |end| end.saturating_since(self.now()));
        let notifier = &self.background.notifier;
        notifier.is_listening() || notifier.ready(within.min(left)).await
    }
}

/// A majority of the nodes is there, whatever they say.
fn is_answered(votes: &[NodeVote]) -> bool {
    let there = votes.iter().filter(|one| one.vote != Vote::Silent).count();
    there >= majority(votes.len())
}

/// Nodes that stay out for a while need not be asked before, when too few others are left.
fn pause_of(source: &StoreError) -> Duration {
    /// The longest pause of a waiter while nodes stay out of votes.
    const MOST: Duration = Duration::from_secs(1);
    let rests = source.votes().iter().filter_map(|one| match one.vote {
        Vote::NotVoting { rest } => Some(rest),
        _ => None,
    });
    rests.min().unwrap_or_default().min(MOST)
}

/// So many rounds are made before one that waits for every node, so that those which are slow and not dead have their
/// say. Not more often, because a waiter keeps its votes from others meanwhile.
const PATIENT_EACH: u32 = 8;

/// Votes in rounds until one is won.
struct Voting<'a, 'e> {
    acquisition: &'a mut Acquisition<'e>,
    quorum: &'a QuorumStore,
    turn: &'a KeyedMutexGuard,
    end: Option<Moment>,
    wakeups: Option<VoteWakeups>,
    rounds: u32,
    backoff: RoundBackoff,
}

impl Voting<'_, '_> {
    /// After a lost round: registers for wake-ups, and says on what the next pause can rely. `has_asked`: the round asked
    /// the nodes for a wake-up.
    async fn listen(&mut self, has_asked: bool) -> PollReason {
        let acquisition = &*self.acquisition;
        acquisition.goes_by_itself();
        let new = || VoteWakeups::new(acquisition, self.quorum);
        let token = self.wakeups.get_or_insert_with(new).registration.token();
        let channel = &acquisition.engine.channel;
        if !acquisition.hears(self.end).await || !acquisition.can_be_woken(token, channel) {
            PollReason::Timer
        } else if has_asked {
            PollReason::Wakeup
        } else {
            PollReason::Registration
        }
    }
}

impl Attempt for Voting<'_, '_> {
    type Granted = Lease;

    async fn ask<C: Callers>(
        &mut self,
        _now: Moment,
        patience: &mut Patience,
        callers: &C,
    ) -> Result<AttemptReply<Lease>, StoreError> {
        self.acquisition.draw_token()?;
        let acquisition = &*self.acquisition;
        let t0 = acquisition.now();
        let guard = acquisition.guard_from(t0);
        let within = acquisition.engine.request_timeout(acquisition.request.ttl);
        self.rounds = self.rounds.wrapping_add(1);
        let is_patient = self.rounds.is_multiple_of(PATIENT_EACH);
        let grace = if is_patient { within } else { PATIENCE };
        let is_listening = acquisition.background.notifier.is_listening();
        let wakeups = self.wakeups.as_mut().filter(|_| is_listening);
        let asks = wakeups.map(VoteWakeups::asks);
        let caller = asks.as_deref().unwrap_or_default();
        let round = acquisition.round(self.quorum, caller, t0, within, grace);
        let granted = match round.await {
            Ok(Round::Won { fence, unanimous }) => acquisition
                .hold_since(t0, acquisition.now(), fence)
                .map(|lease| (lease, unanimous)),
            Ok(Round::Lost(lost)) => {
                guard.settle();
                self.turn.report(None);
                callers.tell(&lost.seen, 1);
                let reason = self.listen(asks.is_some()).await;
                let took = self.acquisition.now().saturating_since(t0);
                let pause = self.backoff.after(&lost, reason, took);
                patience.answered(lost.seen, 1);
                return Ok(AttemptReply::NotYet(pause));
            }
            Err(source) => Err(source),
        };
        match granted {
            Ok((lease, unanimous)) => {
                guard.settle();
                if let Some(wakeups) = &mut self.wakeups {
                    wakeups.has_won(unanimous);
                }
                Ok(AttemptReply::Granted(lease))
            }
            Err(source) => {
                guard.settle_unless(source.maybe_applied());
                if is_answered(source.votes()) {
                    patience.found_the_store();
                }
                Err(source)
            }
        }
    }

    fn rest_after(&self, error: &StoreError) -> Duration {
        pause_of(error)
    }

    async fn woken(&mut self) -> Wake {
        let message = async {
            match &self.wakeups {
                Some(wakeups) => wakeups.registration.woken().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.turn.released() => {}
            () = message => {}
        }
        Wake::Poll
    }
}

/// Why a waiter behind a holder votes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PollReason {
    /// The nodes wake it.
    Wakeup,
    /// The nodes could wake it, but its latest request did not ask for that: the next one does.
    Registration,
    /// No message arrives.
    Timer,
}

/// How long to wait for the next round.
#[derive(Debug, Default)]
struct RoundBackoff {
    /// The longest that the latest pause after a split could have been.
    latest: Duration,
    /// How long it stood back for others.
    stood_back: Duration,
}

/// A waiter that got votes tries again soon: there are fewer such waiters than nodes.
const SPLIT_LEAST: Duration = Duration::from_millis(2);
const SPLIT_MOST: Duration = Duration::from_millis(200);
/// A waiter that got none leaves the others time to settle it, and more of it when they have not.
const NONE_OF_THEM: Duration = Duration::from_millis(75);
const NONE_MOST: Duration = Duration::from_millis(600);
/// Those who wait for the same lease to end do not vote in step.
const AT_THE_END: Duration = Duration::from_millis(25);

impl RoundBackoff {
    /// `took`: so long the votes were kept from others, and so they are most likely to be had when the pauses differ by
    /// more.
    fn after(&mut self, lost: &LostRound, reason: PollReason, took: Duration) -> Duration {
        if lost.held {
            *self = RoundBackoff::default();
            if reason == PollReason::Registration {
                return Duration::ZERO;
            }
            let is_woken = reason == PollReason::Wakeup;
            let by_timer = schedule::next_poll(&lost.seen, 1, is_woken, Duration::MAX);
            return by_timer
                + schedule::jittered(AT_THE_END, 100)
                + schedule::jittered(by_timer / 20, 100);
        }
        if lost.ours == 0 {
            let pause = (self.stood_back * 2).clamp(NONE_OF_THEM, NONE_MOST);
            self.stood_back = pause;
            return schedule::jittered(pause, 90);
        }
        // Grows with what it was, so that those who meet again spread more and more.
        let most = (self.latest * 3)
            .clamp(SPLIT_LEAST * 2, SPLIT_MOST)
            .max(took * 4);
        self.latest = schedule::jittered(most / 2, 100).max(SPLIT_LEAST);
        self.latest
    }
}

/// A waiter that the nodes are to wake. Dropping it ends that, in the background.
struct VoteWakeups {
    registration: Registration,
    quorum: QuorumStore,
    handle: tokio::runtime::Handle,
    resource: Resource,
    /// As the nodes have it.
    text: Arc<str>,
    asked: bool,
    won: bool,
}

impl VoteWakeups {
    fn new(acquisition: &Acquisition<'_>, quorum: &QuorumStore) -> Self {
        let (background, token) = (acquisition.background, &acquisition.token);
        let registration = background.notifier.register(token);
        registration.enters_queue();
        background.notifier.want();
        VoteWakeups {
            registration,
            quorum: quorum.clone(),
            handle: background.handle.clone(),
            resource: acquisition.resource.clone(),
            text: format!("{} {}", token.secret(), acquisition.engine.channel).into(),
            asked: false,
            won: false,
        }
    }

    fn asks(&mut self) -> Arc<str> {
        self.asked = true;
        Arc::clone(&self.text)
    }

    /// Every node that votes for it has struck it out.
    fn has_won(&mut self, unanimous: bool) {
        self.won = true;
        self.asked &= !unanimous;
    }
}

impl Drop for VoteWakeups {
    fn drop(&mut self) {
        /// How long the request may take that ends the messages of a release.
        const WITHIN: Duration = Duration::from_secs(1);
        if !self.asked {
            return;
        }
        let (quorum, resource) = (self.quorum.clone(), self.resource.clone());
        let token = self.registration.token().clone();
        let (text, tells) = (Arc::clone(&self.text), !self.won); // it may have been woken, and leaves that to the next
        drop(self.handle.spawn(async move {
            let leaves = Withdraw {
                resource: &resource,
                token: &token,
                tells,
                caller: &text,
            };
            let mut leaving = quorum.poll(&leaves, NodeQuestion::ToSay, |_| true, WITHIN);
            while leaving.next().await.is_some() {}
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::values::grant::Seen;

    fn lost(held: bool, ours: usize, remaining_ms: u64, ours_holds: bool) -> LostRound {
        LostRound {
            held,
            ours,
            seen: Seen {
                remaining: Some(Duration::from_millis(remaining_ms)),
                holder: ours_holds.then(|| "AAAAAAAA".to_owned()),
                time_us: 0,
                quarantine: None,
            },
        }
    }

    #[test]
    fn behind_a_holder_a_waiter_votes_when_the_lease_ends_and_at_least_every_five_seconds() {
        for _ in 0..200 {
            let mut backoff = RoundBackoff::default();
            let soon = backoff
                .after(
                    &lost(true, 0, 1_000, true),
                    PollReason::Wakeup,
                    Duration::ZERO,
                )
                .as_millis();
            assert!((1_001..=1_152).contains(&soon), "{soon}");
            let late = backoff
                .after(
                    &lost(true, 0, 60_000, true),
                    PollReason::Wakeup,
                    Duration::ZERO,
                )
                .as_millis();
            assert!((5_000..=5_551).contains(&late), "{late}");
            let first = lost(true, 0, 60_000, true);
            assert!(
                backoff
                    .after(&first, PollReason::Registration, Duration::ZERO)
                    .is_zero()
            );
            let foreign = backoff
                .after(
                    &lost(true, 0, 60_000, false),
                    PollReason::Wakeup,
                    Duration::ZERO,
                )
                .as_millis();
            assert!((500..=601).contains(&foreign), "{foreign}");
        }
    }

    #[test]
    fn after_a_split_a_waiter_with_votes_tries_again_soon_and_more_and_more_spread() {
        for _ in 0..200 {
            let mut backoff = RoundBackoff::default();
            let split = lost(false, 1, 10_000, true);
            assert!(
                backoff.after(&split, PollReason::Wakeup, Duration::ZERO)
                    <= Duration::from_millis(4)
            );
            let longest = (0..50)
                .map(|_| backoff.after(&split, PollReason::Wakeup, Duration::ZERO))
                .max()
                .unwrap();
            assert!(longest <= SPLIT_MOST, "{longest:?}");
            assert!(
                !RoundBackoff::default()
                    .after(&split, PollReason::Registration, Duration::ZERO)
                    .is_zero()
            );
            let none = RoundBackoff::default().after(
                &lost(false, 0, 10_000, true),
                PollReason::Wakeup,
                Duration::ZERO,
            );
            assert!(none >= Duration::from_millis(7), "{none:?}");
        }
    }
}
