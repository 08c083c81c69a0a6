//! Several plain keys at once, all or none, each with the same value.
//!
//! bsm/redislock (Go) and redlock (Node) take several resources in this way. The value is a token of 22 characters,
//! followed by a note, as bsm/redislock has its metadata.
//!
//! **The hole**: taking has none, because it is one script. But the keys expire together, and each of them can be
//! broken by itself. On a cluster all of them must be in one slot.

use std::sync::Arc;
use std::time::Duration;

use super::setnx_pexpire::remaining;
use crate::base::error::StoreError;
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::engine::custom::TakeOutcome;
use crate::engine::grant::{ExtendAnswer, ReleaseAnswer};
use crate::quorum::executor::Executor;
#[cfg(feature = "redis")]
use crate::script::Scripts;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

/// The length of a value's token; bsm/redislock compares that much of it.
pub(super) const TOKEN: usize = 22;

/// Creates the value of one acquisition.
pub(super) fn value(token: &Token, note: Option<&str>) -> String {
    let token = token.secret().get(..TOKEN).unwrap_or_default();
    token.to_owned() + note.unwrap_or_default()
}

/// Returns the note behind the token of a value.
pub(crate) fn note(value: &[u8]) -> Option<String> {
    let note = String::from_utf8_lossy(value.get(TOKEN..)?).into_owned();
    (!note.is_empty()).then_some(note)
}

/// The locks of one holder.
#[derive(Clone, Copy)]
pub(super) struct Locks<'a> {
    pub(super) first: &'a str,
    pub(super) others: &'a [Arc<str>],
    pub(super) value: &'a str,
}

impl Locks<'_> {
    fn write(&self, call: &mut Call) {
        call.key(self.first).keys(self.others.iter());
    }

    pub(super) async fn take(
        self,
        store: &Executor,
        ttl: Ttl,
        within: Duration,
    ) -> Result<TakeOutcome, StoreError> {
        store.ask_one(&Take(self, ttl), within).await
    }

    pub(super) async fn extend(
        self,
        store: &Executor,
        ttl: Ttl,
        within: Duration,
    ) -> Result<ExtendAnswer, StoreError> {
        store.ask_one(&Extend(self, ttl), within).await
    }

    pub(super) async fn release(
        self,
        store: &Executor,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        store.ask_one(&Release(self), within).await
    }
}

#[cfg(feature = "redis")]
pub(super) static SCRIPTS: Scripts = &[&TAKE, &EXTEND, &RELEASE];

struct Take<'a>(Locks<'a>, Ttl);

static TAKE: Script = script!("all_or_none/take");

impl Operation for Take<'_> {
    type Reply = TakeOutcome;

    fn script(&self) -> &'static Script {
        &TAKE
    }

    fn encode(&self, call: &mut Call) {
        self.0.write(call);
        call.arg(self.0.value).arg(self.1.as_ms());
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

struct Extend<'a>(Locks<'a>, Ttl);

static EXTEND: Script = script!("all_or_none/extend");

impl Operation for Extend<'_> {
    type Reply = ExtendAnswer;

    fn script(&self) -> &'static Script {
        &EXTEND
    }

    fn encode(&self, call: &mut Call) {
        self.0.write(call);
        call.arg(self.0.value).arg(self.1.as_ms());
    }

    fn decode(answer: &Answer) -> Result<ExtendAnswer, Malformed> {
        match answer.tag() {
            "extended" => Ok(ExtendAnswer::Extended {
                time_us: answer.number(0)?,
            }),
            "expired" => Ok(ExtendAnswer::Expired),
            "taken" => Ok(ExtendAnswer::Taken),
            _ => Err(Malformed),
        }
    }
}

struct Release<'a>(Locks<'a>);

static RELEASE: Script = script!("all_or_none/release");

impl Operation for Release<'_> {
    type Reply = ReleaseAnswer;

    fn script(&self) -> &'static Script {
        &RELEASE
    }

    fn encode(&self, call: &mut Call) {
        self.0.write(call);
        call.arg(self.0.value);
    }

    fn decode(answer: &Answer) -> Result<ReleaseAnswer, Malformed> {
        ReleaseAnswer::decode(answer)
    }
}
