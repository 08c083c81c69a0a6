//! Without servers there are no replicas.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::time::Duration;

use super::call::ReplicaAck;
use crate::base::clock::Moment;
use crate::base::error::{ErrorKind, StoreError};
use crate::engine::services::core::Engine;
use crate::engine::values::request::Copies;
use crate::script::Operation;

/// No value of this type exists.
pub(crate) struct Written<'a>(Infallible, PhantomData<&'a ()>);

impl<'a> Written<'a> {
    pub(crate) async fn new<O: Operation>(
        _: &'a Engine,
        _: &O,
        _: Copies,
        _: Duration,
    ) -> Result<(Self, O::Reply), StoreError> {
        Err(StoreError::refused(
            ErrorKind::Unsupported,
            "this store has no replicas",
        ))
    }

    pub(crate) fn put_back(self) {
        match self.0 {}
    }

    pub(crate) fn end(&self) -> Moment {
        match self.0 {}
    }

    pub(crate) async fn count(self, _: Copies) -> Result<ReplicaAck, StoreError> {
        match self.0 {}
    }
}
