//! The listening connection: kept alive for ever, and never silent about what it may have missed.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use super::backoff::Backoff;
use super::ear::{Ear, Hearing};
use super::endpoint::{Endpoint, Raw};
use super::fault;
use super::probe::{self, PATIENCE};
use super::socket::Leash;
use crate::clock::Clock;
use crate::error::{ErrorKind, StoreError};
use crate::store::Sink;

const CLOCK: Clock = Clock::boot();
/// A connection that lived for less was no success: the next try waits longer.
const STEADY: Duration = Duration::from_secs(2);

/// Listens until it is dropped.
pub(super) async fn listen(endpoint: &Endpoint, channel: &str, sink: Sink) {
    let hearing = Arc::new(Hearing {
        channel: channel.to_owned(),
        sink,
    });
    let mut backoff = Backoff::default();
    let mut told = None;
    loop {
        let began = CLOCK.now();
        let ear = Ear::new(&hearing);
        let error = session(endpoint, &ear).await;
        if ear.hears() {
            told = None;
        }
        ear.close();
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
    match endpoint.for_messages(ear).await {
        Ok(Raw {
            connection,
            leash,
            driver,
        }) => {
            tokio::select! {
                () = driver => StoreError::refused(ErrorKind::Unreachable, format!("the connection to {endpoint} ended")),
                error = stay(endpoint, ear, connection, &leash) => error,
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
    match timeout(PATIENCE, connection.subscribe(ear.channel())).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return endpoint.connecting(error),
        Err(_) => return silent(),
    }
    match probe::until_silent(connection, leash).await {
        Some(error) => fault::from_connecting(error, &endpoint.to_string()),
        None => silent(),
    }
}
