//! An open connection, and its driver.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use redis::aio::MultiplexedConnection;
use tokio::task::AbortHandle;

use super::connection_events::ConnectionEvents;
use super::heartbeat;
use super::push_receiver::{Closing, PushReceiver};
use super::socket::SocketControl;

/// The driver: it moves the bytes of a connection while it is polled.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection, the control that closes its socket, and its driver `D`.
pub(super) struct OpenedConnection<D> {
    pub(super) connection: MultiplexedConnection,
    pub(super) control: Arc<SocketControl>,
    pub(super) driver: D,
}

impl OpenedConnection<Driver> {
    pub(super) fn spawn(self) -> OpenedConnection<RunningDriver> {
        OpenedConnection {
            connection: self.connection,
            control: self.control,
            driver: RunningDriver::start(self.driver),
        }
    }

    /// Runs the driver, and closes the receiver with it, or before it when the connection is silent.
    ///
    /// Requests then continue, each with its own deadline, and waiters are woken elsewhere. The driver is polled first.
    /// So a runtime that was not driven for a while reads what has arrived before it takes the connection for silent.
    pub(super) fn spawn_to_receive(
        mut self,
        receiver: &Arc<PushReceiver>,
    ) -> OpenedConnection<RunningDriver> {
        let closing = Closing(Arc::clone(receiver));
        let (connection, control) = (self.connection.clone(), Arc::clone(&self.control));
        let mut driver = self.driver;
        self.driver = Box::pin(async move {
            tokio::select! {
                biased;
                () = &mut driver => {}
                _ = heartbeat::until_silent(connection, &control) => {
                    drop(closing);
                    driver.await;
                }
            }
        });
        self.spawn()
    }
}

/// A driver on the runtime that created it.
///
/// Dropping this closes the socket, even with replies outstanding: the redis client's own cleanup would wait for them
/// for ever.
#[derive(Debug)]
pub(super) struct RunningDriver {
    task: AbortHandle,
    /// Counts the end of the connection, unless it was closed.
    tells: Arc<OnceLock<ConnectionEvents>>,
}

impl RunningDriver {
    fn start(driver: Driver) -> Self {
        let tells = Arc::new(OnceLock::<ConnectionEvents>::new());
        let told = Arc::clone(&tells);
        let task = tokio::spawn(async move {
            driver.await;
            told.get().inspect(|trouble| trouble.happened());
        });
        let task = task.abort_handle();
        RunningDriver { task, tells }
    }

    /// Counts from now on; the first call decides.
    pub(super) fn tells(&self, trouble: &ConnectionEvents) {
        if self.tells.set(trouble.clone()).is_ok() && self.is_over() {
            trouble.happened();
        }
    }

    /// Closes the socket as soon as its runtime runs the driver.
    pub(super) fn stop(&self) {
        self.task.abort();
    }

    /// True if the connection broke, or its runtime ended.
    pub(super) fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}

impl Drop for RunningDriver {
    fn drop(&mut self) {
        self.task.abort();
    }
}
