//! A store on servers: a connection of ours, one of the program's, or a cluster; and what is sent over it.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::cluster::Cluster;
use super::connection::Connection;
use super::connection_events::ConnectionEvents;
use super::endpoint::Endpoint;
use super::external_connection::{self, ExternalConnection};
use super::{calls, error_map};
use crate::base::{CLOCK, Moment, Result, StoreError};
use crate::script::{Call, Library};

/// One server, over a connection of ours or of the program's, or a cluster. Clones share the connection.
#[derive(Clone)]
pub(crate) enum RedisStore {
    Own(Arc<Connection>),
    External(Arc<dyn ExternalConnection>),
    Cluster(Arc<Cluster>),
}

impl RedisStore {
    /// Connects on first use.
    pub(super) fn to(endpoint: Endpoint) -> Self {
        Self::Own(Connection::new(endpoint, ConnectionEvents::default()))
    }

    /// Sends a command; `key` determines its node in a cluster.
    pub(super) async fn ask(
        &self,
        command: &Cmd,
        key: Option<&str>,
        until: Moment,
    ) -> Result<Value> {
        if let Self::Cluster(cluster) = self {
            return Box::pin(cluster.ask(command, key, until, until)).await;
        }
        let left = CLOCK.left(until);
        self.ask_within(command, until, left).await
    }

    /// Sends a command, for a caller that has just read the remaining time.
    pub(super) async fn ask_within(
        &self,
        command: &Cmd,
        until: Moment,
        left: Duration,
    ) -> Result<Value> {
        match self {
            Self::Own(own) => own.ask(command, until, left).await,
            Self::External(theirs) => external_connection::answer(theirs.one(command), left).await,
            Self::Cluster(cluster) => Box::pin(cluster.ask(command, None, until, until)).await,
        }
    }

    /// Converts an error line of the server.
    pub(super) fn explain(&self, line: &str) -> StoreError {
        match self {
            Self::Own(own) => own.endpoint.explain(line),
            Self::External(_) => error_map::from_line(line),
            Self::Cluster(cluster) => cluster.topology.explain(line),
        }
    }

    /// Returns the library when scripts are called as its functions.
    pub(super) fn functions(&self) -> Option<&'static Library> {
        match self {
            Self::Own(own) => own.endpoint.url().functions,
            Self::External(_) => None,
            Self::Cluster(cluster) => cluster.topology.functions(),
        }
    }

    /// Names the server that has the key, as an administrator would.
    fn place_of(&self, key: Option<&str>) -> String {
        match self {
            Self::Own(own) => own.endpoint.place(),
            Self::External(_) => "the server".to_owned(),
            Self::Cluster(cluster) => cluster.place_of(key.unwrap_or_default()),
        }
    }

    /// Returns the connection to the one server of this store, when it is ours.
    pub(super) fn own(&self) -> Option<&Arc<Connection>> {
        match self {
            Self::Own(own) => Some(own),
            _ => None,
        }
    }

    /// Converts an error line that is the reply to a call.
    pub(super) fn explain_call(&self, call: &Call, line: &str) -> StoreError {
        match self.functions() {
            Some(library) if calls::is_absent(line) => {
                let place = self.place_of(call.parameters.keys().next());
                calls::absent(library, line, &place)
            }
            _ => self.explain(line),
        }
    }
}
