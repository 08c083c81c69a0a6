//! The store against real servers, and against fake ones.

mod calls;
mod hostile;
mod listening;
mod logins;
mod outages;
mod refusals;
mod subscriptions;

use std::time::Duration;

pub(super) use testkit::{Server, wait_until};

use super::RedisStore;
use crate::base::error::StoreError;
use crate::mutex::MUTEX;
use crate::script::{Answer, Call};
use crate::store::Store;
use crate::store::url::{Target, parse};

/// For steps that take milliseconds, on a machine that is busy with other work.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
pub(super) const TOKEN: &str = "AAAAAAAAAAAAAAAAAAAAAA.clientid";

pub(super) fn store(url: &str) -> RedisStore {
    match parse(url).unwrap() {
        Target::Redis(url) => RedisStore::from_url(url),
        other => panic!("{other:?}"),
    }
}

fn on_lock(script: &'static crate::script::Script, name: &str) -> Call {
    let keys = [
        name.to_owned(),
        format!("{{{name}}}:ll:queue"),
        format!("{{{name}}}:ll:waiters"),
        format!("{{{name}}}:ll:fence"),
    ];
    let mut call = Call::of(script);
    call.keys(keys.iter());
    call
}

/// Builds a call that acquires the lock for a minute, without waiting.
pub(super) fn acquire(name: &str) -> Call {
    let mut call = on_lock(MUTEX.acquire.script(false), name);
    for arg in [TOKEN, "60000", ""] {
        call.arg(arg);
    }
    call
}

pub(super) fn release(name: &str) -> Call {
    let mut call = on_lock(MUTEX.release.script(false), name);
    call.arg(TOKEN);
    call
}

/// Runs a call with all the time it needs.
pub(super) async fn run(store: &RedisStore, call: &Call) -> Result<Answer, StoreError> {
    store.run(call, PATIENCE).await
}

/// Returns the tag of an answer.
pub(super) async fn tag(store: &RedisStore, call: &Call) -> String {
    run(store, call).await.unwrap().tag().to_owned()
}
