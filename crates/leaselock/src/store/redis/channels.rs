//! The connection for temporary subscriptions: opened for the first one, closed after an idle time.
//!
//! One connection serves all channels, for any number of waiters.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, PushInfo, PushKind, Value};
use tokio::time::timeout;

use super::driver::Opened;
use super::endpoint::Endpoint;
use super::heartbeat::PATIENCE;
use super::subscriber;
use super::subscriber::Sessions;
use crate::base::error::StoreError;
use crate::store::subscriptions::{Due, Subscriptions};

/// How long an idle connection is kept: a task that waits for one lock after another needs no new one for each.
pub(super) const IDLE_MOST: Duration = Duration::from_secs(10);

/// Serves the subscriptions until it is dropped.
pub(super) async fn serve(endpoint: &Endpoint, bells: &Arc<Subscriptions>) {
    let mut sessions = Sessions::default();
    loop {
        bells.wanted().await;
        sessions.begin();
        let outcome = session(endpoint, bells).await;
        let heard = bells.gap();
        if let Err(error) = outcome {
            if sessions.is_news(heard, &error) {
                tracing::warn!(server = %endpoint, %error, "releases of other libraries are not heard; they are looked for");
            }
            sessions.pause(endpoint).await;
        }
    }
}

/// Runs one connection to its end: an error, or no subscription for the idle time.
async fn session(endpoint: &Endpoint, bells: &Arc<Subscriptions>) -> Result<(), StoreError> {
    let told = Arc::clone(bells);
    let Opened {
        connection,
        control,
        driver,
    } = endpoint.for_messages(move |push| tell(&told, push)).await?;
    tokio::select! {
        () = driver => Err(subscriber::ended(endpoint)),
        error = subscriber::until_silent(endpoint, connection.clone(), &control) => Err(error),
        outcome = follow(endpoint, bells, connection) => outcome,
    }
}

fn tell(bells: &Subscriptions, push: PushInfo) {
    if push.kind != PushKind::Message {
        return;
    }
    if let [Value::BulkString(channel), Value::BulkString(words), ..] = &push.data[..] {
        bells.message(channel, words);
    }
}

/// Subscribes and unsubscribes as waiters come and go.
async fn follow(
    endpoint: &Endpoint,
    bells: &Subscriptions,
    mut connection: MultiplexedConnection,
) -> Result<(), StoreError> {
    loop {
        let Due {
            subscribe,
            unsubscribe,
        } = bells.due();
        for left in each(endpoint, &mut connection, |_| "UNSUBSCRIBE", &unsubscribe).await? {
            left.1?; // the end of the connection ends the subscription too
        }
        for (channel, answer) in
            each(endpoint, &mut connection, |_| "SUBSCRIBE", &subscribe).await?
        {
            match answer {
                Ok(()) => bells.heard(channel),
                Err(error) if error.may_pass() => return Err(error),
                Err(error) => {
                    tracing::debug!(server = %endpoint, %error, "a channel may not be heard");
                    bells.refused(channel);
                }
            }
        }
        if !bells.is_idle() {
            bells.changed().await;
        } else if timeout(IDLE_MOST, bells.changed()).await.is_err() && bells.is_idle() {
            return Ok(());
        }
    }
}

/// Sends one command for each channel, because the server refuses a command as a whole. They leave together.
pub(super) async fn each<'a>(
    endpoint: &Endpoint,
    connection: &mut MultiplexedConnection,
    verb: impl Fn(&str) -> &'static str,
    channels: &'a [Arc<str>],
) -> Result<Vec<(&'a str, Result<(), StoreError>)>, StoreError> {
    if channels.is_empty() {
        return Ok(Vec::new());
    }
    let mut commands = Pipeline::with_capacity(channels.len());
    for channel in channels {
        commands.cmd(verb(channel)).arg(&**channel);
    }
    let answers = connection.send_packed_commands(&commands, 0, channels.len());
    let answers = match timeout(PATIENCE, answers).await {
        Ok(Ok(answers)) => answers,
        Ok(Err(error)) => return Err(endpoint.connecting(error)),
        Err(_) => return Err(subscriber::silent(endpoint)),
    };
    let meaning = |answer| match answer {
        Value::ServerError(reply) => Err(endpoint.refusal(&reply)),
        _ => Ok(()),
    };
    let names = channels.iter().map(|channel| &**channel);
    Ok(names.zip(answers.into_iter().map(meaning)).collect())
}
