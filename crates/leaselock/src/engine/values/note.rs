//! The holder's note beside a lease, for people.

use super::resource::Resource;
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::script::{Answer, Call, Malformed, Operation, Script};

/// Writes a note beside a lease, or deletes it. Runs the kind's `note`.
#[derive(Debug)]
pub(crate) struct Note<'a> {
    script: &'static Script,
    resource: &'a Resource,
    token: &'a Token,
    text: &'a str,
    ttl: Ttl,
}

impl<'a> Note<'a> {
    /// Creates the request; `None` for a kind whose leases have no note. An empty text deletes the note.
    pub(crate) fn of(
        resource: &'a Resource,
        token: &'a Token,
        text: &'a str,
        ttl: Ttl,
    ) -> Option<Self> {
        let script = resource.kind.note.as_ref()?;
        Some(Note {
            script,
            resource,
            token,
            text,
            ttl,
        })
    }
}

impl Operation for Note<'_> {
    type Reply = ();

    fn script(&self) -> &'static Script {
        self.script
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock).key(self.resource.note());
        call.arg(self.token).arg(self.text).arg(self.ttl.as_ms());
    }

    fn decode(answer: &Answer) -> Result<(), Malformed> {
        match answer.tag() {
            "noted" | "erased" => Ok(()),
            _ => Err(Malformed),
        }
    }
}
