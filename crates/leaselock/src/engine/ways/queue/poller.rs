//! The requests of a waiter in the queue: each poll is the whole request, or as little of it as will do (see [`Far`]).
//! Where it listens for its grant, and whether a release can wake it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::entry::{Far, NEAR, QueueEntry, SOON};
use crate::base::{Moment, StoreError, Token};
use crate::engine::services::wakeups::notifier::Notifier;
use crate::engine::services::{ClockSample, NodeSubscription};
use crate::engine::values::Seen;
use crate::engine::values::calls_optional::{Position, PositionReply};
use crate::engine::ways::ask::{Ask, Outcome};
use crate::quorum::executor::Executor;
use crate::script::keys;

/// Over which connection a waiter in the queue polls, and where it listens.
pub(crate) struct Poller<'w, 'a> {
    pub(crate) ask: &'w Ask<'a>,
    /// The connection of the client's thread. `None`: requests go over the user's own, by themselves or with others.
    pub(super) over: Option<&'w Executor>,
    /// How many fencing tokens a grant reserves after a wait.
    range: u64,
    /// Where it listens, if that depends on the node of the lock.
    pub(super) subscription: NodeSubscription,
}

impl<'w, 'a> Poller<'w, 'a> {
    pub(crate) fn new(ask: &'w Ask<'a>, over: Option<&'w Executor>, range: u64) -> Self {
        Poller {
            ask,
            over,
            range,
            subscription: NodeSubscription::default(),
        }
    }

    /// The store, over the connection of the polls.
    pub(super) fn store(&self) -> &Executor {
        self.over.unwrap_or(&self.ask.engine.store)
    }

    /// Makes a request of a waiter, or as little of it as will do.
    pub(super) async fn poll(
        &self,
        entry: &mut QueueEntry,
        seen: Option<&Seen>,
        enters: bool,
        channel: &str,
        t0: Moment,
        within: Duration,
    ) -> Result<Outcome, StoreError> {
        let far = entry.far.filter(|_| enters && !channel.is_empty());
        if let Some(far) = far {
            if let Some(outcome) = self.as_before(far, entry, seen) {
                return Ok(outcome);
            }
            if let Some(outcome) = Box::pin(self.position(channel, t0, within)).await? {
                entry.far = self.far(&outcome);
                return Ok(outcome);
            }
        }
        entry.far = None;
        let outcome = self.request(enters, channel, t0, within).await?;
        // One that enters near the head finds out with its next poll how often the file was written: asking now would
        // cost each of a few waiters who come back all the time.
        let is_near = matches!(outcome, Outcome::Waiting(_, position, _) if position <= SOON);
        if entry.in_queue || !is_near {
            entry.far = self.far(&outcome);
        }
        Ok(outcome)
    }

    pub(super) async fn request(
        &self,
        waits: bool,
        channel: &str,
        t0: Moment,
        within: Duration,
    ) -> Result<Outcome, StoreError> {
        let call = self.ask.acquire_call(waits, channel, self.range);
        self.ask.request(&call, self.over, t0, within).await
    }

    fn far(&self, outcome: &Outcome) -> Option<Far> {
        let Outcome::Waiting(_, position, reading) = outcome else {
            return None;
        };
        if *position <= NEAR {
            return None;
        }
        let traffic = self.ask.engine.store.traffic(self.ask.lock())?;
        Some(Far {
            position: *position,
            commits: traffic.commits,
            at: reading.received,
        })
    }

    /// The latest answer, while a new one would hardly say anything else.
    fn as_before(&self, far: Far, entry: &QueueEntry, seen: Option<&Seen>) -> Option<Outcome> {
        let (reading, mut seen) = (entry.reading?, seen.cloned()?);
        let now = self.ask.now();
        let traffic = self.ask.engine.store.traffic(self.ask.lock())?;
        if !far.may_rest(now, traffic) {
            return None;
        }
        let since = now.saturating_since(reading.received);
        seen.remaining = seen.remaining.map(|rest| rest.saturating_sub(since));
        Some(Outcome::Waiting(seen, far.position, reading))
    }

    async fn position(
        &self,
        channel: &str,
        t0: Moment,
        within: Duration,
    ) -> Result<Option<Outcome>, StoreError> {
        let era = self.ask.era(self.over);
        let acquire = self.ask.acquire_call(true, channel, self.range);
        let Some(position) = Position::of(&acquire) else {
            return Ok(None);
        };
        let PositionReply::Waiting { seen, position } =
            self.store().ask_one(&position, within).await?
        else {
            return Ok(None);
        };
        let received = self.ask.now();
        self.ask.engine.note_time(t0, received, seen.time_us);
        let reading = ClockSample {
            sent: t0,
            received,
            server_us: seen.time_us,
            era: era.answered_over(self.ask.era(self.over).connection),
        };
        Ok(Some(Outcome::Waiting(seen, position, reading)))
    }
}

