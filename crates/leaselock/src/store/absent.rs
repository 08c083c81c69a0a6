//! What stands for a store that is not compiled in. No value of it exists, so that its callers need no switch.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::{Capabilities, LeaseHolder, Report, Sink, Store};
use crate::base::Result;
use crate::script::{Answer, Call, Operation, Value};

#[derive(Debug, Clone)]
pub(crate) enum AbsentStore {}

/// Declares methods that are never called, because they have no value to be called on.
macro_rules! never {
    ($($visible:vis fn $name:ident($($arg:ident: $Type:ty),*) $(-> $Reply:ty)?;)+) => {
        $($visible fn $name(&self, $($arg: $Type),*) $(-> $Reply)? {
            match *self {}
        })+
    };
    ($($visible:vis async fn $name:ident($($arg:ident: $Type:ty),*) $(-> $Reply:ty)?;)+) => {
        $($visible async fn $name(&self, $($arg: $Type),*) $(-> $Reply)? {
            match *self {}
        })+
    };
}

impl Store for AbsentStore {
    never! {
        async fn run(_call: &Call, _within: Duration) -> Result<Answer>;
        async fn listen(_channel: &str, _sink: Sink);
        async fn follow(_holder: &Arc<dyn LeaseHolder>);
        async fn examine(_within: Duration) -> Result<Report>;
    }
    never! {
        fn capabilities() -> Capabilities;
        fn unshared() -> Self;
        fn describe() -> String;
    }
}

/// What only a server can do: for a quorum of its nodes, and for a dedicated connection.
impl AbsentStore {
    never! {
        pub(crate) async fn private(_handle: &Handle, _within: Duration) -> Result<AbsentConnection>;
        pub(crate) async fn run_whole(_call: &Call, _within: Duration) -> Result<Answer>;
        pub(crate) async fn may_publish(_channel: &str, _within: Duration) -> Option<bool>;
    }
    never! {
        pub(crate) fn is_connected() -> bool;
    }
}

/// A connection for one purpose, to a server.
#[derive(Debug)]
pub(crate) enum AbsentConnection {}

impl AbsentConnection {
    never! {
        pub(crate) fn is_open() -> bool;
    }

    pub(crate) async fn ask(&mut self, _words: &[&str], _within: Duration) -> Result<Value> {
        match *self {}
    }

    pub(crate) async fn run<O: Operation>(
        &mut self,
        _operation: &O,
        _within: Duration,
    ) -> Result<O::Reply> {
        match *self {}
    }
}
