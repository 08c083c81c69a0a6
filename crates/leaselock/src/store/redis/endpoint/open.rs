//! Opening a connection: for requests, for messages, or for both; and the first commands on it.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, RedisConnectionInfo, Value};
use tokio::time::timeout;

use super::Endpoint;
use crate::base::error::{ErrorKind, Result};
use crate::store::redis::driver::{Driver, OpenedConnection, RunningDriver};
use crate::store::redis::error_map;
use crate::store::redis::push_receiver::PushReceiver;
use crate::store::redis::socket::{Socket, SocketControl};

/// The longest attempt, so that a host that drops packets does not delay a better try.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);
/// The queue of requests: many tasks share a connection, and the redis client's default makes the fifty-first wait.
const QUEUE: usize = 1024;

impl Endpoint {
    /// Opens a connection for requests, logged in and replying.
    pub(crate) async fn for_requests(&self) -> Result<OpenedConnection<RunningDriver>> {
        self.in_time(async {
            // `greet` sends the login, because the redis client hides the server's reply to its own.
            let anonymous = RedisConnectionInfo::default().set_skip_set_lib_name();
            let config = AsyncConnectionConfig::new();
            let opened = self.open(&anonymous, config, Arc::default()).await?;
            let mut opened = opened.spawn();
            match self.greet(&mut opened.connection).await {
                Ok(()) => Ok(opened),
                Err(error) => Err(match opened.control.first_error() {
                    Some(line) if error.kind() == ErrorKind::Unreachable => {
                        error_map::surely_not(self.explain(&line))
                    }
                    _ => self.behind(&opened.control, error),
                }),
            }
        })
        .await
    }

    /// Opens a connection for requests that receives messages too: logged in, subscribed and replying.
    pub(crate) async fn for_both(
        &self,
        receiver: &Arc<PushReceiver>,
    ) -> Result<OpenedConnection<RunningDriver>> {
        self.in_time(async {
            let told = Arc::clone(receiver);
            let deliver = move |push| told.deliver(push);
            let opened = self.open_to(deliver, i64::from(self.0.url.db)).await?;
            let mut opened = opened.spawn_to_receive(receiver);
            let subscribed = opened.connection.subscribe(receiver.channel()).await;
            subscribed.map_err(|error| self.connecting(error))?;
            self.serves(&mut opened.connection).await?;
            Ok(opened)
        })
        .await
    }

    /// Opens a connection for messages. Its driver is not spawned: it ends with the future that polls it.
    pub(crate) async fn for_messages(
        &self,
        deliver: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<OpenedConnection<Driver>> {
        self.in_time(async {
            let mut opened = self.open_to(deliver, 0).await?;
            if self.0.watch.is_some() {
                tokio::select! {
                    serves = self.serves(&mut opened.connection) => serves?,
                    () = &mut opened.driver => return Err(self.ended()),
                }
            }
            Ok(opened)
        })
        .await
    }

    /// Opens the connection. Messages need the newer protocol, in which the redis client logs in by itself.
    async fn open_to(
        &self,
        deliver: impl Fn(PushInfo) + Send + Sync + 'static,
        db: i64,
    ) -> Result<OpenedConnection<Driver>> {
        let mut login = RedisConnectionInfo::default()
            .set_skip_set_lib_name()
            .set_protocol(ProtocolVersion::RESP3)
            .set_db(db);
        if let Some(user) = &self.0.url.user {
            login = login.set_username(user);
        }
        if let Some(password) = &self.0.url.password {
            login = login.set_password(password);
        }
        let control = Arc::new(SocketControl::default());
        let answered = Arc::clone(&control);
        let sender = move |push| {
            answered.answered();
            deliver(push);
            Ok::<(), ()>(())
        };
        let config = AsyncConnectionConfig::new().set_push_sender(sender);
        self.open(&login, config, control).await
    }

    async fn open(
        &self,
        login: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
        control: Arc<SocketControl>,
    ) -> Result<OpenedConnection<Driver>> {
        let (stream, located) = self.dial().await?;
        let socket = Socket::new(stream, control.clone());
        // Every call has its own deadline; the redis client's would come first and hide it.
        let config = config
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let made = MultiplexedConnection::new_with_config(login, socket, config);
        let left = async {
            match &located {
                Some(located) => located.is_left().await,
                None => pending().await,
            }
        };
        let made = tokio::select! {
            made = made => made,
            () = left => return Err(self.ended()),
        };
        let (connection, driver) =
            made.map_err(|error| self.behind(&control, self.connecting(error)))?;
        let mut driver: Driver = Box::pin(driver);
        if let Some(located) = located {
            driver = located.hold(driver, Arc::clone(&control));
        }
        Ok(OpenedConnection {
            connection,
            control,
            driver,
        })
    }

    async fn in_time<T>(&self, attempt: impl Future<Output = Result<T>>) -> Result<T> {
        let ended = timeout(ATTEMPT_MAX, attempt).await;
        ended.unwrap_or_else(|_| Err(self.silent()))
    }

    /// Logs in, chooses the database, and finds out whether the server serves.
    async fn greet(&self, connection: &mut MultiplexedConnection) -> Result<()> {
        let url = &self.0.url;
        if let Some(password) = &url.password {
            let mut auth = redis::cmd("AUTH");
            auth.arg(url.user.as_deref()).arg(password);
            self.say(connection, &auth).await?;
        }
        if url.db > 0 {
            self.say(connection, redis::cmd("SELECT").arg(url.db))
                .await?;
        }
        self.serves(connection).await
    }

    async fn serves(&self, connection: &mut MultiplexedConnection) -> Result<()> {
        if let Some(watch) = &self.0.watch {
            return self.is_primary(watch, connection).await;
        }
        match self.say(connection, &redis::cmd("PING")).await {
            // A user without the right to this command may still lock.
            Err(error) if error.to_string().contains("NOPERM") => Ok(()),
            outcome => outcome,
        }
    }

    async fn say(&self, connection: &mut MultiplexedConnection, command: &Cmd) -> Result<()> {
        match connection.send_packed_command(command).await {
            Ok(Value::ServerError(reply)) => Err(self.refusal(&reply)),
            Ok(_) => Ok(()),
            Err(error) => Err(self.connecting(error)),
        }
    }
}
