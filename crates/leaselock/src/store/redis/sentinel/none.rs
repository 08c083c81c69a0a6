//! Without the feature `sentinel` every server stays in its place.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;

use super::endpoint::{Driver, Endpoint};
use super::socket::SocketControl;
use crate::base::error::StoreError;
use crate::store::url::RedisUrl;

/// Nobody is one.
pub(super) enum PrimaryLocator {}

impl PrimaryLocator {
    pub(super) fn of(_: &RedisUrl) -> Option<Self> {
        None
    }

    #[cfg(feature = "tls")]
    pub(super) fn host(&self) -> Option<String> {
        match *self {}
    }

    pub(super) fn place(&self) -> Option<String> {
        match *self {}
    }

    pub(super) async fn moved(&self) {
        match *self {}
    }

    pub(super) fn hears_an_error(&self, _: &str) {
        match *self {}
    }
}

/// Nothing is one.
pub(super) enum Located {}

impl Located {
    pub(super) async fn is_left(&self) {
        match *self {}
    }

    pub(super) fn hold(self, _: Driver, _: Arc<SocketControl>) -> Driver {
        match self {}
    }
}

impl Endpoint {
    pub(super) async fn is_primary(
        &self,
        watch: &PrimaryLocator,
        _: &mut MultiplexedConnection,
    ) -> Result<(), StoreError> {
        match *watch {}
    }
}

/// There is nothing to follow.
pub(super) async fn follow(_: &Endpoint) {
    std::future::pending().await
}
