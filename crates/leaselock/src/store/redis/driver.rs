//! An opened connection, and what moves its bytes.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use redis::aio::MultiplexedConnection;
use tokio::task::AbortHandle;

use super::connection_events::ConnectionEvents;
use super::heartbeat;
use super::push_receiver::{Closing, PushReceiver};
use super::socket::SocketControl;

/// What moves the bytes of a connection while it is polled.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection, what closes its socket, and `D`, which moves its bytes.
pub(super) struct Opened<D> {
    pub(super) connection: MultiplexedConnection,
    pub(super) control: Arc<SocketControl>,
    pub(super) driver: D,
}

impl Opened<Driver> {
    /// From here on the present runtime moves the bytes.
    pub(super) fn spawn(self) -> Opened<RunningDriver> {
        Opened {
            connection: self.connection,
            control: self.control,
            driver: RunningDriver::start(self.driver),
        }
    }

    /// The same. The ear closes with the driver, or before it when the line is silent: requests go on then, each with
    /// its own deadline, and waiters are told elsewhere. The driver comes first, so that a runtime that was not driven
    /// for a while reads what has come before it calls the line silent.
    pub(super) fn spawn_to_hear(mut self, ear: &Arc<PushReceiver>) -> Opened<RunningDriver> {
        let closing = Closing(Arc::clone(ear));
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

/// A driver on the runtime that made it. Dropping this closes the socket, even when answers are still owed: the
/// client's own clean-up would wait for them for ever.
#[derive(Debug)]
pub(super) struct RunningDriver {
    task: AbortHandle,
    /// Who is told when the connection has ended by itself.
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

    /// From now on. Once is enough.
    pub(super) fn tells(&self, trouble: &ConnectionEvents) {
        if self.tells.set(trouble.clone()).is_ok() && self.is_over() {
            trouble.happened();
        }
    }

    /// Closes the socket as soon as its runtime gets to it.
    pub(super) fn stop(&self) {
        self.task.abort();
    }

    /// The connection broke, or its runtime is gone.
    pub(super) fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}

impl Drop for RunningDriver {
    fn drop(&mut self) {
        self.task.abort();
    }
}
