//! The subscribed connection: reopened for ever, with every gap reported.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use super::backoff::Backoff;
use super::driver::Opened;
use super::endpoint::Endpoint;
use super::error_map;
use super::heartbeat;
use super::heartbeat::PATIENCE;
use super::push_receiver::{PushReceiver, PushReceivers};
use super::socket::SocketControl;
use crate::base::clock::{Clock, Moment};
use crate::base::error::{ErrorKind, StoreError};
use crate::store::Sink;

const CLOCK: Clock = Clock::boot();
/// A connection that lived for less was not a success: the next try waits longer.
const STEADY: Duration = Duration::from_secs(2);

/// Delivers messages until it is dropped.
pub(super) async fn listen(endpoint: &Endpoint, channel: &str, sink: Sink) {
    let hearing = Arc::new(PushReceivers {
        channel: channel.to_owned(),
        sink,
    });
    let mut sessions = Sessions::default();
    loop {
        sessions.begin();
        let ear = PushReceiver::new(&hearing);
        let error = session(endpoint, &ear).await;
        let heard = ear.hears();
        ear.close();
        if sessions.is_news(heard, &error) {
            tracing::warn!(server = %endpoint, %error, "not listening; waiters have their timers only");
        }
        sessions.pause(endpoint).await;
    }
}

/// The history of successive connections.
#[derive(Debug)]
pub(super) struct Sessions {
    backoff: Backoff,
    began: Moment,
    /// The error that was logged during the present gap.
    told: Option<ErrorKind>,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions {
            backoff: Backoff::default(),
            began: CLOCK.now(),
            told: None,
        }
    }
}

impl Sessions {
    pub(super) fn begin(&mut self) {
        self.began = CLOCK.now();
    }

    /// True if this end is worth a log entry: an equal one is not repeated.
    pub(super) fn is_news(&mut self, heard: bool, error: &StoreError) -> bool {
        if heard {
            self.told = None;
        }
        self.told.replace(error.kind()) != Some(error.kind())
    }

    /// Pauses before the next one, longer after each immediate failure; at most until the server has moved.
    pub(super) async fn pause(&mut self, endpoint: &Endpoint) {
        if CLOCK.now().saturating_since(self.began) >= STEADY {
            self.backoff.reset();
        }
        tokio::select! {
            () = sleep(self.backoff.next()) => {}
            () = endpoint.moved() => {}
        }
    }
}

/// Runs one connection to its end.
async fn session(endpoint: &Endpoint, ear: &Arc<PushReceiver>) -> StoreError {
    let told = Arc::clone(ear);
    match endpoint.for_messages(move |push| told.hear(push)).await {
        Ok(Opened {
            connection,
            control,
            driver,
        }) => {
            tokio::select! {
                () = driver => ended(endpoint),
                error = stay(endpoint, ear, connection, &control) => error,
            }
        }
        Err(error) => error,
    }
}

/// Subscribes, then checks that the connection is alive; returns why it ended.
async fn stay(
    endpoint: &Endpoint,
    ear: &PushReceiver,
    mut connection: MultiplexedConnection,
    control: &SocketControl,
) -> StoreError {
    match timeout(PATIENCE, connection.subscribe(ear.channel())).await {
        Ok(Ok(())) => until_silent(endpoint, connection, control).await,
        Ok(Err(error)) => endpoint.connecting(error),
        Err(_) => silent(endpoint),
    }
}

/// Checks that the connection is alive; returns why it ended.
pub(super) async fn until_silent(
    endpoint: &Endpoint,
    connection: MultiplexedConnection,
    control: &SocketControl,
) -> StoreError {
    match heartbeat::until_silent(connection, control).await {
        Some(error) => error_map::from_connecting(error, &endpoint.to_string()),
        None => silent(endpoint),
    }
}

pub(super) fn ended(endpoint: &Endpoint) -> StoreError {
    let message = format!("the connection to {endpoint} ended");
    StoreError::refused(ErrorKind::Unreachable, message)
}

pub(super) fn silent(endpoint: &Endpoint) -> StoreError {
    let message = format!("no answer from {endpoint} in time");
    StoreError::refused(ErrorKind::TimedOut, message)
}
