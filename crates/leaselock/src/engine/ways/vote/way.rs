//! Waiting for a lock of a quorum: rounds of votes, between which a release wakes the waiter, or a timer does.
//!
//! There is no queue, because a majority cannot agree on a position in one. A release wakes one waiter on each node: the
//! one that has asked for the longest time there, which is mostly the same one on all. Of the tasks of one client that wait
//! for the same lock, one votes, and the others wait behind it.

use std::sync::Arc;
use std::time::Duration;

use super::round::{GRACE, PollReason, Round, RoundBackoff};
use crate::base::error::{AcquireError, NodeVote, Vote};
use crate::base::keyed_mutex::KeyedMutexGuard;
use crate::base::{Moment, StoreError};
use crate::engine::guard::lease::Lease;
use crate::engine::services::Registration;
use crate::engine::values::Held;
use crate::engine::values::ballot::Withdraw;
use crate::engine::ways::ask::Ask;
use crate::engine::ways::first_try::{FirstTry, StartedWait};
use crate::engine::ways::run::{AttemptReply, Attempts, Callers, Progress, Solo, Wake, run};
use crate::quorum::group::{NodeQuestion, QuorumStore};
use crate::quorum::tally::majority;

impl Ask<'_> {
    /// Votes until the lock is granted or the time is over.
    pub(crate) async fn vote(&mut self, quorum: &QuorumStore) -> Result<Lease, AcquireError> {
        let first = (self.try_with_others(|| self.has_turns(), self.start)).await;
        match first.map_err(|source| self.error(source, false))? {
            FirstTry::Granted(lease) => return Ok(lease),
            FirstTry::StartedWait(Some(begun)) => self.goes_on(*begun).await?,
            FirstTry::StartedWait(None) => {}
        }
        let turn = self.wait_for_turn().await?;
        let (clock, mut progress) = (&self.engine.clock, Progress::default());
        let solo = Solo::without_queue(self);
        let mut voting = Voting {
            // Most locks are free, and what a wait needs is made for those that are not.
            wakeups: self.is_contended().then(|| VoteWakeups::new(self, quorum)),
            ask: self,
            quorum,
            turn: &turn,
            rounds: 0,
            backoff: RoundBackoff::default(),
        };
        let ended = run(clock, None, &mut progress, &solo, &mut voting).await;
        let Voting { ask, wakeups, .. } = voting;
        drop(wakeups);
        ask.without_queue(ended, Some(&turn), &progress)
    }

    /// After a try with other acquisitions that was in vain: nothing of it is needed any more.
    async fn goes_on(&self, begun: StartedWait) -> Result<(), AcquireError> {
        let (now, error) = (self.now(), begun.progress.error.clone());
        if let (Some(source), true) = (error, self.end.is_some_and(|end| now >= end)) {
            return Err(self.failed(begun.guard, source, false));
        }
        let again = now.plus(begun.pause.unwrap_or_default());
        begun.give_up();
        let until = self.end.map_or(again, |end| end.min(again));
        if until > now {
            self.engine.clock.sleep_until(until).await;
        }
        Ok(())
    }

    /// Messages arrive, or did not in the time of one request.
    async fn hears(&self) -> bool {
        let notifier = &self.background.notifier;
        notifier.is_listening() || notifier.ready(self.within_wait()).await
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
const FULL_WAIT_EACH: u32 = 8;

/// Votes in rounds until one is won.
struct Voting<'a, 'e> {
    ask: &'a mut Ask<'e>,
    quorum: &'a QuorumStore,
    turn: &'a KeyedMutexGuard,
    wakeups: Option<VoteWakeups>,
    rounds: u32,
    backoff: RoundBackoff,
}

impl Voting<'_, '_> {
    /// After a lost round: registers for wake-ups, and says on what the next pause can rely. `has_asked`: the round asked
    /// the nodes for a wake-up.
    async fn listen(&mut self, has_asked: bool) -> PollReason {
        let ask = &*self.ask;
        ask.note_contended();
        let new = || VoteWakeups::new(ask, self.quorum);
        let token = self.wakeups.get_or_insert_with(new).registration.token();
        let channel = &ask.engine.ids.channel;
        if !ask.hears().await || !ask.can_be_woken(token, channel) {
            PollReason::Timer
        } else if has_asked {
            PollReason::Wakeup
        } else {
            PollReason::Registration
        }
    }
}

impl Attempts for Voting<'_, '_> {
    type Granted = Lease;

    async fn ask<C: Callers>(
        &mut self,
        now: Moment,
        progress: &mut Progress,
        callers: &C,
    ) -> Result<AttemptReply<Lease>, StoreError> {
        self.turn.tries(now);
        self.ask.draw_token()?;
        let ask = &*self.ask;
        let t0 = ask.now();
        let guard = ask.guard_from(t0);
        let within = ask.within();
        self.rounds = self.rounds.wrapping_add(1);
        let waits_for_all = self.rounds.is_multiple_of(FULL_WAIT_EACH);
        let grace = if waits_for_all { within } else { GRACE };
        let is_listening = ask.background.notifier.is_listening();
        let wakeups = self.wakeups.as_mut().filter(|_| is_listening);
        let asks = wakeups.map(VoteWakeups::asks);
        let caller = asks.as_deref().unwrap_or_default();
        let round = ask.round(self.quorum, caller, t0, within, grace);
        let granted = match round.await {
            Ok(Round::Won { fence, unanimous }) => ask
                .hold_since(t0, ask.now(), fence)
                .map(|lease| (lease, unanimous)),
            Ok(Round::Lost(lost)) => {
                guard.settle();
                self.turn.report(None);
                callers.tell(&lost.seen, 1);
                let reason = self.listen(asks.is_some()).await;
                let took = self.ask.now().saturating_since(t0);
                let pause = self.backoff.after(&lost, reason, took);
                progress.answered(lost.seen, 1);
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
                    progress.found_the_store();
                }
                Err(source)
            }
        }
    }

    fn rest_after(&self, error: &StoreError) -> Duration {
        pause_of(error)
    }

    async fn woken(&mut self) -> Wake {
        match &self.wakeups {
            Some(wakeups) => wakeups.registration.woken().await,
            None => std::future::pending().await,
        }
        Wake::Poll
    }
}

