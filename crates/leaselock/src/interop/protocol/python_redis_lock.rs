//! The lock of python-redis-lock: `lock:<name>`, and a list that gets one element with each release.
//!
//! Its waiters block on the list; one of them takes the element and tries. **The holes**: a waiter that takes the
//! element and then not the lock leaves the others asleep until their timeout. A newcomer may be faster than the woken
//! waiter. A lock that expires wakes no waiter.

use std::time::Duration;

use crate::base::error::StoreError;
use crate::engine::grant::ReleaseAnswer;
use crate::quorum::executor::Executor;
#[cfg(feature = "redis")]
use crate::script::Scripts;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

const LOCK: &str = "lock:";
const SIGNAL: &str = "lock-signal:";

pub(super) fn key(name: &str) -> String {
    format!("{LOCK}{name}")
}

/// Returns the list on which its waiters block.
pub(super) fn signal(prefix: &str, lock: &str) -> String {
    let key = lock.strip_prefix(prefix).unwrap_or(lock);
    format!("{prefix}{SIGNAL}{}", key.strip_prefix(LOCK).unwrap_or(key))
}

#[cfg(feature = "redis")]
pub(super) static SCRIPTS: Scripts = &[&RELEASE];

struct Release<'a> {
    lock: &'a str,
    signal: &'a str,
    token: &'a str,
}

static RELEASE: Script = script!("python_redis_lock/release");

impl Operation for Release<'_> {
    type Reply = ReleaseAnswer;

    fn script(&self) -> &'static Script {
        &RELEASE
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.lock).key(self.signal);
        call.arg(self.token);
    }

    fn decode(answer: &Answer) -> Result<ReleaseAnswer, Malformed> {
        ReleaseAnswer::decode(answer)
    }
}

pub(super) async fn release(
    store: &Executor,
    lock: &str,
    signal: &str,
    token: &str,
    within: Duration,
) -> Result<ReleaseAnswer, StoreError> {
    let release = Release {
        lock,
        signal,
        token,
    };
    store.ask_one(&release, within).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_the_name_of_the_lock_behind_the_same_prefix() {
        assert_eq!(signal("", &key("job")), "lock-signal:job");
        let app = "lock:app:";
        assert_eq!(
            signal(app, &(app.to_owned() + &key("lock:job"))),
            "lock:app:lock-signal:lock:job"
        );
    }
}
