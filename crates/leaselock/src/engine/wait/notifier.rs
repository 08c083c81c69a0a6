//! One shared subscription per client: a message wakes the one waiter whose token it names.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::grant_deadline::ReceivedGrant;
use super::grant_message::Message;
use crate::base::clock::Clock;
use crate::base::token::{ByRandom, Token};
use crate::engine::cleanup::Cleanup;
use crate::quorum::executor::Executor;
use crate::store::Event;

type Places = HashMap<Token, Arc<WaiterEntry>, BuildHasherDefault<ByRandom>>;

#[derive(Debug)]
pub(crate) struct Notifier {
    places: Mutex<Places>,
    /// Messages arrive at present.
    listening: watch::Sender<bool>,
    /// How often messages began or ceased to arrive.
    subscription: AtomicU64,
    wanted: Notify,
    clock: Clock,
    cleanup: Cleanup,
}

/// One waiter's place, registered before its request is sent, so that no order between an answer and a message
/// matters. Dropping it unregisters.
#[derive(Debug)]
pub(crate) struct Registration {
    wakeups: Arc<Notifier>,
    token: Token,
    spot: Arc<WaiterEntry>,
}

#[derive(Debug)]
struct WaiterEntry {
    woken: Notify,
    /// What the latest message said.
    heard: Mutex<Option<ReceivedGrant>>,
    /// Place in line at the latest look; 0 before the first.
    position: AtomicU64,
    /// The latest request said that its grant is to come over the connection of the requests.
    along: AtomicBool,
}

/// When a holder dies, those who were so near the head at their latest look are woken; the others look soon enough.
const NEAR: u64 = 2;

impl Notifier {
    pub(crate) fn new(clock: Clock, cleanup: Cleanup) -> Self {
        let (places, listening) = (Mutex::default(), watch::Sender::new(false));
        Notifier {
            places,
            listening,
            subscription: AtomicU64::new(0),
            wanted: Notify::new(),
            clock,
            cleanup,
        }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes once somebody wants it, and for good. To be run on the client's thread.
    pub(crate) async fn run(self: Arc<Self>, store: Executor, channel: String) {
        self.wanted.notified().await;
        let wakeups = Arc::clone(&self);
        store
            .listen(&channel, Box::new(move |event| wakeups.hear(event)))
            .await;
    }

    pub(super) fn hear(&self, event: Event) {
        if matches!(event, Event::Ready | Event::Gap) {
            self.subscription.fetch_add(1, Ordering::SeqCst); // before the first message that comes after it
        }
        match event {
            Event::Ready => {
                // Found before it is said: whoever gets in line upon that has missed nothing.
                let standing = self.standing_up_to(u64::MAX);
                self.listening.send_replace(true);
                self.cleanup.hurry();
                standing.iter().for_each(|spot| spot.woken.notify_one());
            }
            Event::Gap => drop(self.listening.send_replace(false)),
            Event::Ended => {
                let near = self.standing_up_to(NEAR);
                near.iter().for_each(|spot| spot.woken.notify_one());
            }
            Event::Message(message) => self.wake(&message),
        }
    }

    /// What comes over the connection of the requests, in the user's own runtime. When it ends, those who were to be
    /// told over it look again, and say where they can be told from then on: nothing else would bring it back.
    pub(crate) fn hear_along(&self, event: Event) {
        match event {
            Event::Message(message) => self.wake(&message),
            Event::Gap => {
                let mut concerned = self.standing_up_to(u64::MAX);
                concerned.retain(|spot| spot.along.load(Ordering::SeqCst));
                concerned.iter().for_each(|spot| spot.woken.notify_one());
            }
            Event::Ready | Event::Ended => {}
        }
    }

    /// What comes from a node of a cluster. After a gap whoever listens there is rung by its bell.
    pub(crate) fn hear_at_node(&self, event: Event) {
        match event {
            Event::Message(message) => self.wake(&message),
            // The times of answers from before and of messages from now on may come from different nodes.
            Event::Gap => {
                self.subscription.fetch_add(1, Ordering::SeqCst);
                self.cleanup.hurry();
            }
            Event::Ready | Event::Ended => {}
        }
    }

    /// Those who stand in line up to this place. Whoever is not in line yet has no answer to look for.
    fn standing_up_to(&self, most: u64) -> Vec<Arc<WaiterEntry>> {
        let stands =
            |spot: &&Arc<WaiterEntry>| (1..=most).contains(&spot.position.load(Ordering::Relaxed));
        self.places().values().filter(stands).cloned().collect()
    }

    /// Wakes the one whose token was granted. A token that nobody waits for any more is the reaper's matter.
    fn wake(&self, message: &[u8]) {
        if message.is_empty() {
            return; // we have tried whether we may publish
        }
        let message = Message::parse(message);
        let token = message.and_then(|message| Token::parse(message.token));
        let spot = token
            .as_ref()
            .and_then(|token| self.places().get(token).cloned());
        let at = self.clock.now();
        let Some(spot) = spot else {
            self.cleanup.is_called(token, at);
            return;
        };
        let heard = message.and_then(|message| message.grant);
        *spot.heard() = heard.map(|grant| ReceivedGrant { grant, at });
        spot.woken.notify_one();
    }

    /// Which connection brings the messages.
    pub(crate) fn subscription(&self) -> u64 {
        self.subscription.load(Ordering::SeqCst)
    }

    /// Waits until messages arrive, at most for `within`; tells whether they do.
    pub(crate) async fn ready(&self, within: Duration) -> bool {
        self.want();
        let mut listening = self.listening.subscribe();
        tokio::time::timeout(within, listening.wait_for(|on| *on))
            .await
            .is_ok_and(|on| on.is_ok())
    }

    /// The client's own thread is to listen, for good.
    pub(crate) fn want(&self) {
        self.wanted.notify_one();
    }

    pub(crate) fn is_listening(&self) -> bool {
        *self.listening.borrow()
    }

    pub(crate) fn place(self: &Arc<Self>, token: &Token) -> Registration {
        let token = token.clone();
        let spot = Arc::new(WaiterEntry {
            woken: Notify::new(),
            heard: Mutex::default(),
            position: AtomicU64::new(0),
            along: AtomicBool::new(false),
        });
        self.places().insert(token.clone(), Arc::clone(&spot));
        Registration {
            wakeups: Arc::clone(self),
            token,
            spot,
        }
    }

    /// The waiter of this token is there.
    pub(super) fn waits(&self, token: &Token) -> bool {
        self.places().contains_key(token)
    }

    /// Wakes everyone who stands in line, who then looks.
    pub(super) fn all_look(&self) {
        let standing = self.standing_up_to(u64::MAX);
        standing.iter().for_each(|spot| spot.woken.notify_one());
    }

    pub(crate) fn is_anybody_waiting(&self) -> bool {
        !self.places().is_empty()
    }
}

#[cfg(all(test, feature = "embedded"))]
impl Notifier {
    /// A grant has come for which its waiter was not polled yet.
    pub(super) fn has_heard_a_grant(&self) -> bool {
        self.places().values().any(|spot| spot.heard().is_some())
    }