/// A waiter that the nodes are to wake. Dropping it ends that, in the background.
pub(super) struct VoteWakeups {
    pub(super) registration: Registration,
    quorum: QuorumStore,
    handle: tokio::runtime::Handle,
    held: Held,
    /// As the nodes have it.
    text: Arc<str>,
    asked: bool,
    won: bool,
}

impl VoteWakeups {
    pub(super) fn new(ask: &Ask<'_>, quorum: &QuorumStore) -> Self {
        let (background, token) = (ask.background, &ask.held.token);
        let registration = background.notifier.register(token);
        registration.enters_queue();
        background.notifier.want();
        VoteWakeups {
            registration,
            quorum: quorum.clone(),
            handle: background.handle.clone(),
            held: ask.held.clone(),
            text: format!("{} {}", token.secret(), ask.engine.ids.channel).into(),
            asked: false,
            won: false,
        }
    }

    pub(super) fn asks(&mut self) -> Arc<str> {
        self.asked = true;
        Arc::clone(&self.text)
    }

    /// Every node that votes for it has struck it out.
    pub(super) fn has_won(&mut self, unanimous: bool) {
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
        let (quorum, held) = (self.quorum.clone(), self.held.clone());
        let (text, tells) = (Arc::clone(&self.text), !self.won); // it may have been woken, and leaves that to the next
        drop(self.handle.spawn(async move {
            let leaves = Withdraw {
                held: &held,
                tells,
                caller: &text,
            };
            let mut leaving = quorum.poll(&leaves, NodeQuestion::ToSay, |_| true, WITHIN);
            while leaving.next().await.is_some() {}
        }));
    }
}
