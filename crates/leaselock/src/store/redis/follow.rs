//! Detection of a switch: one connection to one of the Sentinels, on the client's own thread.

use std::sync::Arc;
use std::time::Duration;

use redis::PushKind;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::endpoint::Endpoint;
use super::endpoint::sentinel::ask::{EACH_WITHIN, look, of_a_sentinel};
use super::endpoint::sentinel::locator::{Address, PrimaryLocator};
use super::sessions::Sessions;
use super::socket::SocketControl;
use crate::base::error::{ErrorKind, StoreError};

/// The interval of polls, which detect a switch whose message was lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many polls there are to one of another Sentinel: this one may be cut off without knowing.
const LOOKS_PER_OTHER: usize = 5;

pub(crate) async fn follow(endpoint: &Endpoint) {
    let Some(watch) = endpoint.watch() else {
        return std::future::pending().await;
    };
    let mut sessions = Sessions::default();
    loop {
        sessions.begin();
        for place in watch.in_turn() {
            let session = FollowSession {
                endpoint,
                watch,
                place: &place,
                node: endpoint.node(watch, &place),
            };
            let Err((heard, error)) = session.run().await;
            if sessions.is_news(heard, &error) {
                tracing::warn!(target: "leaselock", server = %watch.sentinels, %error, "not told of switches by this Sentinel");
            }
        }
        sessions.pause(endpoint).await;
    }
}

/// Why a session ended, and whether any message came in it.
type Never = Result<std::convert::Infallible, (bool, StoreError)>;

/// One connection to one Sentinel.
struct FollowSession<'a> {
    endpoint: &'a Endpoint,
    watch: &'a PrimaryLocator,
    place: &'a Address,
    node: Endpoint,
}

impl FollowSession<'_> {
    async fn run(&self) -> Never {
        let news = Arc::new(Notify::new());
        let notified = Arc::clone(&news);
        // Any message is only a reason to poll.
        let receive = move |push: redis::PushInfo| {
            if push.kind == PushKind::Message {
                notified.notify_one();
            }
        };
        let opened = timeout(EACH_WITHIN, self.node.for_messages(receive)).await;
        let opened = opened.unwrap_or_else(|_| Err(self.node.silent()));
        let opened = opened.map_err(|error| (false, of_a_sentinel(&self.node, error)))?;
        tokio::select! {
            () = opened.driver => Err((true, self.node.ended())),
            ended = self.stay(opened.connection, &opened.control, &news) => ended,
        }
    }

    /// Subscribes, then polls for every message, and at intervals without one.
    async fn stay(
        &self,
        mut connection: MultiplexedConnection,
        control: &SocketControl,
        news: &Notify,
    ) -> Never {
        let silent = |heard| Err((heard, of_a_sentinel(&self.node, self.node.silent())));
        match timeout(EACH_WITHIN, connection.subscribe("+switch-master")).await {
            Ok(Ok(())) => {}
            // A user without the right to subscribe still polls.
            Ok(Err(error)) => match self.node.connecting(error) {
                error if error.kind() == ErrorKind::Forbidden => {}
                error => return Err((false, of_a_sentinel(&self.node, error))),
            },
            Err(_) => return silent(false),
        }
        for looks in 1.. {
            match timeout(EACH_WITHIN, look(&self.node, self.watch, &mut connection)).await {
                Ok(Ok(Some(seen))) => {
                    self.watch.told(&seen);
                    self.watch.answered(self.place, &seen.others);
                }
                Ok(Ok(None)) => {
                    let message =
                        format!("the Sentinel at {} does not know the service", self.node);
                    return Err((
                        true,
                        StoreError::refused(ErrorKind::UnknownService, message),
                    ));
                }
                Ok(Err(error)) => return Err((true, error)),
                Err(_) => return silent(true),
            }
            control.answered();
            if looks % LOOKS_PER_OTHER == 0 {
                self.ask_another(looks / LOOKS_PER_OTHER).await;
            }
            tokio::select! {
                () = news.notified() => {}
                () = sleep(LOOK_EVERY) => {}
            }
        }
        silent(true)
    }

    async fn ask_another(&self, count: usize) {
        let mut others = self.watch.in_turn();
        others.retain(|other| other != self.place);
        let Some(other) = others.get(count % others.len().max(1)) else {
            return;
        };
        if let Ok(Some(seen)) = self.endpoint.ask(self.watch, other).await {
            self.watch.told(&seen);
        }
    }
}