    /// As if it had come at this moment.
    pub(super) fn heard_at(&self, at: crate::base::clock::Moment) {
        let places = self.places();
        for mut heard in places.values().map(|spot| spot.heard()) {
            if let Some(heard) = heard.as_mut() {
                heard.at = at;
            }
        }
    }
}

impl WaiterEntry {
    fn heard(&self) -> MutexGuard<'_, Option<ReceivedGrant>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    /// What the latest message said, once.
    pub(crate) fn heard(&self) -> Option<ReceivedGrant> {
        self.spot.heard().take()
    }

    /// Ends with the next wake-up; one that came since the last call counts.
    pub(crate) async fn woken(&self) {
        self.spot.woken.notified().await;
    }

    /// Somewhere in line, as soon as the request has arrived: a gap that ends before its answer counts already.
    pub(crate) fn is_asked_for(&self) {
        self.stands_at(u64::MAX);
    }

    /// Whether the grant is to come over the connection of the requests. To be said before the request is sent.
    pub(crate) fn is_told_along(&self, along: bool) {
        self.spot.along.store(along, Ordering::SeqCst);
    }

    pub(crate) fn stands_at(&self, position: u64) {
        self.spot.position.store(position, Ordering::Relaxed);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.wakeups.places().remove(&self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::ClientId;

    /// The answer that says "in line" may come after all that a gap has swallowed.
    #[tokio::test]
    async fn whoever_has_asked_for_a_place_looks_after_a_gap_and_nobody_else() {
        let wakeups = Arc::new(Notifier::new(Clock::boot(), Cleanup::new().0));
        let token = || Token::random(&ClientId::random().unwrap(), true).unwrap();
        let (asked, not_yet) = (wakeups.place(&token()), wakeups.place(&token()));
        asked.is_asked_for();
        wakeups.hear(Event::Gap);
        wakeups.hear(Event::Ready);
        let is_woken = async |place: &Registration| {
            tokio::time::timeout(Duration::ZERO, place.woken())
                .await
                .is_ok()
        };
        assert!(is_woken(&asked).await && !is_woken(&not_yet).await);
    }
}
