//! `SETNX` and `PEXPIRE` in one script, for servers from before `SET NX PX` (2.6.12).
//!
//! **The hole** that this protocol was made to close: with two commands, a crash between them leaves a lock without an
//! expiry. A script does both or neither. What remains is what every lease has: a holder that is late.

use std::time::Duration;

use crate::base::error::StoreError;
use crate::base::ttl::Ttl;
#[cfg(feature = "redis")]
use crate::engine::compare_and_delete::COMPARE_AND_DELETE;
use crate::engine::compare_and_delete::CompareAndDelete;
use crate::engine::custom::TakeOutcome;
use crate::engine::grant::ReleaseAnswer;
use crate::quorum::executor::Executor;
#[cfg(feature = "redis")]
use crate::script::Scripts;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

#[cfg(feature = "redis")]
pub(super) static SCRIPTS: Scripts = &[&TAKE, &COMPARE_AND_DELETE];

struct Take<'a> {
    lock: &'a str,
    token: &'a str,
    ttl: Ttl,
}

static TAKE: Script = script!("setnx_pexpire/take");

impl Operation for Take<'_> {
    type Reply = TakeOutcome;

    fn script(&self) -> &'static Script {
        &TAKE
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.lock);
        call.arg(self.token).arg(self.ttl.as_ms());
    }

    fn decode(answer: &Answer) -> Result<TakeOutcome, Malformed> {
        match answer.tag() {
            "taken" => Ok(TakeOutcome::Taken),
            "busy" => Ok(TakeOutcome::Busy {
                remaining: remaining(answer.signed(0)?),
            }),
            _ => Err(Malformed),
        }
    }
}

/// Reads a reply to `PTTL`; below zero there is no expiry, or no key any more.
pub(crate) fn remaining(pttl_ms: i64) -> Option<Duration> {
    match pttl_ms {
        -2 => Some(Duration::ZERO),
        _ => u64::try_from(pttl_ms).ok().map(Duration::from_millis),
    }
}

pub(super) async fn take(
    store: &Executor,
    lock: &str,
    token: &str,
    ttl: Ttl,
    within: Duration,
) -> Result<TakeOutcome, StoreError> {
    store.ask_one(&Take { lock, token, ttl }, within).await
}

pub(super) async fn release(
    store: &Executor,
    lock: &str,
    token: &str,
    within: Duration,
) -> Result<ReleaseAnswer, StoreError> {
    store
        .ask_one(&CompareAndDelete { lock, token }, within)
        .await
}
