//! The messages of one channel on one connection.

use std::sync::{Arc, Mutex};

use redis::{PushInfo, PushKind, Value};

use crate::base::{debug_as, hold};
use crate::store::{Event, Sink};

/// A channel, and the sink of its messages.
pub(super) struct PushChannel {
    pub(super) name: String,
    pub(super) sink: Sink,
}

/// The receiver of one connection: messages go directly to the sink, in their order.
#[derive(Debug)]
pub(super) struct PushReceiver {
    channel: Arc<PushChannel>,
    /// Held while the sink is called, so that no message follows the end.
    phase: Mutex<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not subscribed yet.
    Pending,
    Subscribed,
    /// The connection is given up. Its remaining messages may be older than those of its successor.
    Over,
}

impl PushReceiver {
    pub(super) fn new(channel: &Arc<PushChannel>) -> Arc<Self> {
        Arc::new(PushReceiver {
            channel: Arc::clone(channel),
            phase: Mutex::new(Phase::Pending),
        })
    }

    pub(super) fn channel(&self) -> &str {
        &self.channel.name
    }

    pub(super) fn is_subscribed(&self) -> bool {
        *hold(&self.phase) == Phase::Subscribed
    }

    pub(super) fn deliver(&self, push: PushInfo) {
        let PushInfo { kind, data } = push;
        let mut data = data.into_iter();
        let ours = matches!(data.next(), Some(Value::BulkString(name)) if name == self.channel().as_bytes());
        if !ours {
            return;
        }
        let mut phase = hold(&self.phase);
        match (kind, data.next()) {
            (PushKind::Subscribe, _) if *phase == Phase::Pending => {
                *phase = Phase::Subscribed;
                (self.channel.sink)(Event::Ready);
            }
            (PushKind::Message, Some(Value::BulkString(payload)))
                if *phase == Phase::Subscribed =>
            {
                (self.channel.sink)(Event::Message(payload));
            }
            _ => {}
        }
    }

    /// Passes no message on from here on, and reports a gap if it was subscribed.
    pub(super) fn close(&self) {
        let mut phase = hold(&self.phase);
        if std::mem::replace(&mut *phase, Phase::Over) == Phase::Subscribed {
            (self.channel.sink)(Event::Gap);
        }
    }
}

debug_as!(PushChannel, it => "PushChannel({:?})", it.name);

/// Closes the receiver when its connection's driver ends, for any reason.
///
/// The connection broke, it was given up, or its runtime ended.
pub(super) struct Closing(pub(super) Arc<PushReceiver>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}
