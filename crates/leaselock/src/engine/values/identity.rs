//! The record of a client: its host, process, start and more. It is written once per client, not with every lease.

use crate::base::process::Process;
use crate::base::ttl::Ttl;
use crate::script::Scripts;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

/// The scripts of the client's record.
pub(crate) static SCRIPTS: Scripts = &[&ANNOUNCE, &WHO];

/// Writes the record of a client; an empty `about` deletes it. Runs `lua/client/announce.lua`.
#[derive(Debug)]
pub(crate) struct Announce<'a> {
    pub(crate) record: &'a str,
    pub(crate) about: &'a str,
    pub(crate) ttl: Ttl,
}

pub(crate) static ANNOUNCE: Script = script!("client/announce");

impl Operation for Announce<'_> {
    type Reply = ();

    fn script(&self) -> &'static Script {
        &ANNOUNCE
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.record);
        call.arg(self.about).arg(self.ttl.as_ms());
    }

    fn decode(answer: &Answer) -> Result<(), Malformed> {
        match answer.tag() {
            "announced" | "gone" => Ok(()),
            _ => Err(Malformed),
        }
    }
}

/// Reads the record of a client. Runs `lua/client/who.lua`.
#[derive(Debug)]
pub(crate) struct Who<'a> {
    pub(crate) record: &'a str,
}

static WHO: Script = script!("client/who", reads_only);

impl Operation for Who<'_> {
    /// Without the id of the client, which the caller knows.
    type Reply = Option<Process>;

    fn script(&self) -> &'static Script {
        &WHO
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.record);
    }

    /// A record that no client wrote counts as none.
    fn decode(answer: &Answer) -> Result<Option<Process>, Malformed> {
        match answer.tag() {
            "known" => Ok(answer.text(0).ok().and_then(Process::decode)),
            "unknown" => Ok(None),
            _ => Err(Malformed),
        }
    }
}
