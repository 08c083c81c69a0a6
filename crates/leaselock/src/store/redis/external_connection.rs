//! A connection that the program made and shares with us. It cannot subscribe, and never gets a blocking command.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisResult, ServerError, Value};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::error_map;
use crate::base::error::{ErrorKind, StoreError};

pub(super) const PLACE: &str = "the connection that was handed in";

/// Any connection type of the redis client, behind one trait.
pub(super) trait ExternalConnection: Send + Sync {
    fn send<'a>(
        &self,
        command: &'a Cmd,
    ) -> Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>>;
    fn send_together<'a>(
        &self,
        commands: &'a Pipeline,
    ) -> Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>>;
    fn database(&self) -> i64;
}

pub(super) struct Theirs<C>(pub(super) C);

impl<C: ConnectionLike + Clone + Send + Sync + 'static> ExternalConnection for Theirs<C> {
    fn send<'a>(
        &self,
        command: &'a Cmd,
    ) -> Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>> {
        let mut connection = self.0.clone();
        Box::pin(async move { connection.req_packed_command(command).await })
    }

    fn send_together<'a>(
        &self,
        commands: &'a Pipeline,
    ) -> Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>> {
        let mut connection = self.0.clone();
        Box::pin(async move {
            let behind_multi = commands.len() + 1;
            let answers = connection
                .req_packed_commands(commands, behind_multi, 1)
                .await?;
            Ok(answers.into_iter().next().unwrap_or(Value::Nil))
        })
    }

    fn database(&self) -> i64 {
        self.0.get_db()
    }
}

/// Sends one command and returns the server's reply, which may be an error.
///
/// Their connection decides how often it sends the command, so the outcome of every other failure is unknown.
pub(super) async fn ask(
    handed: &dyn ExternalConnection,
    command: &Cmd,
    within: Duration,
) -> Result<Value, StoreError> {
    outcome(timeout(within, handed.send(command)).await)
}

/// Sends a transaction and returns the reply to its `EXEC`.
pub(super) async fn together(
    handed: &dyn ExternalConnection,
    commands: &Pipeline,
    within: Duration,
) -> Result<Value, StoreError> {
    outcome(timeout(within, handed.send_together(commands)).await)
}

fn outcome(sent: Result<RedisResult<Value>, Elapsed>) -> Result<Value, StoreError> {
    match sent {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => match ServerError::try_from(error) {
            Ok(reply) => Ok(Value::ServerError(reply)),
            Err(error) => Err(error_map::from_connection(error, PLACE)),
        },
        Err(_) => Err(StoreError::unknown(
            ErrorKind::TimedOut,
            format!("no answer from {PLACE} in time"),
        )),
    }
}

impl fmt::Debug for dyn ExternalConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalConnection(database {})", self.database())
    }
}
