//! One connection that many tasks share: opened when it is needed, closed when it is in doubt.
//!
//! The redis client's own `ConnectionManager` is not used: a timeout is no reason for it to reconnect, so that later
//! requests would wait behind a stalled connection. It also does not say over which of its connections a reply came,
//! which [`epoch`](Connection::epoch) does.

mod reconnect;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::runtime::{Handle, Id};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::connection_events::ConnectionEvents;
use super::driver::{OpenedConnection, RunningDriver};
use super::endpoint::Endpoint;
use super::push_mode::PushMode;
use super::push_receiver::PushReceiver;
use super::socket::SocketControl;
use crate::base::backoff::Backoff;
use crate::base::{CLOCK, Moment, Result, StoreError, hold};

/// The connection, when there is one.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) endpoint: Endpoint,
    state: Mutex<ConnectionState>,
    /// How many connections were made.
    made: AtomicU64,
    pub(super) push_mode: PushMode,
    pub(super) trouble: ConnectionEvents,
}

#[derive(Debug, Default)]
struct ConnectionState {
    live: Option<Arc<Live>>,
    /// The latest failure of the present outage: the error of requests that time out while another task connects.
    reason: Option<StoreError>,
    /// Held by the task that connects, so that many callers open one connection. It has the time of the next try.
    gate: Arc<tokio::sync::Mutex<Outage>>,
    /// When the gate was last entered by a task that has not left it yet.
    inside_since: Option<Moment>,
}

#[derive(Debug, Default)]
struct Outage {
    backoff: Backoff,
    retry_at: Option<Moment>,
}

impl Connection {
    pub(super) fn new(endpoint: Endpoint, trouble: ConnectionEvents) -> Arc<Self> {
        Arc::new(Connection {
            trouble,
            endpoint,
            state: Mutex::default(),
            made: AtomicU64::new(0),
            push_mode: PushMode::default(),
        })
    }

    /// Returns a connection to the same server, not shared with this one.
    pub(super) fn another(&self) -> Arc<Self> {
        Connection::new(self.endpoint.clone(), self.trouble.clone())
    }

    pub(super) fn epoch(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// True if there is a connection, as far as is known.
    pub(super) fn is_connected(&self) -> bool {
        self.live().is_some()
    }

    /// Sends one command before `until` and returns the server's reply, which may be an error.
    pub(super) async fn ask(
        self: &Arc<Self>,
        command: &Cmd,
        until: Moment,
        time: Duration,
    ) -> Result<Value> {
        let (live, time) = match self.live() {
            Some(live) => (live, time),
            None => (Box::pin(self.connected(until)).await?, CLOCK.left(until)), // rare, and large
        };
        let mut connection = live.connection.clone();
        let sent = timeout(time, connection.send_packed_command(command)).await;
        self.outcome(&live, sent)
    }

    /// Sends commands as one transaction and returns the reply to its `EXEC`.
    pub(super) async fn together(
        self: &Arc<Self>,
        commands: &Pipeline,
        until: Moment,
    ) -> Result<Value> {
        let behind_multi = commands.len() + 1;
        self.answer_at(commands, behind_multi, until).await
    }

    pub(super) async fn reached(self: &Arc<Self>, until: Moment) -> Result<()> {
        if self.live().is_some() {
            return Ok(());
        }
        self.connected(until).await.map(drop)
    }

    /// Sends a command right behind one without arguments, and returns its reply.
    pub(super) async fn behind(
        self: &Arc<Self>,
        first: &str,
        command: &Cmd,
        until: Moment,
    ) -> Result<Value> {
        let mut both = Pipeline::with_capacity(2);
        both.cmd(first).add_command(command.clone());
        self.answer_at(&both, 1, until).await
    }

    /// Sends commands that leave together, and returns one of their replies.
    async fn answer_at(
        self: &Arc<Self>,
        commands: &Pipeline,
        place: usize,
        until: Moment,
    ) -> Result<Value> {
        let live = self.connected(until).await?;
        let mut connection = live.connection.clone();
        let sending = connection.send_packed_commands(commands, place, 1);
        let sent = timeout(CLOCK.left(until), sending).await;
        let one = |answers: Vec<Value>| answers.into_iter().next().unwrap_or(Value::Nil);
        self.outcome(&live, sent.map(|answers| answers.map(one)))
    }

    /// Reads the outcome: a reply, a broken connection, or a timeout.
    fn outcome(&self, live: &Live, sent: Result<RedisResult<Value>, Elapsed>) -> Result<Value> {
        match sent {
            Ok(Ok(value)) => {
                live.control.answered();
                Ok(value)
            }
            // Another request has waited too long for the same server.
            Ok(Err(_)) if live.control.was_silent() => Err(self.endpoint.no_answer()),
            Ok(Err(error)) => {
                self.give_up(live);
                Err(self.endpoint.broke(error))
            }
            Err(_) => {
                // A queued request must not reach a stalled server later, long after the cleanup.
                live.control.give_up_on_silence();
                self.give_up(live);
                Err(self.endpoint.no_answer())
            }
        }
    }

    /// Gives the connection up, so that the next call opens another. This one closes with the last of its callers.
    fn give_up(&self, live: &Live) {
        if let Some((receiver, _)) = &live.receiver {
            receiver.close(); // before there is another
        }
        let mut state = hold(&self.state);
        let is_this = |current: &Arc<Live>| Arc::ptr_eq(&current.running, &live.running);
        if state.live.as_ref().is_some_and(is_this) {
            state.live = None;
            self.trouble.happened();
        }
        live.running.stop();
    }

    /// True if messages arrive over this connection, in the caller's runtime.
    pub(super) fn receives(&self) -> bool {
        self.push_mode.is_on() && self.live().is_some_and(|live| live.receives())
    }

    /// True if that holds for the connection of the caller's next request, which may not exist yet.
    pub(super) fn would_receive(&self) -> bool {
        self.push_mode.is_on() && self.live().is_none_or(|live| live.receives())
    }

    /// Returns the same, after replacing a connection that was opened before any task waited.
    pub(super) async fn start_receiving(self: &Arc<Self>, until: Moment) -> bool {
        if !self.push_mode.begin() {
            return false;
        }
        if let Ok(live) = self.connected(until).await
            && !live.tried
        {
            drop(timeout(CLOCK.left(until), self.replace_untried()).await); // on failure it stays
        }
        self.receives()
    }

    fn live(&self) -> Option<Arc<Live>> {
        hold(&self.state)
            .live
            .clone()
            .filter(|live| !live.running.is_over())
    }
}

/// An open connection.
#[derive(Debug, Clone)]
struct Live {
    connection: MultiplexedConnection,
    control: Arc<SocketControl>,
    running: Arc<RunningDriver>,
    /// Set when it receives messages, with its runtime.
    receiver: Option<(Arc<PushReceiver>, Id)>,
    /// True if it was opened to receive messages, or because that had failed.
    tried: bool,
}

impl Live {
    fn new(
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
    fn receives(&self) -> bool {
        self.receiver.as_ref().is_some_and(|(receiver, runtime)| {
            let is_current = |handle: Handle| handle.id() == *runtime;
            receiver.is_subscribed() && Handle::try_current().is_ok_and(is_current)
        })
    }
}
