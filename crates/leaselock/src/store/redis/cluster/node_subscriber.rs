//! Subscriptions at every node of a cluster, over one connection each while a channel is wanted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::slots::Node;
use super::topology::Topology;
use crate::base::clock::Clock;
use crate::base::error::{ErrorKind, StoreError};
use crate::script::keys;
use crate::store::redis::channels::{IDLE_MOST, each};
use crate::store::redis::driver::Opened;
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::subscriber;
use crate::store::redis::subscriber::Sessions;
use crate::store::subscriptions::{Due, Subscriptions};

const CLOCK: Clock = Clock::boot();
/// How long the nodes are asked for the owner of a slot whose channel was lost.
const ASKED_FOR: Duration = Duration::from_secs(1);
/// How often, where no node reports by itself that a slot has left.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Serves the subscriptions at every node until it is dropped.
pub(super) async fn serve(topology: &Arc<Topology>) {
    let mut served: HashMap<Node, Arc<Subscriptions>> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        for (node, bells) in topology.ears().nodes() {
            if served.contains_key(&node) {
                continue;
            }
            let ear = NodeSubscriber {
                endpoint: topology.endpoint(&node),
                topology: Arc::clone(topology),
                bells: Arc::clone(&bells),
            };
            served.insert(node, bells);
            tasks.spawn(ear.serve());
        }
        topology.ears().grown.notified().await;
    }
}

/// The subscribing end of one node.
struct NodeSubscriber {
    endpoint: Endpoint,
    topology: Arc<Topology>,
    bells: Arc<Subscriptions>,
}

impl NodeSubscriber {
    async fn serve(self) {
        let mut sessions = Sessions::default();
        loop {
            self.bells.wanted().await;
            sessions.begin();
            let asked = self.topology.asked();
            let outcome = self.session().await;
            let heard = self.bells.gap();
            if let Err(error) = outcome {
                if sessions.is_news(heard, &error) {
                    tracing::warn!(server = %self.endpoint, %error, "not listening; waiters have their timers only");
                }
                // The channels may now belong to another node.
                let until = CLOCK.now().plus(ASKED_FOR);
                drop(self.topology.refresh(asked, until).await);
                sessions.pause(&self.endpoint).await;
            }
        }
    }

    /// Runs one connection to its end: an error, a slot that has moved, or no subscription any more.
    async fn session(&self) -> Result<(), StoreError> {
        let told = Arc::clone(&self.bells);
        let moved = Arc::new(Notify::new());
        let slot_moved = Arc::clone(&moved);
        let hear = move |push| {
            if tell(&told, push) {
                slot_moved.notify_one();
            }
        };
        let Opened {
            connection,
            control,
            driver,
        } = self.endpoint.for_messages(hear).await?;
        tokio::select! {
            () = driver => Err(subscriber::ended(&self.endpoint)),
            error = subscriber::until_silent(&self.endpoint, connection.clone(), &control) => Err(error),
            outcome = self.follow(connection) => outcome,
            () = self.keep_asking() => Ok(()),
            // A push of the node is taken for a reply, so no reply can be trusted from here on.
            () = moved.notified() => {
                let message = format!("a slot has left {}", self.endpoint);
                Err(StoreError::refused(ErrorKind::ClusterDown, message))
            }
        }
    }

    /// Asks for the table at intervals: ordinary channels stay when a slot leaves, and no message reports that.
    async fn keep_asking(&self) {
        loop {
            sleep(ASKED_EVERY).await;
            let sharded = self.topology.ears().sharded.load(Ordering::SeqCst);
            if !sharded && !self.bells.is_idle() {
                let until = CLOCK.now().plus(ASKED_FOR);
                drop(self.topology.refresh(self.topology.asked(), until).await);
            }
        }
    }

    /// Subscribes and unsubscribes as waiters come and go.
    async fn follow(&self, mut connection: MultiplexedConnection) -> Result<(), StoreError> {
        loop {
            let Due {
                subscribe,
                unsubscribe,
            } = self.bells.due();
            let left = each(&self.endpoint, &mut connection, unsubscribing, &unsubscribe).await?;
            for (_, answer) in left {
                match answer {
                    // The channel has left with its slot.
                    Err(error) if error.kind() != ErrorKind::ClusterDown => return Err(error),
                    _ => {}
                }
            }
            let answers = each(&self.endpoint, &mut connection, subscribing, &subscribe).await?;
            for (channel, answer) in answers {
                self.subscribed(channel, answer)?;
            }
            if !self.bells.is_idle() {
                self.bells.changed().await;
            } else if timeout(IDLE_MOST, self.bells.changed()).await.is_err()
                && self.bells.is_idle()
            {
                return Ok(());
            }
        }
    }

    fn subscribed(&self, channel: &str, answer: Result<(), StoreError>) -> Result<(), StoreError> {
        match answer {
            Ok(()) => self.bells.heard(channel),
            Err(error) if error.kind() == ErrorKind::ClusterDown => {
                let asked = self.topology.asked();
                self.bells.gone(|name| name == channel);
                self.topology.refresh_in_background(asked);
            }
            Err(error) if error.may_pass() => return Err(error),
            Err(error) => {
                tracing::debug!(server = %self.endpoint, %error, "a channel may not be heard");
                if keys::is_sharded(channel) {
                    self.topology.ears().sharded.store(false, Ordering::SeqCst);
                }
                self.bells.refused(channel);
            }
        }
        Ok(())
    }
}

fn subscribing(channel: &str) -> &'static str {
    if keys::is_sharded(channel) {
        "SSUBSCRIBE"
    } else {
        "SUBSCRIBE"
    }
}

fn unsubscribing(channel: &str) -> &'static str {
    if keys::is_sharded(channel) {
        "SUNSUBSCRIBE"
    } else {
        "UNSUBSCRIBE"
    }
}

/// Passes a message on; true when a wanted channel was lost.
fn tell(bells: &Subscriptions, push: PushInfo) -> bool {
    let PushInfo { kind, data } = push;
    match (kind, &data[..]) {
        (
            PushKind::Message | PushKind::SMessage,
            [Value::BulkString(channel), Value::BulkString(words), ..],
        ) => {
            bells.message(channel, words);
            false
        }
        (PushKind::SUnsubscribe, [Value::BulkString(channel), ..]) => bells.is_heard(channel),
        _ => false,
    }
}
