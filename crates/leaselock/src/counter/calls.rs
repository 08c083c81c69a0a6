//! The requests of a counter.

use std::time::Duration;

use leaselock_fence::{Fence, Name};

use super::change::{Change, ChangeTerms, Settled};
use crate::quorum::votable::on_one_store;
#[cfg(feature = "redis")]
use crate::script::Scripts;
use crate::script::keys::LockKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

static CHANGE_ONCE: Script = script!("counter/change");
static READ: Script = script!("counter/read", reads_only);

/// Every script of this file.
#[cfg(feature = "redis")]
pub(crate) static SCRIPTS: Scripts = &[&CHANGE_ONCE, &READ];

/// How long the store remembers a client's latest change and its reply.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// Changes the counter once, however often it is sent. Runs `counter/change`.
#[derive(Debug)]
pub(super) struct ChangeOnce<'a> {
    pub(super) keys: &'a LockKeys,
    pub(super) client: &'a str,
    pub(super) number: u64,
    pub(super) change: Change,
    pub(super) terms: &'a ChangeTerms,
}

impl Operation for ChangeOnce<'_> {
    type Reply = Option<Settled>;

    fn script(&self) -> &'static Script {
        &CHANGE_ONCE
    }

    fn encode(&self, call: &mut Call) {
        let counter = self.keys.beside("counter");
        let (verb, value, expected) = match self.change {
            Change::Add(value) => ("add", value, String::new()),
            Change::Set { expected, value } => ("set", value, expected.to_string()),
        };
        call.key(counter).key(format!("{counter}:{}", self.client));
        call.arg(self.number).arg(REMEMBERED);
        call.arg(verb).arg(value.to_string()).arg(expected);
        call.arg(self.terms.kept.unwrap_or_default());
        let shown = self.terms.shown.as_ref();
        let fence = shown.map(|shown| shown.fence().to_string());
        let owner = shown.map_or("", |shown| shown.owner());
        let lock = shown.map_or("", |shown| shown.name().as_str());
        call.arg(fence.unwrap_or_default()).arg(owner).arg(lock);
    }

    /// `None` when a later change of this client has come.
    fn decode(answer: &Answer) -> Result<Option<Settled>, Malformed> {
        Ok(Some(match answer.tag() {
            "done" => Settled::Done(answer.signed(0)?),
            "differs" => Settled::Differs(answer.signed(0)?),
            "overflow" => Settled::Overflow(answer.signed(0)?),
            "stale" => Settled::Stale(Fence::new(answer.number(0)?)),
            "other" => Settled::OtherName(Name::new(answer.text(0)?).map_err(|_| Malformed)?),
            "late" => return Ok(None),
            _ => return Err(Malformed),
        }))
    }
}

/// Reads the counter. Runs `counter/read`.
#[derive(Debug)]
pub(super) struct Read<'a> {
    pub(super) keys: &'a LockKeys,
}

impl Operation for Read<'_> {
    type Reply = i64;

    fn script(&self) -> &'static Script {
        &READ
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.keys.beside("counter"));
    }

    fn decode(answer: &Answer) -> Result<i64, Malformed> {
        match answer.tag() {
            "value" => answer.signed(0),
            _ => Err(Malformed),
        }
    }
}

on_one_store!(ChangeOnce<'_>, Read<'_>);
