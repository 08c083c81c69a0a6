//! One connection that many tasks share: made when it is needed, given up when it is in doubt.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::runtime::{Handle, Id};
use tokio::sync::OwnedMutexGuard;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::backoff::Backoff;
use super::endpoint::{Endpoint, Raw, Running};
use super::error_map;
use super::health::ConnectionEvents;
use super::push_mode::PushMode;
use super::push_receiver::PushReceiver;
use super::socket::SocketControl;
use crate::base::clock::{Clock, Moment};
use crate::base::error::{ErrorKind, StoreError};

const CLOCK: Clock = Clock::boot();
/// One pause and one attempt are shorter. Whoever takes longer sits on a runtime that nobody drives any more.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// The connection of a lane, when there is one.
#[derive(Debug)]
pub(super) struct Connection {
    endpoint: Endpoint,
    state: Mutex<State>,
    /// How many connections were made.
    made: AtomicU64,
    wish: PushMode,
    trouble: ConnectionEvents,
}

#[derive(Debug, Default)]
struct State {
    live: Option<Arc<Live>>,
    /// The latest failure of the present outage: the reason for those whose time ends while another is trying.
    reason: Option<StoreError>,
    /// Held by whoever makes a connection, so that many callers make one. With it comes when the next try may be.
    gate: Arc<tokio::sync::Mutex<Outage>>,
    /// When the gate was last passed by somebody who has not come out yet.
    inside_since: Option<Moment>,
}

#[derive(Debug, Default)]
struct Outage {
    backoff: Backoff,
    retry_at: Option<Moment>,
}

#[derive(Debug, Clone)]
struct Live {
    connection: MultiplexedConnection,
    leash: Arc<SocketControl>,
    running: Arc<Running>,
    /// It receives messages, on this runtime.
    ear: Option<(Arc<PushReceiver>, Id)>,
    /// It was made to receive messages or because that had failed.
    tried: bool,
}

impl Live {
    fn new(raw: Raw<Running>, ear: Option<Arc<PushReceiver>>, tried: bool) -> Arc<Self> {
        Arc::new(Live {
            connection: raw.connection,
            leash: raw.leash,
            running: Arc::new(raw.driver),
            ear: ear.map(|ear| (ear, Handle::current().id())),
            tried,
        })
    }

    /// Messages arrive, and in the runtime of whoever asks: another may have stopped being driven.
    fn hears(&self) -> bool {
        self.ear
            .as_ref()
            .is_some_and(|(ear, runtime)| ear.hears() && is_current(*runtime))
    }
}

fn is_current(runtime: Id) -> bool {
    Handle::try_current().is_ok_and(|handle| handle.id() == runtime)
}

