//! The requests of a flag.

use std::time::Duration;

use crate::quorum::votable::on_one_store;
#[cfg(feature = "redis")]
use crate::script::Scripts;
use crate::script::keys::LockKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

static RAISE: Script = script!("flag/raise");
static INSPECT_FLAG: Script = script!("flag/inspect", reads_only);

/// Every script of this file.
#[cfg(feature = "redis")]
pub(crate) static SCRIPTS: Scripts = &[&RAISE, &INSPECT_FLAG];

/// Raises it. Runs `flag/raise`.
#[derive(Debug)]
pub(super) struct Raise<'a> {
    pub(super) keys: &'a LockKeys,
    pub(super) kept: Duration,
    pub(super) channel: &'a str,
}

impl Operation for Raise<'_> {
    type Reply = ();

    fn script(&self) -> &'static Script {
        &RAISE
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.keys.beside("flag"));
        call.arg(self.kept).arg(self.channel);
    }

    fn decode(answer: &Answer) -> Result<(), Malformed> {
        match answer.tag() {
            "raised" => Ok(()),
            _ => Err(Malformed),
        }
    }
}

/// Reads whether it is up. Runs `flag/inspect`.
#[derive(Debug)]
pub(super) struct InspectFlag<'a> {
    pub(super) keys: &'a LockKeys,
}

impl Operation for InspectFlag<'_> {
    type Reply = bool;

    fn script(&self) -> &'static Script {
        &INSPECT_FLAG
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.keys.beside("flag"));
    }

    fn decode(answer: &Answer) -> Result<bool, Malformed> {
        match answer.tag() {
            "up" => Ok(true),
            "down" => Ok(false),
            _ => Err(Malformed),
        }
    }
}

on_one_store!(Raise<'_>, InspectFlag<'_>);
