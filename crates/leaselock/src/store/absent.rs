//! What stands for a store that is not compiled in. No value of it exists, so that its callers need no switch.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::{Capabilities, LeaseHolder, Sink, Store};
use crate::base::error::StoreError;
use crate::script::{Answer, Call, Operation, Value};
use crate::store::report::Report;

#[derive(Debug, Clone)]
pub(crate) enum AbsentStore {}

impl Store for AbsentStore {
    async fn run(&self, _call: &Call, _within: Duration) -> Result<Answer, StoreError> {
        match *self {}
    }

    async fn listen(&self, _channel: &str, _sink: Sink) {
        match *self {}
    }

    async fn follow(&self, _holder: &Arc<dyn LeaseHolder>) {
        match *self {}
    }

    async fn examine(&self, _within: Duration) -> Result<Report, StoreError> {
        match *self {}
    }

    fn capabilities(&self) -> Capabilities {
        match *self {}
    }

    fn unshared(&self) -> Self {
        match *self {}
    }

    fn describe(&self) -> String {
        match *self {}
    }
}

/// What only a server can do: for a quorum of its nodes, and for a dedicated connection.
impl AbsentStore {
    pub(crate) async fn private(
        &self,
        _handle: &Handle,
        _within: Duration,
    ) -> Result<AbsentConnection, StoreError> {
        match *self {}
    }

    pub(crate) async fn run_whole(
        &self,
        _call: &Call,
        _within: Duration,
    ) -> Result<Answer, StoreError> {
        match *self {}
    }

    pub(crate) async fn may_publish(&self, _channel: &str, _within: Duration) -> Option<bool> {
        match *self {}
    }

    pub(crate) fn is_connected(&self) -> bool {
        match *self {}
    }
}

/// A connection for one purpose, to a server.
#[derive(Debug)]
pub(crate) enum AbsentConnection {}

impl AbsentConnection {
    pub(crate) fn is_open(&self) -> bool {
        match *self {}
    }

    pub(crate) async fn ask(
        &mut self,
        _words: &[&str],
        _within: Duration,
    ) -> Result<Value, StoreError> {
        match *self {}
    }

    pub(crate) async fn run<O: Operation>(
        &mut self,
        _operation: &O,
        _within: Duration,
    ) -> Result<O::Reply, StoreError> {
        match *self {}
    }
}
