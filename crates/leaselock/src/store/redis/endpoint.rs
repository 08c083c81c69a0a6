//! One server: where it is, how to log in, and how a connection to it is made.

mod dial;

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, RedisConnectionInfo, Value};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::error_map;
use super::health::ConnectionEvents;
use super::heartbeat;
use super::push_receiver::{Closing, PushReceiver};
use super::sentinel::PrimaryLocator;
use super::socket::{Socket, SocketControl};
use crate::base::error::{ErrorKind, StoreError};
#[cfg(feature = "tls")]
use crate::store::url::Place;
use crate::store::url::RedisUrl;

/// No attempt lasts longer, so that a host that swallows packets does not keep a better try waiting.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);
/// Many tasks share a connection; the client's own default makes the fifty-first wait.
const QUEUE: usize = 1024;

/// Whoever shares it shares what was read for TLS.
#[derive(Clone)]
pub(super) struct Endpoint(Arc<Inner>);

struct Inner {
    url: RedisUrl,
    /// Who says where the server is, when it is none that stays in its place.
    watch: Option<PrimaryLocator>,
    #[cfg(feature = "tls")]
    tls: Tls,
}

/// Read once, when it is needed first.
#[cfg(feature = "tls")]
type Tls = Arc<OnceLock<Arc<tokio_rustls::rustls::ClientConfig>>>;

/// What moves the bytes of a connection while it is polled.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection and its socket's leash, with `D`, which moves its bytes.
pub(super) struct Raw<D> {
    pub(super) connection: MultiplexedConnection,
    pub(super) leash: Arc<SocketControl>,
    pub(super) driver: D,
}

/// A driver on the runtime that made it. Dropping this closes the socket, even when answers are still owed: the
/// client's own clean-up would wait for them for ever.
#[derive(Debug)]
pub(super) struct Running {
    task: AbortHandle,
    /// Who is told when the connection has ended by itself.
    tells: Arc<OnceLock<ConnectionEvents>>,
}

impl Running {
    fn start(driver: Driver) -> Self {
        let tells = Arc::new(OnceLock::<ConnectionEvents>::new());
        let told = Arc::clone(&tells);
        let task = tokio::spawn(async move {
            driver.await;
            told.get().inspect(|trouble| trouble.happened());
        });
        let task = task.abort_handle();
        Running { task, tells }
    }

    /// From now on. Once is enough.
    pub(super) fn tells(&self, trouble: &ConnectionEvents) {
        if self.tells.set(trouble.clone()).is_ok() && self.is_over() {
            trouble.happened();
        }
    }

