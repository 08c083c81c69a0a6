//! One shared subscription per client: a message wakes the one waiter whose token it names.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::grant_deadline::{Message, ReceivedGrant};
use crate::base::token::ByRandom;
use crate::base::{Clock, Token, hold};
use crate::engine::services::cleanup::Cleanup;
use crate::quorum::executor::Executor;
use crate::store::{Event, LeaseHolder};

type Waiters = HashMap<Token, Arc<WaiterEntry>, BuildHasherDefault<ByRandom>>;

#[derive(Debug)]
pub(crate) struct Notifier {
    waiters: Mutex<Waiters>,
    /// Messages arrive at present.
    listening: watch::Sender<bool>,
    /// How often messages began or ceased to arrive.
    subscription: AtomicU64,
    wanted: Notify,
    clock: Clock,
    cleanup: Cleanup,
    leases: Arc<dyn LeaseHolder>,
    pub(crate) rights: Rights,
}

/// A waiter that can be woken. It is registered before its request is sent, so that no order between an answer and a
/// message matters. Dropping it unregisters.
#[derive(Debug)]
pub(crate) struct Registration {
    notifier: Arc<Notifier>,
    token: Token,
    entry: Arc<WaiterEntry>,
}

#[derive(Debug)]
struct WaiterEntry {
    woken: Notify,
    /// What the latest message said.
    received: Mutex<Option<ReceivedGrant>>,
    /// The position at the latest poll; 0 before the first.
    position: AtomicU64,
    /// True if the latest request asked for its grant over the connection of the requests.
    along: AtomicBool,
}

/// When a holder dies, the waiters up to this position are woken. The others poll soon enough.
const NEAR: u64 = 2;

impl Notifier {
    pub(crate) fn new(clock: Clock, cleanup: Cleanup, leases: Arc<dyn LeaseHolder>) -> Self {
        let (waiters, listening) = (Mutex::default(), watch::Sender::new(false));
        Notifier {
            waiters,
            listening,
            subscription: AtomicU64::new(0),
            wanted: Notify::new(),
            clock,
            cleanup,
            leases,
            rights: Rights::default(),
        }
    }

    /// Subscribes once a waiter wants it, and for good. To be run on the client's thread.
    pub(crate) async fn run(self: Arc<Self>, store: Executor, channel: String) {
        self.wanted.notified().await;
        let notifier = Arc::clone(&self);
        store
            .listen(&channel, Box::new(move |event| notifier.receive(event)))
            .await;
    }

    pub(crate) fn receive(&self, event: Event) {
        if matches!(event, Event::Ready | Event::Gap) {
            self.subscription.fetch_add(1, Ordering::SeqCst); // before the first message that comes after it
        }
        match event {
            Event::Ready => {
                // Found before it is said: a waiter that enters the queue upon that has missed nothing.
                let waiting = self.waiting_up_to(u64::MAX);
                self.listening.send_replace(true);
                self.cleanup.retry_now();
                waiting.iter().for_each(|entry| entry.woken.notify_one());
            }
            Event::Gap => drop(self.listening.send_replace(false)),
            Event::Ended => {
                let near = self.waiting_up_to(NEAR);
                near.iter().for_each(|entry| entry.woken.notify_one());
            }
            Event::Message(message) => self.wake(&message),
        }
    }

    /// Takes an event of the connection of the requests, in the user's own runtime. When that connection ends, the waiters
    /// that listen there poll, and name another channel: nothing else would bring it back.
    pub(crate) fn receive_on_connection(&self, event: Event) {
        match event {
            Event::Message(message) => self.wake(&message),
            Event::Gap => {
                let mut concerned = self.waiting_up_to(u64::MAX);
                concerned.retain(|entry| entry.along.load(Ordering::SeqCst));
                concerned.iter().for_each(|entry| entry.woken.notify_one());
            }
            Event::Ready | Event::Ended => {}
        }
    }

    /// Takes an event of a node of a cluster. After a gap each waiter there is woken by its own subscription.
    pub(crate) fn receive_at_node(&self, event: Event) {
        match event {
            Event::Message(message) => self.wake(&message),
            // The times of answers from before and of messages from now on may come from different nodes.
            Event::Gap => {
                self.subscription.fetch_add(1, Ordering::SeqCst);
                self.cleanup.retry_now();
            }
            Event::Ready | Event::Ended => {}
        }
    }

    /// The waiters up to this position. A waiter that is not in the queue yet has no reason to poll.
    fn waiting_up_to(&self, most: u64) -> Vec<Arc<WaiterEntry>> {
        let is_waiting = |entry: &&Arc<WaiterEntry>| {
            (1..=most).contains(&entry.position.load(Ordering::Relaxed))
        };
        hold(&self.waiters)
            .values()
            .filter(is_waiting)
            .cloned()
            .collect()
    }

    /// Wakes the waiter whose token was granted. A token without a waiter is left to the cleanup.
    fn wake(&self, message: &[u8]) {
        if message.is_empty() {
            return; // we have tried whether we may publish
        }
        let (token, grant) = match Message::parse(message) {
            // The reply to a renewal says which one was broken.
            Some(Message::Broken) => return self.leases.verify_all(),
            Some(Message::To(token, grant)) => (Token::parse(token), grant),
            None => (None, None),
        };
        let entry = token
            .as_ref()
            .and_then(|token| hold(&self.waiters).get(token).cloned());
        let at = self.clock.now();
        let Some(entry) = entry else {
            self.cleanup.on_unexpected_message(token, at);
            return;
        };
        *hold(&entry.received) = grant.map(|grant| ReceivedGrant { grant, at });
        entry.woken.notify_one();
    }