impl Connection {
    pub(super) fn new(endpoint: Endpoint, trouble: ConnectionEvents) -> Arc<Self> {
        Arc::new(Connection {
            trouble,
            endpoint,
            state: Mutex::default(),
            made: AtomicU64::new(0),
            wish: PushMode::default(),
        })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// To the same server, over a connection of its own.
    pub(super) fn another(&self) -> Arc<Self> {
        Connection::new(self.endpoint.clone(), self.trouble.clone())
    }

    pub(super) fn trouble(&self) -> &ConnectionEvents {
        &self.trouble
    }

    pub(super) fn epoch(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// There is a connection, as far as is known.
    pub(super) fn is_connected(&self) -> bool {
        self.live().is_some()
    }

    /// Sends one command and returns the server's answer, which may be an error of its own. `time` is left until then.
    pub(super) async fn ask(
        self: &Arc<Self>,
        command: &Cmd,
        until: Moment,
        time: Duration,
    ) -> Result<Value, StoreError> {
        let (live, time) = match self.live() {
            Some(live) => (live, time),
            None => (Box::pin(self.connected(until)).await?, left(until)), // seldom, and large
        };
        let mut connection = live.connection.clone();
        let sent = timeout(time, connection.send_packed_command(command)).await;
        self.outcome(&live, sent)
    }

    /// Sends commands as one transaction and returns the answer of its `EXEC`.
    pub(super) async fn together(
        self: &Arc<Self>,
        commands: &Pipeline,
        until: Moment,
    ) -> Result<Value, StoreError> {
        let live = self.connected(until).await?;
        let mut connection = live.connection.clone();
        let behind_multi = commands.len() + 1;
        let sending = connection.send_packed_commands(commands, behind_multi, 1);
        let sent = timeout(left(until), sending).await;
        let exec = |answers: Vec<Value>| answers.into_iter().next().unwrap_or(Value::Nil);
        self.outcome(&live, sent.map(|answers| answers.map(exec)))
    }

    /// Waits until there is a connection.
    pub(super) async fn reached(self: &Arc<Self>, until: Moment) -> Result<(), StoreError> {
        if self.live().is_some() {
            return Ok(());
        }
        self.connected(until).await.map(drop)
    }

    /// Sends one command that the server carries out although the key is on its way to it.
    pub(super) async fn asking(
        self: &Arc<Self>,
        command: &Cmd,
        until: Moment,
    ) -> Result<Value, StoreError> {
        let live = self.connected(until).await?;
        let mut connection = live.connection.clone();
        let mut both = Pipeline::with_capacity(2);
        both.cmd("ASKING").add_command(command.clone());
        let sending = connection.send_packed_commands(&both, 1, 1);
        let sent = timeout(left(until), sending).await;
        let second = |answers: Vec<Value>| answers.into_iter().next().unwrap_or(Value::Nil);
        self.outcome(&live, sent.map(|answers| answers.map(second)))
    }

    /// What sending came to: an answer, a broken connection, or none in time.
    fn outcome(
        &self,
        live: &Live,
        sent: Result<RedisResult<Value>, Elapsed>,
    ) -> Result<Value, StoreError> {
        match sent {
            Ok(Ok(value)) => {
                live.leash.answered();
                Ok(value)
            }
            // Another request has waited too long for the same server.
            Ok(Err(_)) if live.leash.was_silent() => Err(self.no_answer()),
            Ok(Err(error)) => {
                self.give_up(live);
                Err(error_map::from_connection(
                    error,
                    &self.endpoint.to_string(),
                ))
            }
            Err(_) => {
                // What is still queued must not reach a stalled server later, long after the clean-up.
                live.leash.give_up_on_silence();
                self.give_up(live);
                Err(self.no_answer())
            }
        }
    }

    fn no_answer(&self) -> StoreError {
        let message = format!("no answer from {} in time", self.endpoint);
        StoreError::unknown(ErrorKind::TimedOut, message)
    }

    /// The next call makes a new connection. This one closes when the last of its callers has gone.
    fn give_up(&self, live: &Live) {
        if let Some((ear, _)) = &live.ear {
            ear.close(); // before there is another
        }
        let mut state = self.state();
        if state
            .live
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(&current.running, &live.running))
        {
            state.live = None;
            self.trouble.happened();
        }
        live.running.stop();
    }

    async fn connected(self: &Arc<Self>, until: Moment) -> Result<Arc<Live>, StoreError> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        match timeout(left(until), self.keep_dialling(until)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self
                .state()
                .reason
                .clone()
                .unwrap_or_else(|| self.endpoint.silent())),
        }
    }

    /// Tries until it succeeds, until only a person can help, or until the next try would come too late.
    async fn keep_dialling(self: &Arc<Self>, until: Moment) -> Result<Arc<Live>, StoreError> {
        loop {
            let mut outage = self.gate().lock_owned().await;
            self.state().inside_since = Some(CLOCK.now());
            if let Some(live) = self.live() {
                return Ok(live);
            }
            if let Some(at) = outage.retry_at {
                let reason = self.state().reason.clone();
                if let Some(reason) = reason.filter(|_| at >= until) {
                    return Err(reason);
                }
                let clock = CLOCK;
                tokio::select! {
                    () = clock.sleep_until(at) => {}
                    () = self.endpoint.moved() => {}
                }
                outage.retry_at = None;
            }
            // In a task of its own: a caller who goes away early leaves a connection for the next one, who may have
            // as little time.
            match tokio::spawn(self.clone().dial(outage)).await {
                Ok(Err(error)) if error.may_pass() => {}
                Ok(outcome) => return outcome,
                Err(_) => {
                    return Err(StoreError::refused(
                        ErrorKind::Internal,
                        "the runtime is shutting down",
                    ));
                }
            }
        }
    }

    async fn dial(
        self: Arc<Self>,
        mut outage: OwnedMutexGuard<Outage>,
    ) -> Result<Arc<Live>, StoreError> {
        let outcome = self.connect().await;
        outcome
            .iter()
            .for_each(|live| live.running.tells(&self.trouble));
        let mut state = self.state();
        state.inside_since = None;
        match outcome {
            Ok(live) => {
                tracing::debug!(server = %self.endpoint, "connected");
                *outage = Outage::default();
                self.made.fetch_add(1, Ordering::SeqCst); // before anybody can use it
                state.live = Some(live.clone());
                state.reason = None;
                Ok(live)
            }
            Err(error) => {
                tracing::debug!(server = %self.endpoint, %error, "not connected");
                outage.retry_at = Some(CLOCK.now().plus(outage.backoff.next()));
                state.reason = Some(error.clone());
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Live>, StoreError> {
        if let Some(live) = self.connect_to_hear().await? {
            return Ok(live);
        }
        let raw = self.endpoint.for_requests().await?;
        Ok(Live::new(raw, None, self.wish.done_without()))
    }

    /// A connection that receives messages, when somebody has waited for some and the server lets us.
    async fn connect_to_hear(&self) -> Result<Option<Arc<Live>>, StoreError> {
        let Some(ear) = self.wish.ear() else {
            return Ok(None);
        };
        match self.endpoint.for_both(&ear).await {
            Ok(raw) => Ok(Some(Live::new(raw, Some(ear), true))),
            Err(error) if self.wish.failed(&error) => {
                tracing::debug!(server = %self.endpoint, %error, "requests hear no messages");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn wish(&self) -> &PushMode {
        &self.wish
    }

    /// Messages arrive over this lane, in the runtime of whoever asks.
    pub(super) fn hears(&self) -> bool {
        self.wish.is_to_hear() && self.live().is_some_and(|live| live.hears())
    }

    /// The same for the connection that a request of whoever asks would go over: there may be none yet.
    pub(super) fn would_hear(&self) -> bool {
        self.wish.is_to_hear() && self.live().is_none_or(|live| live.hears())
    }

    /// The same, after having replaced a connection that was made before anybody waited.
    pub(super) async fn listens(self: &Arc<Self>, until: Moment) -> bool {
        if !self.wish.begin() {
            return false;
        }
        if let Ok(live) = self.connected(until).await
            && !live.tried
        {
            drop(timeout(left(until), self.replace_untried()).await); // it stays, then
        }
        self.hears()
    }

    async fn replace_untried(self: &Arc<Self>) {
        let gate = self.gate().lock_owned().await;
        if self.live().is_some_and(|live| !live.tried) {
            self.state().inside_since = Some(CLOCK.now());
            drop(tokio::spawn(self.clone().replace(gate)).await); // an error when the runtime ends
        }
    }

    /// In a task of its own, as `dial`. The present connection stays when there is no better one.
    async fn replace(self: Arc<Self>, _gate: OwnedMutexGuard<Outage>) {
        let better = self.connect_to_hear().await;
        let mut state = self.state();
        state.inside_since = None;
        if let Ok(Some(live)) = better {
            live.running.tells(&self.trouble);
            self.made.fetch_add(1, Ordering::SeqCst); // before anybody can use it
            state.live = Some(live);
            return;
        }
        self.wish.done_without();
        if let Some(live) = &mut state.live {
            Arc::make_mut(live).tried = true;
        }
    }

    /// A new gate when somebody is stuck in the old one.
    fn gate(&self) -> Arc<tokio::sync::Mutex<Outage>> {
        let mut state = self.state();
        if state
            .inside_since
            .is_some_and(|since| CLOCK.now().saturating_since(since) > STUCK_AFTER)
        {
            state.inside_since = None;
            state.gate = Arc::default();
        }
        state.gate.clone()
    }

    fn live(&self) -> Option<Arc<Live>> {
        self.state()
            .live
            .clone()
            .filter(|live| !live.running.is_over())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn left(until: Moment) -> Duration {
    until.saturating_since(CLOCK.now())
}
