//! The listening connection: kept alive for ever, and never silent about what it may have missed.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use tokio::time::{sleep, timeout};

use super::backoff::Backoff;
use super::endpoint::{Endpoint, Raw};
use super::fault;
use super::socket::Leash;
use crate::clock::Clock;
use crate::error::{ErrorKind, StoreError};
use crate::store::{Event, Sink};

const CLOCK: Clock = Clock::boot();
/// A line that is silently dead is noticed after this and the patience at the latest.
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(2);
/// A connection that lived for less was no success: the next try waits longer.
const STEADY: Duration = Duration::from_secs(2);

/// What the connection hears goes straight to the sink, in the order in which it came.
struct Ear {
    channel: String,
    sink: Sink,
    ready: AtomicBool,
}

impl Ear {
    fn hear(&self, push: PushInfo) {
        let PushInfo { kind, data } = push;
        let mut data = data.into_iter();
        let ours =
            matches!(data.next(), Some(Value::BulkString(name)) if name == self.channel.as_bytes());
        match (kind, data.next()) {
            (PushKind::Subscribe, _) if ours => {
                self.ready.store(true, Ordering::Relaxed);
                (self.sink)(Event::Ready);
            }
            (PushKind::Message, Some(Value::BulkString(payload))) if ours => {
                (self.sink)(Event::Message(payload))
            }
            _ => {}
        }
    }
}

/// Listens until it is dropped.
pub(super) async fn listen(endpoint: &Endpoint, channel: &str, sink: Sink) {
    let ear = Arc::new(Ear {
        channel: channel.to_owned(),
        sink,
        ready: AtomicBool::new(false),
    });
    let mut backoff = Backoff::default();
    let mut told = None;
    loop {
        let began = CLOCK.now();
        let error = session(endpoint, &ear).await;
        if ear.ready.swap(false, Ordering::Relaxed) {
            (ear.sink)(Event::Gap);
            told = None;
        }
        if told != Some(error.kind()) {
            tracing::warn!(server = %endpoint, %error, "not listening; waiters have their timers only");
            told = Some(error.kind());
        }
        if CLOCK.now().saturating_since(began) >= STEADY {
            backoff.reset();
        }
        sleep(backoff.next()).await;
    }
}

/// One connection from its beginning to its end.
async fn session(endpoint: &Endpoint, ear: &Arc<Ear>) -> StoreError {
    let leash = Arc::new(OnceLock::<Arc<Leash>>::new());
    let heard = (ear.clone(), leash.clone());
    let sender = move |push| {
        let (ear, leash) = &heard;
        if let Some(leash) = leash.get() {
            leash.answered();
        }
        ear.hear(push);
        Ok::<(), ()>(())
    };
    match endpoint.for_messages(sender).await {
        Ok(Raw {
            connection,
            leash: own,
            driver,
        }) => {
            let own = leash.get_or_init(|| own);
            tokio::select! {
                () = driver => StoreError::refused(ErrorKind::Unreachable, format!("the connection to {endpoint} ended")),
                error = stay(endpoint, ear, connection, own) => error,
            }
        }
        Err(error) => error,
    }
}

/// Subscribes, then makes sure that the line is alive; returns what ended it.
async fn stay(
    endpoint: &Endpoint,
    ear: &Ear,
    mut connection: MultiplexedConnection,
    leash: &Leash,
) -> StoreError {
    let silent = || {
        StoreError::refused(
            ErrorKind::TimedOut,
            format!("no answer from {endpoint} in time"),
        )
    };
    match timeout(PATIENCE, connection.subscribe(&ear.channel)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return endpoint.connecting(error),
        Err(_) => return silent(),
    }
    let ping = redis::cmd("PING");
    loop {
        sleep(PROBE_EVERY).await;
        match timeout(PATIENCE, connection.send_packed_command(&ping)).await {
            Ok(Ok(_)) => leash.answered(), // an error is an answer too
            Ok(Err(error)) => return fault::from_connecting(error, &endpoint.to_string()),
            Err(_) => return silent(),
        }
    }
}