impl Poller<'_, '_> {
    /// Returns whether the next request enters the queue, and the channel at which this client listens. The channel is
    /// empty while the client hears nothing: then there are only polls. `is_there`: the store has answered.
    ///
    /// A grant that comes over the connection of the requests is received in the runtime of the waiter, which saves the way
    /// over the client's own thread. That thread listens when nothing else does, and for the tasks of a group.
    pub(super) async fn channel(
        &self,
        is_there: bool,
        in_queue: bool,
        within: Duration,
    ) -> (bool, &str) {
        let (engine, notifier) = (self.ask.engine, &self.ask.background.notifier);
        let store = &engine.store;
        if !store.capabilities().wakes {
            return (true, "");
        }
        let begins = is_there && !in_queue;
        if store.is_cluster() {
            let channel = self.channel_at_node(is_there, begins, within);
            return (is_there, channel.await);
        }
        let along = self.over.is_none()
            && (store.would_hear() || begins && Box::pin(store.listens(within)).await);
        if along {
            return (true, &engine.ids.channel_along);
        }
        let listens = notifier.is_listening() || (begins && Box::pin(notifier.ready(within)).await);
        if listens {
            return (true, &engine.ids.channel);
        }
        if is_there {
            notifier.want(); // in the background; all waiters poll when it is there
        }
        (is_there, "")
    }

    /// The channel is that of the connection of the requests.
    pub(super) fn is_along(&self, channel: &str) -> bool {
        std::ptr::eq(channel, self.ask.engine.ids.channel_along.as_str())
    }

    /// The queue entry names a channel at which this client does not listen, or names none although the client could
    /// listen: the request has opened another connection, or the lock lies on another node.
    pub(super) fn is_wrong_channel(&self, channel: &str) -> bool {
        if self.node_changed() {
            return true;
        }
        if self.over.is_some() {
            return false; // the client's thread has one channel
        }
        let hears = self.ask.engine.store.hears();
        if self.is_along(channel) {
            !hears
        } else {
            channel.is_empty() && hears
        }
    }

    /// The channel at the node that has the lock. A waiter that enters the queue waits until the client listens there, and
    /// a poll does not wait long.
    async fn channel_at_node(&self, is_there: bool, begins: bool, within: Duration) -> &str {
        /// How long a poll waits until the client listens at the node of the lock.
        const BRIEFLY: Duration = Duration::from_millis(300);
        if !is_there {
            return "";
        }
        let within = if begins { within } else { within.min(BRIEFLY) };
        let (engine, lock) = (self.ask.engine, self.ask.lock());
        let at = || engine.store.subscriptions_at(lock);
        let name = |sharded| keys::wake_channel_at(&engine.ids.channel, lock, sharded);
        // A message names the waiter that it wakes. The subscription itself says only that messages may have been missed.
        let heard = self.subscription.listens(at, name, |_| false, within);
        Box::pin(heard).await.unwrap_or_default()
    }

    /// The lock lies on another node than the one at which this client listens: the request has found that out.
    pub(super) fn node_changed(&self) -> bool {
        let (store, lock) = (&self.ask.engine.store, self.ask.lock());
        self.subscription.node_changed(store, lock)
    }
}

/// Shorter than the longest interval of a waiter that cannot be woken.
const WAITED: Duration = Duration::from_millis(250);

/// Counts the connections of requests and of messages: over a new one the user may be another.
fn connections(store: &Executor, notifier: &Notifier) -> u64 {
    notifier.subscription() + store.epoch().unwrap_or_default()
}

impl Ask<'_> {
    /// Whether a release can wake the waiter of this token, which listens to `channel`. True until the store has said
    /// otherwise.
    pub(crate) fn can_be_woken(&self, token: &Token, channel: &str) -> bool {
        if channel.is_empty() {
            return false;
        }
        if !self.engine.store.capabilities().has_users {
            return true;
        }
        let background = self.background;
        let known = background.notifier.rights.of(channel);
        let present = connections(&background.store, &background.notifier);
        let is_new = known.told_in.load(Ordering::Relaxed) != present;
        if is_new && !known.asking.swap(true, Ordering::SeqCst) {
            self.ask_for_rights(token, channel);
        }
        !known.refused.load(Ordering::Relaxed)
    }

    /// In the background, if the waiter is still there by then.
    fn ask_for_rights(&self, token: &Token, channel: &str) {
        let background = self.background;
        let (notifier, store) = (Arc::clone(&background.notifier), background.store.clone());
        let (token, channel) = (token.clone(), channel.to_owned());
        let within = self.within();
        drop(background.handle.spawn(async move {
            tokio::time::sleep(WAITED).await;
            let known = notifier.rights.of(&channel);
            let asked_in = connections(&store, &notifier);
            let allowed = if notifier.waits(&token) {
                store.may_wake(&channel, within).await
            } else {
                None
            };
            if known.is_told(allowed, asked_in) {
                tracing::warn!(
                    target: "leaselock", channel,
                    "the user may not publish, or not ask who listens: waiters are not woken and poll"
                );
                notifier.wake_all();
            }
        }));
    }
}
