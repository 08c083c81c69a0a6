//! Commands that are not scripts: the parts of other protocols.

use std::time::Duration;

use redis::{Cmd, Pipeline};
use tokio::runtime::Handle;

use super::RedisStore;
use crate::base::clock::CLOCK;
use crate::base::error::{ErrorKind, StoreError};
use crate::script::Value;
use crate::store::redis::answer::{malformed, understood};
use crate::store::redis::dedicated::DedicatedConnection;
use crate::store::redis::external_connection::{self, ExternalRequest};
use crate::store::redis::link::StoreLink;

impl RedisStore {
    /// Sends one command on the shared connection.
    pub(crate) async fn plain(
        &self,
        words: &[&str],
        within: Duration,
    ) -> Result<Value, StoreError> {
        let (key, until) = (words.get(1).copied(), CLOCK.now().plus(within));
        let answer = self.0.ask(Cmd::new().arg(words), key, until).await?;
        understood(answer, |line| self.0.explain(line))
    }

    /// Opens a connection without other users, driven by the runtime of `handle`.
    pub(crate) async fn private(
        &self,
        handle: &Handle,
        within: Duration,
    ) -> Result<DedicatedConnection, StoreError> {
        match &self.0 {
            StoreLink::Own(own) => {
                DedicatedConnection::open(own.endpoint.clone(), handle, within).await
            }
            StoreLink::Cluster(_) => Err(on_one_server()),
            StoreLink::External(_) => {
                let message = "a connection that was handed in cannot be told to open others: build the client from a \
                               URL or from a redis::Client";
                Err(StoreError::refused(ErrorKind::Unsupported, message))
            }
        }
    }

    /// True if the user may count the channel's subscribers, and publish there.
    ///
    /// A script that hands a lock over does both with the rights of this user.
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

    /// True if the user may publish: the only one of these commands that a node of a quorum cannot do without.
    pub(crate) async fn may_publish(&self, channel: &str, within: Duration) -> Option<bool> {
        is_allowed(&self.plain(&["PUBLISH", channel, ""], within).await)
    }

    /// Sends several commands as one transaction, and returns the reply of each.
    pub(crate) async fn together(
        &self,
        commands: &[&[&str]],
        within: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        pipeline.atomic();
        for words in commands {
            pipeline.add_command(Cmd::new().arg(*words).clone());
        }
        let answer = match &self.0 {
            StoreLink::Own(own) => own.together(&pipeline, CLOCK.now().plus(within)).await?,
            StoreLink::External(theirs) => {
                external_connection::ask(&**theirs, ExternalRequest::Together(&pipeline), within)
                    .await?
            }
            StoreLink::Cluster(_) => return Err(on_one_server()),
        };
        match understood(answer, |line| self.0.explain(line))? {
            Value::Array(answers) => Ok(answers),
            _ => Err(malformed()),
        }
    }
}

fn on_one_server() -> StoreError {
    let message = "a cluster has no one server for this: its keys may lie on several";
    StoreError::refused(ErrorKind::Unsupported, message)
}

/// Reads whether the server permits it; `None` when it has not said so.
fn is_allowed(answer: &Result<Value, StoreError>) -> Option<bool> {
    match answer {
        Ok(_) => Some(true),
        Err(error) if matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::Unsupported) => {
            Some(false)
        }
        Err(_) => None,
    }
}