    /// Which connection brings the messages.
    pub(crate) fn subscription(&self) -> u64 {
        self.subscription.load(Ordering::SeqCst)
    }

    /// Waits until messages arrive, at most for `within`. True if they do.
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

    pub(crate) fn register(self: &Arc<Self>, token: &Token) -> Registration {
        let token = token.clone();
        let entry = Arc::new(WaiterEntry {
            woken: Notify::new(),
            received: Mutex::default(),
            position: AtomicU64::new(0),
            along: AtomicBool::new(false),
        });
        hold(&self.waiters).insert(token.clone(), Arc::clone(&entry));
        Registration {
            notifier: Arc::clone(self),
            token,
            entry,
        }
    }

    pub(crate) fn waits(&self, token: &Token) -> bool {
        hold(&self.waiters).contains_key(token)
    }

    /// Wakes every waiter in the queue, which then polls.
    pub(crate) fn wake_all(&self) {
        let waiting = self.waiting_up_to(u64::MAX);
        waiting.iter().for_each(|entry| entry.woken.notify_one());
    }

    pub(crate) fn has_waiters(&self) -> bool {
        !hold(&self.waiters).is_empty()
    }
}

#[cfg(all(test, feature = "embedded"))]
impl Notifier {
    /// A grant has come for which its waiter was not polled yet.
    pub(crate) fn has_received_a_grant(&self) -> bool {
        hold(&self.waiters)
            .values()
            .any(|entry| hold(&entry.received).is_some())
    }

    /// As if it had come at this moment.
    pub(crate) fn set_received_at(&self, at: crate::base::clock::Moment) {
        let waiters = hold(&self.waiters);
        for mut received in waiters.values().map(|entry| hold(&entry.received)) {
            if let Some(received) = received.as_mut() {
                received.at = at;
            }
        }
    }
}

impl Registration {
    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// What the latest message said, once.
    pub(crate) fn received(&self) -> Option<ReceivedGrant> {
        hold(&self.entry.received).take()
    }

    /// Ends with the next wake-up; one that came since the last call counts.
    pub(crate) async fn woken(&self) {
        self.entry.woken.notified().await;
    }

    /// The next request enters the queue: from now on a gap counts, also one that ends before the answer.
    pub(crate) fn enters_queue(&self) {
        self.set_position(u64::MAX);
    }

    /// Whether the grant is to come over the connection of the requests. To be called before the request is sent.
    pub(crate) fn set_along(&self, along: bool) {
        self.entry.along.store(along, Ordering::SeqCst);
    }

    pub(crate) fn set_position(&self, position: u64) {
        self.entry.position.store(position, Ordering::Relaxed);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        hold(&self.notifier.waiters).remove(&self.token);
    }
}

// Whether this client's user has the rights that a hand-over needs: to count subscribers, and to publish.
//
// Without them, the releases of clients with the same user wake no waiter, although each client may subscribe. The
// client asks the store once for each connection, in the background, and only when a waiter has waited for a while.
// Where locks change hands quickly it never asks.

/// The known rights, for plain channels and for sharded ones.
#[derive(Debug)]
pub(crate) struct Rights([KnownRights; 2]);

#[derive(Debug)]
pub(crate) struct KnownRights {
    pub(crate) refused: AtomicBool,
    /// The number of the connections over which the store last replied.
    pub(crate) told_in: AtomicU64,
    pub(crate) asking: AtomicBool,
}

impl Default for Rights {
    fn default() -> Self {
        let known = || KnownRights {
            refused: AtomicBool::new(false),
            told_in: AtomicU64::new(u64::MAX),
            asking: AtomicBool::new(false),
        };
        Rights([known(), known()])
    }
}

impl Rights {
    pub(crate) fn of(&self, channel: &str) -> &KnownRights {
        &self.0[usize::from(channel.ends_with(":s"))]
    }
}

impl KnownRights {
    /// Notes the store's reply, if there is one. True for a refusal that is new.
    pub(crate) fn is_told(&self, allowed: Option<bool>, asked_in: u64) -> bool {
        let mut is_news = false;
        if let Some(allowed) = allowed {
            is_news = !self.refused.swap(!allowed, Ordering::SeqCst) && !allowed;
            self.told_in.store(asked_in, Ordering::SeqCst);
        }
        self.asking.store(false, Ordering::SeqCst);
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::ClientId;
    use crate::store::port;

    /// The answer that says "in the queue" may come after all that a gap has swallowed.
    #[tokio::test]
    async fn a_waiter_that_has_asked_to_enter_the_queue_polls_after_a_gap_and_no_other_one() {
        let notifier = Arc::new(Notifier::new(
            Clock::boot(),
            Cleanup::new().0,
            port::no_leases(),
        ));
        let token = || Token::random(&ClientId::random().unwrap(), true).unwrap();
        let (asked, not_yet) = (notifier.register(&token()), notifier.register(&token()));
        asked.enters_queue();
        notifier.receive(Event::Gap);
        notifier.receive(Event::Ready);
        let is_woken = async |registration: &Registration| {
            tokio::time::timeout(Duration::ZERO, registration.woken())
                .await
                .is_ok()
        };
        assert!(is_woken(&asked).await && !is_woken(&not_yet).await);
    }
}
