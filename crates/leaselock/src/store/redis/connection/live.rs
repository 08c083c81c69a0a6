//! An open connection.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use tokio::runtime::{Handle, Id};

use crate::store::redis::driver::{OpenedConnection, RunningDriver};
use crate::store::redis::push_receiver::PushReceiver;
use crate::store::redis::socket::SocketControl;

#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    pub(super) control: Arc<SocketControl>,
    pub(super) running: Arc<RunningDriver>,
    /// Set when it receives messages, with its runtime.
    pub(super) receiver: Option<(Arc<PushReceiver>, Id)>,
    /// True if it was opened to receive messages, or because that had failed.
    pub(super) tried: bool,
}

impl Live {
    pub(super) fn new(
        raw: OpenedConnection<RunningDriver>,
        receiver: Option<Arc<PushReceiver>>,
        tried: bool,
    ) -> Arc<Self> {
        Arc::new(Live {
            connection: raw.connection,
            control: raw.control,
            running: Arc::new(raw.driver),
            receiver: receiver.map(|receiver| (receiver, Handle::current().id())),
            tried,
        })
    }

    /// True if messages arrive in the caller's runtime: another may have stopped being driven.
    pub(super) fn receives(&self) -> bool {
        self.receiver.as_ref().is_some_and(|(receiver, runtime)| {
            let is_current = |handle: Handle| handle.id() == *runtime;
            receiver.is_subscribed() && Handle::try_current().is_ok_and(is_current)
        })
    }
}