    /// The ear closes with it, or before it when the line is silent: requests go on then, each with its own deadline,
    /// and waiters are told elsewhere. The driver comes first, so that a runtime that was not driven for a while reads
    /// what has come before it calls the line silent.
    fn start_hearing(
        mut driver: Driver,
        ear: &Arc<PushReceiver>,
        connection: MultiplexedConnection,
        leash: Arc<SocketControl>,
    ) -> Self {
        let closing = Closing(Arc::clone(ear));
        Running::start(Box::pin(async move {
            tokio::select! {
                biased;
                () = &mut driver => {}
                _ = heartbeat::until_silent(connection, &leash) => {
                    drop(closing);
                    driver.await;
                }
            }
        }))
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

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Endpoint {
    pub(super) fn new(url: RedisUrl) -> Self {
        Endpoint(Arc::new(Inner {
            watch: PrimaryLocator::of(&url),
            url,
            #[cfg(feature = "tls")]
            tls: Tls::default(),
        }))
    }

    /// Another server of the same set-up, which stays in its place.
    pub(super) fn beside(&self, url: RedisUrl) -> Self {
        Endpoint(Arc::new(Inner {
            url,
            watch: None,
            #[cfg(feature = "tls")]
            tls: Arc::clone(&self.0.tls),
        }))
    }

    pub(super) fn url(&self) -> &RedisUrl {
        &self.0.url
    }

    /// Who says where the server is, if anybody does.
    pub(super) fn watch(&self) -> Option<&PrimaryLocator> {
        self.0.watch.as_ref()
    }

    /// The server, as an administrator would call it.
    pub(super) fn place(&self) -> String {
        match self.0.watch.as_ref().and_then(PrimaryLocator::place) {
            Some(primary) => format!("{primary}, the primary of {self},"),
            None => self.to_string(),
        }
    }

    /// Ends when the server is said to be in another place: never when it stays in its place.
    pub(super) async fn moved(&self) {
        match &self.0.watch {
            Some(watch) => watch.moved().await,
            None => std::future::pending().await,
        }
    }

    /// What an error line of this server means. A server may repeat what it was sent: never the password.
    pub(super) fn explain(&self, line: &str) -> StoreError {
        if let Some(watch) = &self.0.watch {
            watch.hears_an_error(line);
        }
        match self.0.url.password.as_deref() {
            Some(password) if !password.is_empty() => {
                error_map::from_line(&line.replace(password, "…"))
            }
            _ => error_map::from_line(line),
        }
    }

    /// A connection for requests, logged in and answering.
    pub(super) async fn for_requests(&self) -> Result<Raw<Running>, StoreError> {
        within(ATTEMPT_MAX, self, async {
            // The login is sent by `greet`, because the client hides what the server says to it.
            let anonymous = RedisConnectionInfo::default().set_skip_set_lib_name();
            let Raw {
                connection,
                leash,
                driver,
            } = self
                .open(&anonymous, AsyncConnectionConfig::new(), Arc::default())
                .await?;
            let mut raw = Raw {
                connection,
                leash,
                driver: Running::start(driver),
            };
            match self.greet(&mut raw.connection).await {
                Ok(()) => Ok(raw),
                Err(error) => Err(match raw.leash.first_error() {
                    Some(line) if error.kind() == ErrorKind::Unreachable => {
                        error_map::surely_not(self.explain(&line))
                    }
                    _ => self.behind(&raw.leash, error),
                }),
            }
        })
        .await
    }

    /// A connection for requests that receives messages too: logged in, subscribed and answering.
    pub(super) async fn for_both(
        &self,
        ear: &Arc<PushReceiver>,
    ) -> Result<Raw<Running>, StoreError> {
        within(ATTEMPT_MAX, self, async {
            let Raw {
                connection,
                leash,
                driver,
            } = {
                let told = Arc::clone(ear);
                let hear = move |push| told.hear(push);
                self.open_to(hear, i64::from(self.0.url.db)).await?
            };
            let (probed, its_leash) = (connection.clone(), Arc::clone(&leash));
            let mut raw = Raw {
                connection,
                leash,
                driver: Running::start_hearing(driver, ear, probed, its_leash),
            };
            let subscribed = raw.connection.subscribe(ear.channel()).await;
            subscribed.map_err(|error| self.connecting(error))?;
            self.serves(&mut raw.connection).await?;
            Ok(raw)
        })
        .await
    }

    /// A connection that receives messages. Its driver is not spawned: it ends with the future that polls it.
    pub(super) async fn for_messages(
        &self,
        hear: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<Raw<Driver>, StoreError> {
        within(ATTEMPT_MAX, self, async {
            let Raw {
                mut connection,
                leash,
                mut driver,
            } = self.open_to(hear, 0).await?;
            if self.0.watch.is_some() {
                tokio::select! {
                    serves = self.serves(&mut connection) => serves?,
                    () = &mut driver => return Err(self.gone()),
                }
            }
            Ok(Raw {
                connection,
                leash,
                driver,
            })
        })
        .await
    }

    /// Messages need the newer protocol, in which the client logs in by itself.
    async fn open_to(
        &self,
        hear: impl Fn(PushInfo) + Send + Sync + 'static,
        db: i64,
    ) -> Result<Raw<Driver>, StoreError> {
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
        let leash = Arc::new(SocketControl::default());
        let answered = Arc::clone(&leash);
        let sender = move |push| {
            answered.answered();
            hear(push);
            Ok::<(), ()>(())
        };
        let config = AsyncConnectionConfig::new().set_push_sender(sender);
        self.open(&login, config, leash).await
    }

    async fn open(
        &self,
        login: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
        leash: Arc<SocketControl>,
    ) -> Result<Raw<Driver>, StoreError> {
        let (stream, post) = self.dial().await?;
        let socket = Socket::new(stream, leash.clone());
        let held = Arc::clone(&leash);
        // Every call has a deadline of its own; the client's would come first and hide it.
        let config = config
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let made = MultiplexedConnection::new_with_config(login, socket, config);
        let Some(post) = post else {
            return match made.await {
                Ok((connection, driver)) => Ok(Raw {
                    connection,
                    leash,
                    driver: Box::pin(driver),
                }),
                Err(error) => Err(self.behind(&held, self.connecting(error))),
            };
        };
        tokio::select! {
            made = made => match made {
                Ok((connection, driver)) => Ok(Raw {
                    connection,
                    driver: post.hold(Box::pin(driver), Arc::clone(&leash)),
                    leash,
                }),
                Err(error) => Err(self.behind(&held, self.connecting(error))),
            },
            () = post.is_left() => Err(self.gone()),
        }
    }

    /// A server that does not like our certificate says so when we take TLS for agreed on.
    #[cfg_attr(not(feature = "tls"), expect(unused_variables))]
    fn behind(&self, leash: &SocketControl, error: StoreError) -> StoreError {
        #[cfg(feature = "tls")]
        {
            let host = match (&self.0.url.place, &self.0.watch) {
                (Place::Tcp { host, .. }, _) => Some(host.clone()),
                (_, Some(watch)) => watch.host(),
                _ => None,
            };
            let trouble = |host: String| leash.tls_trouble(self.0.url.tls.name_of(&host));
            if let Some(found) = host.and_then(trouble) {
                return found;
            }
        }
        error
    }

    /// It became another server while a connection was made.
    fn gone(&self) -> StoreError {
        StoreError::refused(
            ErrorKind::Unreachable,
            format!("the connection to {self} ended"),
        )
    }

    pub(super) fn connecting(&self, error: redis::RedisError) -> StoreError {
        match redis::ServerError::try_from(error) {
            Ok(reply) => error_map::surely_not(self.explain(&error_map::line(&reply))),
            Err(error) => error_map::from_connecting(error, &self.to_string()),
        }
    }

    /// Logs in, chooses the database, and finds out whether the server serves.
    async fn greet(&self, connection: &mut MultiplexedConnection) -> Result<(), StoreError> {
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

    async fn serves(&self, connection: &mut MultiplexedConnection) -> Result<(), StoreError> {
        if let Some(watch) = &self.0.watch {
            return self.is_primary(watch, connection).await;
        }
        match self.say(connection, &redis::cmd("PING")).await {
            // A user who may not greet may still lock.
            Err(error) if error.to_string().contains("NOPERM") => Ok(()),
            outcome => outcome,
        }
    }

    async fn say(
        &self,
        connection: &mut MultiplexedConnection,
        command: &Cmd,
    ) -> Result<(), StoreError> {
        match connection.send_packed_command(command).await {
            Ok(Value::ServerError(reply)) => Err(error_map::surely_not(
                self.explain(&error_map::line(&reply)),
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(self.connecting(error)),
        }
    }

    /// No answer while connecting.
    pub(super) fn silent(&self) -> StoreError {
        StoreError::refused(
            ErrorKind::TimedOut,
            format!("no connection to {self} in time"),
        )
    }
}

async fn within<T>(
    limit: Duration,
    endpoint: &Endpoint,
    attempt: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(limit, attempt)
        .await
        .unwrap_or_else(|_| Err(endpoint.silent()))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.url.fmt(f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}
