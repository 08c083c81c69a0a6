//! The holder's note beside a lease, for people.

use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::script::keys::MutexKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

/// Leaves a note beside a lease, or takes it away. Runs `lua/mutex/note.lua`.
#[derive(Debug)]
pub(crate) struct Note<'a> {
    pub(crate) keys: &'a MutexKeys,
    pub(crate) token: &'a Token,
    pub(crate) text: &'a str,
    pub(crate) ttl: Ttl,
}

impl Operation for Note<'_> {
    type Reply = ();
    const SCRIPT: fn() -> &'static Script = || script!("mutex/note");

    fn encode(&self, call: &mut Call) {
        call.key(&self.keys.lock).key(self.keys.note());
        call.arg(self.token).arg(self.text).arg(self.ttl.as_ms());
    }

    fn decode(answer: &Answer) -> Result<(), Malformed> {
        match answer.tag() {
            "noted" | "erased" => Ok(()),
            _ => Err(Malformed),
        }
    }
}
