//! The first commands on a new connection: the login, the database, and whether the server serves.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::Endpoint;
use crate::base::error::StoreError;

impl Endpoint {
    /// Logs in, chooses the database, and finds out whether the server serves.
    pub(super) async fn greet(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), StoreError> {
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

    pub(super) async fn serves(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), StoreError> {
        if let Some(watch) = &self.0.watch {
            return self.is_primary(watch, connection).await;
        }
        match self.say(connection, &redis::cmd("PING")).await {
            // A user without the right to this command may still lock.
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
            Ok(Value::ServerError(reply)) => Err(self.refusal(&reply)),
            Ok(_) => Ok(()),
            Err(error) => Err(self.connecting(error)),
        }
    }
}
