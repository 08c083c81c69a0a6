//! The record of a client: its host, process, start and more. It is written once per client, not with every lease.

use super::operation::operation;
use crate::base::Ttl;
use crate::base::process::Process;
use crate::script::{Script, Scripts, script};

pub(crate) static SCRIPTS: Scripts = &[&ANNOUNCE, &WHO];

pub(crate) static ANNOUNCE: Script = script!("client/announce");
static WHO: Script = script!("client/who", reads_only);

operation! {
    /// Writes the record of a client; an empty `about` deletes it. Runs `lua/client/announce.lua`.
    pub(crate) struct Announce<'a> {
        record: &'a str,
        about: &'a str,
        ttl: Ttl,
    }
    script &ANNOUNCE;
    votes elsewhere;
    fn encode(call) {
        call.key(record).arg(*about).arg(ttl.as_ms());
    }
    fn decode(answer) -> () {
        "announced" | "gone" => (),
    }
}

operation! {
    /// Reads the record of a client, without its id, which the caller knows. Runs `lua/client/who.lua`.
    pub(crate) struct Who<'a> {
        record: &'a str,
    }
    script &WHO;
    votes elsewhere;
    fn encode(call) {
        call.key(record);
    }
    fn decode(answer) -> Option<Process> {
        // A record that no client wrote counts as none.
        "known" => answer.text(0).ok().and_then(Process::decode),
        "unknown" => None,
    }
}
