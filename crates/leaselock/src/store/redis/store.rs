//! A store on servers, for the layers above.
//!
//! This file runs scripts there. The files in its folder have one task each: creation, messages, plain commands,
//! listing keys, loading functions, and the operator's report.

mod commands;
mod create;
mod examine;
pub(super) mod functions;
mod messages;
mod scan;

use std::fmt;
use std::time::Duration;

use redis::Value;

use super::link::StoreLink;
use super::{answer, calls, error_map};
use crate::base::clock::CLOCK;
use crate::base::error::{ErrorKind, StoreError};
use crate::script::{Answer, Call, Malformed};
use crate::store::Capabilities;

/// One server, over a connection of ours or of the program's, or a cluster. Clones share the connection.
#[derive(Clone)]
pub(crate) struct RedisStore(pub(super) StoreLink);

impl RedisStore {
    pub(crate) async fn run(&self, call: &Call, within: Duration) -> Result<Answer, StoreError> {
        let until = CLOCK.now().plus(within);
        let answer = match &self.0 {
            StoreLink::Cluster(cluster) => Box::pin(cluster.run(call, until, within)).await?,
            link => {
                let library = link.functions();
                let short = calls::short(library, call);
                let answer = match link.own() {
                    Some(own) if call.message_first => {
                        Box::pin(own.answer_last(&short, until)).await? // only behind the queue, and large
                    }
                    _ => link.ask_within(&short, until, within).await?,
                };
                if calls::is_noscript(&answer) {
                    let whole = calls::whole(library, call);
                    Box::pin(link.ask(&whole, None, until)).await? // rare, and large
                } else {
                    answer
                }
            }
        };
        self.understood(call, answer)
    }

    /// Runs a script in one round trip, whether the server has it or not.
    ///
    /// So a caller that sends another request behind it can rely on the order.
    pub(crate) async fn run_whole(
        &self,
        call: &Call,
        within: Duration,
    ) -> Result<Answer, StoreError> {
        let whole = calls::whole(self.0.functions(), call);
        let key = call.parameters.keys().next();
        let answer = self.0.ask(&whole, key, CLOCK.now().plus(within)).await?;
        self.understood(call, answer)
    }

    fn understood(&self, call: &Call, answer: Value) -> Result<Answer, StoreError> {
        if let Value::ServerError(reply) = &answer {
            return Err(self.0.explain_call(call, &error_map::line(reply)));
        }
        answer::plain(answer)
            .and_then(Answer::from_value)
            .map_err(|Malformed| {
                let message = format!(
                    "the answer of {} from {} was not understood",
                    call.script.name,
                    self.describe()
                );
                StoreError::unknown(ErrorKind::Malformed, message)
            })
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let (cluster, own) = (self.is_cluster(), self.0.own().is_some());
        Capabilities {
            wakes: cluster || own,
            keys_per_call: if cluster { 1 } else { 200 }, // others may be in another slot
            combines: own, // what is behind the program's connection is unknown: it may be a cluster
            by_node: cluster,
            look_every: Duration::MAX,
        }
    }

    /// Counts the connections. One that was handed in reconnects unnoticed.
    pub(crate) fn epoch(&self) -> Option<u64> {
        match &self.0 {
            StoreLink::Own(own) => Some(own.epoch()),
            StoreLink::External(_) => None,
            StoreLink::Cluster(cluster) => Some(cluster.epoch()),
        }
    }

    /// True if dedicated connections can be opened, and a server has replicas.
    pub(crate) fn has_replicas(&self) -> bool {
        self.0.own().is_some()
    }

    /// True if a request would leave at once, which is assumed of a connection that was handed in.
    pub(crate) fn is_connected(&self) -> bool {
        self.0.own().is_none_or(|own| own.is_connected())
    }

    /// Returns the same server over a connection of its own. One that was handed in is the only one.
    pub(crate) fn unshared(&self) -> Self {
        match &self.0 {
            StoreLink::Own(own) => RedisStore(StoreLink::Own(own.another())),
            StoreLink::External(_) => self.clone(),
            StoreLink::Cluster(cluster) => RedisStore(StoreLink::Cluster(cluster.another())),
        }
    }

    pub(crate) fn describe(&self) -> String {
        self.0.describe()
    }

    /// True if each key may be on a server of its own.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.0, StoreLink::Cluster(_))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStore({})", self.describe())
    }
}
