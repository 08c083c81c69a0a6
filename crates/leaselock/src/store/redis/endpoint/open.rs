//! Opening a connection: for requests, for messages, or for both.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo};
use tokio::time::timeout;

use super::Endpoint;
use crate::base::error::{ErrorKind, StoreError};
use crate::store::redis::driver::{Driver, Opened, RunningDriver};
use crate::store::redis::error_map;
use crate::store::redis::push_receiver::PushReceiver;
use crate::store::redis::socket::{Socket, SocketControl};

/// No attempt lasts longer, so that a host that swallows packets does not keep a better try waiting.
const ATTEMPT_MAX: Duration = Duration::from_secs(3);
/// Many tasks share a connection; the client's own default makes the fifty-first wait.
const QUEUE: usize = 1024;

impl Endpoint {
    /// A connection for requests, logged in and answering.
    pub(in crate::store::redis) async fn for_requests(
        &self,
    ) -> Result<Opened<RunningDriver>, StoreError> {
        within(ATTEMPT_MAX, self, async {
            // The login is sent by `greet`, because the client hides what the server says to it.
            let anonymous = RedisConnectionInfo::default().set_skip_set_lib_name();
            let Opened {
                connection,
                leash,
                driver,
            } = self
                .open(&anonymous, AsyncConnectionConfig::new(), Arc::default())
                .await?;
            let mut raw = Opened {
                connection,
                leash,
                driver: RunningDriver::start(driver),
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
    pub(in crate::store::redis) async fn for_both(
        &self,
        ear: &Arc<PushReceiver>,
    ) -> Result<Opened<RunningDriver>, StoreError> {
        within(ATTEMPT_MAX, self, async {
            let Opened {
                connection,
                leash,
                driver,
            } = {
                let told = Arc::clone(ear);
                let hear = move |push| told.hear(push);
                self.open_to(hear, i64::from(self.0.url.db)).await?
            };
            let (probed, its_leash) = (connection.clone(), Arc::clone(&leash));
            let mut raw = Opened {
                connection,
                leash,
                driver: RunningDriver::start_hearing(driver, ear, probed, its_leash),
            };
            let subscribed = raw.connection.subscribe(ear.channel()).await;
            subscribed.map_err(|error| self.connecting(error))?;
            self.serves(&mut raw.connection).await?;
            Ok(raw)
        })
        .await
    }

    /// A connection that receives messages. Its driver is not spawned: it ends with the future that polls it.
    pub(in crate::store::redis) async fn for_messages(
        &self,
        hear: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<Opened<Driver>, StoreError> {
        within(ATTEMPT_MAX, self, async {
            let Opened {
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
            Ok(Opened {
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
    ) -> Result<Opened<Driver>, StoreError> {
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
    ) -> Result<Opened<Driver>, StoreError> {
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
                Ok((connection, driver)) => Ok(Opened {
                    connection,
                    leash,
                    driver: Box::pin(driver),
                }),
                Err(error) => Err(self.behind(&held, self.connecting(error))),
            };
        };
        tokio::select! {
            made = made => match made {
                Ok((connection, driver)) => Ok(Opened {
                    connection,
                    driver: post.hold(Box::pin(driver), Arc::clone(&leash)),
                    leash,
                }),
                Err(error) => Err(self.behind(&held, self.connecting(error))),
            },
            () = post.is_left() => Err(self.gone()),
        }
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
