//! Wake-ups for waiters of a lock without a queue: it may be free.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::{Protocol, redisson};
use crate::base::{Clock, Moment, Result};
use crate::engine::values::custom::{BoxFuture, Connections, ReleaseSignal};
use crate::engine::ways::queue::entry::may_mean_free;
use crate::engine::ways::schedule::RateLimit;
use crate::quorum::executor::Executor;
use crate::script::Value;
use crate::store::DedicatedConnection;
use crate::store::subscriptions::Subscription;

/// What wakes one waiter.
enum WakeSource {
    /// Every subscriber receives each release.
    Subscription(Subscription),
    /// The server may report changes of the key, or nothing: polling continues.
    Notifications(Subscription, RateLimit),
    /// Each release wakes one waiter, which takes an element out of a list.
    List(ListWatch),
}

/// Subscribes as the users of the lock do. From then on wake-ups arrive, if there are any.
pub(crate) async fn listen(
    connections: &Connections,
    protocol: Protocol,
    lock: &str,
    list: Option<&str>,
    within: Duration,
) -> Option<Box<dyn ReleaseSignal>> {
    let subscriptions = &connections.subscriptions;
    let source = match (protocol, list) {
        (Protocol::Redisson, _) => {
            let channel = redisson::channel(lock);
            let subscription = subscriptions.subscribe(&channel, redisson::is_unlocked);
            let ready = subscription.ready(within).await;
            ready.then_some(WakeSource::Subscription(subscription))
        }
        (_, Some(list)) => {
            let watch = ListWatch::listen(connections, list);
            let ready = watch.ready(within).await;
            ready.then_some(WakeSource::List(watch))
        }
        _ => {
            let news = connections.store.news_of(lock)?;
            let subscription = subscriptions.subscribe(&news, may_mean_free);
            let ready = subscription.ready(within).await;
            ready.then(|| WakeSource::Notifications(subscription, RateLimit::default()))
        }
    };
    source.map(|source| Box::new(source) as Box<dyn ReleaseSignal>)
}

impl ReleaseSignal for WakeSource {
    fn is_heard(&self) -> bool {
        matches!(self, WakeSource::Subscription(_) | WakeSource::List(_))
    }

    fn told<'a>(&'a self, clock: &'a Clock) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match self {
                WakeSource::Subscription(subscription) => subscription.woken().await,
                WakeSource::Notifications(subscription, pace) => {
                    subscription.woken().await;
                    clock.sleep_until(pace.next(clock.now())).await;
                }
                WakeSource::List(watch) => watch.shared.woken.notified().await,
            }
        })
    }

    fn has_tried(&mut self, now: Moment) {
        match self {
            WakeSource::Subscription(_) => {}
            WakeSource::Notifications(_, pace) => pace.polled(now),
            WakeSource::List(watch) => {
                watch.shared.taken.store(false, Ordering::SeqCst);
                watch.shared.goes_on.notify_one();
            }
        }
    }
}

/// Blocks on a list, on the client's own thread and over a dedicated connection.
///
/// An element that was taken without use is put back, because it was meant to wake some waiter.
struct ListWatch {
    shared: Arc<ListState>,
    ready: watch::Receiver<bool>,
    connections: Connections,
}

#[derive(Default)]
struct ListState {
    /// True if an element was taken, and no waiter has tried since.
    taken: AtomicBool,
    woken: Notify,
    goes_on: Notify,
    /// True if no task waits any more.
    over: AtomicBool,
    /// The connection's id on the server, to end its blocking; 0 when it is not known.
    connection: AtomicI64,
}

/// How long one blocking request waits for a release: not long, so that one that cannot be unblocked ends soon.
const BLOCKED_FOR: Duration = Duration::from_secs(5);
/// How long an element is kept for a waiter that does not try.
const KEPT_FOR: Duration = Duration::from_secs(1);
/// The timeout of everything that does not block.
const WITHIN: Duration = Duration::from_secs(1);

impl ListWatch {
    fn listen(connections: &Connections, list: &str) -> Self {
        let (said, ready) = watch::channel(false);
        let watch = ListWatch {
            shared: Arc::default(),
            ready,
            connections: connections.clone(),
        };
        let taker = Taker {
            connections: connections.clone(),
            shared: Arc::clone(&watch.shared),
            list: list.to_owned(),
        };
        drop(connections.thread.spawn(taker.run(said)));
        watch
    }

    async fn ready(&self, within: Duration) -> bool {
        let mut ready = self.ready.clone();
        let said = tokio::time::timeout(within, ready.wait_for(|ready| *ready)).await;
        said.is_ok_and(|said| said.is_ok())
    }
}

impl Drop for ListWatch {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.shared.goes_on.notify_one();
        let id = self.shared.connection.load(Ordering::SeqCst);
        let store = self.connections.thread_store.clone();
        // The server's reply on the connection itself says whether this was in time.
        drop(self.connections.thread.spawn(async move {
            if id != 0 {
                drop(
                    store
                        .plain(&["CLIENT", "UNBLOCK", &id.to_string()], WITHIN)
                        .await,
                );
            }
        }));
    }
}

struct Taker {
    connections: Connections,
    shared: Arc<ListState>,
    list: String,
}

impl Taker {
    async fn run(self, ready: watch::Sender<bool>) {
        while !self.is_over() {
            if let Err(error) = self.session(&ready).await {
                tracing::debug!(target: "leaselock", channel = self.list, %error, "not listening; the waiter has its timer only");
                ready.send_replace(false);
                self.shared.woken.notify_one(); // a message may have been missed
                self.shared.taken.store(false, Ordering::SeqCst);
                tokio::time::sleep(WITHIN).await;
            }
        }
        if self.shared.taken.swap(false, Ordering::SeqCst) {
            push(&self.connections.thread_store, &self.list).await;
        }
    }

    fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::SeqCst)
    }

    /// Takes elements one by one over one connection.
    async fn session(&self, ready: &watch::Sender<bool>) -> Result<()> {
        let mut private: DedicatedConnection = self.connections.private(WITHIN).await?;
        // Without this right the connection blocks for a moment longer when no task waits any more.
        if let Ok(Value::Int(id)) = private.ask(&["CLIENT", "ID"], WITHIN).await {
            self.shared.connection.store(id, Ordering::SeqCst);
        }
        ready.send_replace(true);
        while !self.is_over() {
            let take = ["BLPOP", &self.list, &BLOCKED_FOR.as_secs().to_string()];
            if private.ask(&take, BLOCKED_FOR + WITHIN).await? == Value::Nil {
                continue;
            }
            self.shared.taken.store(true, Ordering::SeqCst);
            self.shared.woken.notify_one();
            if tokio::time::timeout(KEPT_FOR, self.tried()).await.is_err() {
                // The waiter's future is not polled: another has it, until this one tries again.
                self.shared.taken.store(false, Ordering::SeqCst);
                push(&self.connections.thread_store, &self.list).await;
                self.shared.goes_on.notified().await;
            }
        }
        Ok(())
    }

    /// Waits until the waiter has tried since an element was taken, or waits no more.
    async fn tried(&self) {
        while self.shared.taken.load(Ordering::SeqCst) && !self.is_over() {
            self.shared.goes_on.notified().await;
        }
    }
}

/// Pushes an element, as a release would, for one waiter.
pub(super) async fn push(store: &Executor, list: &str) {
    let commands: [&[&str]; 2] = [&["LPUSH", list, "1"], &["PEXPIRE", list, "1000"]];
    if let Err(error) = store.together(&commands, WITHIN).await {
        tracing::debug!(target: "leaselock", channel = list, %error, "a wake-up is lost");
    }
}
