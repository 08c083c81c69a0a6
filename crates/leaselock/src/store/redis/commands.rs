//! Commands that are no scripts: what other ways of locking consist of.

use std::fmt;
use std::time::Duration;

use redis::{Cmd, Pipeline};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::endpoint::{Endpoint, Raw, Running};
use super::{CLOCK, Link, RedisStore, answer, error_map, external_connection, functions};
use crate::base::error::{ErrorKind, StoreError};
use crate::script::{Answer, Malformed, Operation, Value};

impl RedisStore {
    /// One command on the connection that all share.
    pub(crate) async fn plain(
        &self,
        words: &[&str],
        within: Duration,
    ) -> Result<Value, StoreError> {
        let answer = self
            .0
            .ask(
                &command(words),
                words.get(1).copied(),
                CLOCK.now().plus(within),
            )
            .await?;
        understood(answer, |line| self.0.explain(line))
    }

    /// Whether the user may ask who listens to the channel, and publish there. A script that hands a lock over does
    /// both with the rights of this user.
    pub(crate) async fn may_wake(&self, channel: &str, within: Duration) -> Option<bool> {
        let of_a_slot = channel.ends_with(":s");
        let (count, publish) = if of_a_slot {
            ("SHARDNUMSUB", "SPUBLISH")
        } else {
            ("NUMSUB", "PUBLISH")
        };
        let may_ask = self.plain(&["PUBSUB", count, channel], within).await;
        if !is_allowed(&may_ask)? {
            return Some(false);
        }
        is_allowed(&self.plain(&[publish, channel, ""], within).await)
    }

    /// The same for the only command of them that a node of a quorum cannot do without.
    pub(crate) async fn may_publish(&self, channel: &str, within: Duration) -> Option<bool> {
        is_allowed(&self.plain(&["PUBLISH", channel, ""], within).await)
    }

    /// Several as one transaction, and the answer of each.
    pub(crate) async fn together(
        &self,
        commands: &[&[&str]],
        within: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        pipeline.atomic();
        for words in commands {
            pipeline.add_command(command(words));
        }
        let answer = match &self.0 {
            Link::Own(lane) => lane.together(&pipeline, CLOCK.now().plus(within)).await?,
            Link::External(theirs) => {
                external_connection::together(&**theirs, &pipeline, within).await?
            }
            Link::Cluster(_) => return Err(on_one_server()),
        };
        match understood(answer, |line| self.0.explain(line))? {
            Value::Array(answers) => Ok(answers),
            _ => Err(malformed()),
        }
    }

    /// A connection that nobody else uses, moved by the runtime of `handle`.
    pub(crate) async fn private(
        &self,
        handle: &Handle,
        within: Duration,
    ) -> Result<DedicatedConnection, StoreError> {
        if self.is_cluster() {
            return Err(on_one_server());
        }
        let Link::Own(lane) = &self.0 else {
            let message = "a connection that was handed in cannot be told to open others: build the client from a URL \
                           or from a redis::Client";
            return Err(StoreError::refused(ErrorKind::Unsupported, message));
        };
        let endpoint = lane.endpoint().clone();
        let silent = endpoint.silent();
        let opening = {
            let endpoint = endpoint.clone();
            handle.spawn(async move { endpoint.for_requests().await })
        };
        match timeout(within, opening).await {
            Ok(Ok(raw)) => Ok(DedicatedConnection {
                raw: raw?,
                endpoint,
            }),
            Ok(Err(_)) => Err(StoreError::refused(
                ErrorKind::Internal,
                "the client's thread is gone",
            )),
            Err(_) => Err(silent),
        }
    }
}

/// A connection for one purpose. Closes when it is dropped.
pub(crate) struct DedicatedConnection {
    raw: Raw<Running>,
    endpoint: Endpoint,
}

impl DedicatedConnection {
    /// It has not broken yet.
    pub(crate) fn is_open(&self) -> bool {
        !self.raw.driver.is_over()
    }

    /// One command. After a failure the connection is of no use any more.
    pub(crate) async fn ask(
        &mut self,
        words: &[&str],
        within: Duration,
    ) -> Result<Value, StoreError> {
        let answer = self.send(&command(words), within).await?;
        understood(answer, |line| self.endpoint.explain(line))
    }

    /// One script.
    pub(crate) async fn run<O: Operation>(
        &mut self,
        operation: &O,
        within: Duration,
    ) -> Result<O::Reply, StoreError> {
        let (call, library) = (operation.call(), self.endpoint.url().functions);
        let short = functions::short(library, &call);
        let mut answer = self.send(&short, within).await?;
        if super::is_noscript(&answer) {
            let whole = functions::whole(library, &call);
            answer = self.send(&whole, within).await?;
        }
        let answer = understood(answer, |line| match library {
            Some(library) if functions::is_absent(line) => {
                functions::absent(library, line, &self.endpoint.place())
            }
            _ => self.endpoint.explain(line),
        })?;
        O::read(&Answer::from_value(answer).map_err(|Malformed| malformed())?)
    }

    async fn send(&mut self, command: &Cmd, within: Duration) -> Result<redis::Value, StoreError> {
        match timeout(within, self.raw.connection.send_packed_command(command)).await {
            Ok(Ok(answer)) => {
                self.raw.leash.answered();
                Ok(answer)
            }
            Ok(Err(error)) => Err(error_map::from_connection(
                error,
                &self.endpoint.to_string(),
            )),
            Err(_) => {
                self.raw.leash.abort();
                self.raw.driver.stop();
                let message = format!("no answer from {} in time", self.endpoint);
                Err(StoreError::unknown(ErrorKind::TimedOut, message))
            }
        }
    }
}

fn on_one_server() -> StoreError {
    let message = "a cluster has no one server for this: its keys may lie on several";
    StoreError::refused(ErrorKind::Unsupported, message)
}

impl fmt::Debug for DedicatedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DedicatedConnection({})", self.endpoint)
    }
}

fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
}

fn understood(
    answer: redis::Value,
    explain: impl Fn(&str) -> StoreError,
) -> Result<Value, StoreError> {
    if let redis::Value::ServerError(reply) = &answer {
        return Err(explain(&error_map::line(reply)));
    }
    answer::plain(answer).map_err(|Malformed| malformed())
}

/// What the server lets the user do; `None` when it has not said so.
fn is_allowed(answer: &Result<Value, StoreError>) -> Option<bool> {
    match answer {
        Ok(_) => Some(true),
        Err(error) if matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::Unsupported) => {
            Some(false)
        }
        Err(_) => None,
    }
}

fn malformed() -> StoreError {
    StoreError::unknown(ErrorKind::Malformed, "the answer was not understood")
}
