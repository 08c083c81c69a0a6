//! The holder's note beside a lease, for people.

use super::operation::operation;
use super::resource::Resource;
use crate::base::{Token, Ttl};
use crate::script::Script;

operation! {
    /// Writes a note beside a lease, or deletes it. Runs the kind's `note`.
    pub(crate) struct Note<'a> {
        script: &'static Script,
        resource: &'a Resource,
        token: &'a Token,
        text: &'a str,
        ttl: Ttl,
    }
    script script;
    votes elsewhere;
    fn encode(call) {
        call.key(&resource.lock).key(resource.note());
        call.arg(token).arg(text).arg(ttl.as_ms());
    }
    fn decode(answer) -> () {
        "noted" | "erased" => (),
    }
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
