//! The manager of subscriptions: it keeps the wanted channels of one set subscribed, over one connection.
//!
//! It opens the connection for the first channel, opens another after each failure, and closes it after an idle time.
//! The publisher says where the connection goes and what is special there: a server, the server that Sentinels name,
//! or one node of a cluster. A connection for requests that receives messages too is not its business: see `push_mode`.

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, PushInfo, PushKind, Value};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::error_map;
use super::heartbeat::{REPLY_WITHIN, until_silent};
use super::sessions::Sessions;
use crate::base::error::{ErrorKind, Result, StoreError, refusal};
use crate::store::subscriptions::Subscriptions;

/// How long an idle connection is kept: a task that waits for one lock after another needs no new one for each.
const IDLE_MOST: Duration = Duration::from_secs(10);

/// The server whose channels are subscribed.
pub(super) trait Publisher: Sync {
    /// What a failure means for the waiters, for the log.
    const CONSEQUENCE: &'static str;

    fn endpoint(&self) -> &Endpoint;

    /// True if the channel belongs to a slot.
    fn is_sharded(&self, _channel: &str) -> bool {
        false
    }

    /// Handles a subscription that was refused. An error ends the connection.
    fn refused(&self, set: &Subscriptions, channel: &str, error: StoreError) -> Refused {
        refuse(self.endpoint(), set, channel, error)
    }

    /// Returns what `failed` must know from before a connection.
    fn begin(&self) -> u64 {
        0
    }

    /// Handles a failure, before the pause and the next connection.
    fn failed(&self, _begun: u64) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Runs beside a connection.
    fn accompany(&self, _set: &Subscriptions) -> impl Future<Output = ()> + Send {
        pending()
    }
}

pub(super) type Refused = Result<()>;

/// Tells the waiters of a refusal that only an operator can change. Any other one ends the connection.
pub(super) fn refuse(
    endpoint: &Endpoint,
    set: &Subscriptions,
    channel: &str,
    error: StoreError,
) -> Refused {
    if error.is_transient() {
        return Err(error);
    }
    tracing::debug!(target: "leaselock", server = %endpoint, %error, "a channel may not be heard");
    set.refused(channel);
    Ok(())
}

pub(super) async fn serve<P: Publisher>(publisher: &P, set: &Arc<Subscriptions>) {
    let endpoint = publisher.endpoint();
    let mut sessions = Sessions::default();
    loop {
        set.wanted().await;
        sessions.begin();
        let begun = publisher.begin();
        let outcome = session(publisher, set).await;
        let was_subscribed = set.gap();
        if let Err(error) = outcome {
            if sessions.is_news(was_subscribed, &error) {
                tracing::warn!(target: "leaselock", server = %endpoint, %error, "{}", P::CONSEQUENCE);
            }
            publisher.failed(begun).await;
            sessions.pause(endpoint).await;
        }
    }
}

/// Runs one connection to its end: an error, a slot that has moved, or no subscription for the idle time.
async fn session(publisher: &impl Publisher, set: &Arc<Subscriptions>) -> Result<()> {
    let endpoint = publisher.endpoint();
    let (told, moved) = (Arc::clone(set), Arc::new(Notify::new()));
    let slot_moved = Arc::clone(&moved);
    let receive = move |push| {
        if deliver(&told, push) {
            slot_moved.notify_one();
        }
    };
    let opened = endpoint.for_messages(receive).await?;
    tokio::select! {
        () = opened.driver => Err(endpoint.ended()),
        ended = until_silent(opened.connection.clone(), &opened.control) => Err(match ended {
            Some(error) => error_map::from_connecting(error, &endpoint.to_string()),
            None => error_map::surely_not(endpoint.no_answer()),
        }),
        outcome = follow(publisher, set, opened.connection) => outcome,
        () = publisher.accompany(set) => Ok(()),
        // A push of the node is taken for a reply, so no reply can be trusted from here on.
        () = moved.notified() => Err(refusal!(ClusterDown: "a slot has left {endpoint}")),
    }
}

/// Passes a push on, in the order of the connection; true when a wanted channel was lost with its slot.
fn deliver(set: &Subscriptions, push: PushInfo) -> bool {
    let PushInfo { kind, data } = push;
    let [Value::BulkString(channel), rest @ ..] = &data[..] else {
        return false;
    };
    let Ok(channel) = std::str::from_utf8(channel) else {
        return false; // not one of these channels
    };
    match (kind, rest) {
        (PushKind::Subscribe | PushKind::SSubscribe, _) => set.subscribed(channel),
        (PushKind::Message | PushKind::SMessage, [Value::BulkString(words), ..]) => {
            set.message(channel, words);
        }
        (PushKind::SUnsubscribe, _) => return set.is_subscribed(channel),
        _ => {}
    }
    false
}

/// Subscribes and unsubscribes as waiters come and go.
async fn follow(
    publisher: &impl Publisher,
    set: &Subscriptions,
    mut connection: MultiplexedConnection,
) -> Result<()> {
    let (subscribing, unsubscribing) =
        (["SUBSCRIBE", "SSUBSCRIBE"], ["UNSUBSCRIBE", "SUNSUBSCRIBE"]);
    loop {
        let due = set.due();
        for (_, answer) in each(publisher, &mut connection, unsubscribing, &due.unsubscribe).await?
        {
            match answer {
                // The channel has left with its slot. The end of the connection ends every other one.
                Err(error) if error.kind() != ErrorKind::ClusterDown => return Err(error),
                _ => {}
            }
        }
        for (channel, answer) in
            each(publisher, &mut connection, subscribing, &due.subscribe).await?
        {
            if let Err(error) = answer {
                publisher.refused(set, channel, error)?;
            }
        }
        if !set.is_idle() {
            set.changed().await;
        } else if timeout(IDLE_MOST, set.changed()).await.is_err() && set.is_idle() {
            return Ok(());
        }
    }
}

/// Sends one command for each channel, because the server refuses a command as a whole. They leave together.
///
/// The second verb is that of a channel that belongs to a slot.
async fn each<'a>(
    publisher: &impl Publisher,
    connection: &mut MultiplexedConnection,
    [plain, sharded]: [&str; 2],
    channels: &'a [Arc<str>],
) -> Result<Vec<(&'a str, Result<()>)>> {
    if channels.is_empty() {
        return Ok(Vec::new());
    }
    let mut commands = Pipeline::with_capacity(channels.len());
    for channel in channels {
        let is_sharded = publisher.is_sharded(channel);
        let verb = if is_sharded { sharded } else { plain };
        commands.cmd(verb).arg(&**channel);
    }
    let endpoint = publisher.endpoint();
    let answers = connection.send_packed_commands(&commands, 0, channels.len());
    let answers = match timeout(REPLY_WITHIN, answers).await {
        Ok(Ok(answers)) => answers,
        Ok(Err(error)) => return Err(endpoint.connecting(error)),
        Err(_) => return Err(error_map::surely_not(endpoint.no_answer())),
    };
    let meaning = |answer| match answer {
        Value::ServerError(reply) => Err(endpoint.refusal(&reply)),
        _ => Ok(()),
    };
    let names = channels.iter().map(|channel| &**channel);
    Ok(names.zip(answers.into_iter().map(meaning)).collect())
}
