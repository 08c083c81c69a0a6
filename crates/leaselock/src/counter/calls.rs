//! The requests of a counter.

use std::time::Duration;

use leaselock_fence::{Fence, Name};

use super::change::{Change, ChangeEnd, ChangeRequest};
use crate::engine::values::calls::operation;
use crate::script::{LockKeys, Malformed, Script, Scripts, script};

static CHANGE_ONCE: Script = script!("counter/change");
static READ: Script = script!("counter/read", reads_only);

/// Every script of this file.
pub(crate) static SCRIPTS: Scripts = &[&CHANGE_ONCE, &READ];

/// How long the store remembers a client's latest change and its reply.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

operation! {
    /// Changes the counter once, however often it is sent. Runs `counter/change`.
    pub(super) struct ChangeOnce<'a> {
        keys: &'a LockKeys,
        client: &'a str,
        request: &'a ChangeRequest,
    }
    script &CHANGE_ONCE;
    fn encode(call) {
        let (counter, ChangeRequest { number, change, terms, .. }) = (keys.beside("counter"), request);
        let (verb, value, expected) = match change {
            Change::Add(value) => ("add", value, String::new()),
            Change::Set { expected, value } => ("set", value, expected.to_string()),
        };
        call.key(counter).key(format!("{counter}:{client}"));
        call.arg(*number).arg(REMEMBERED);
        call.arg(verb).arg(value.to_string()).arg(expected);
        call.arg(terms.kept.unwrap_or_default());
        let shown = terms.shown.as_ref();
        let fence = shown.map(|shown| shown.fence().to_string());
        let owner = shown.map_or("", |shown| shown.owner());
        let lock = shown.map_or("", |shown| shown.name().as_str());
        call.arg(fence.unwrap_or_default()).arg(owner).arg(lock);
    }
    fn decode(answer) -> ChangeEnd {
        "done" => ChangeEnd::Done(answer.signed(0)?, None),
        "differs" => ChangeEnd::Differs(answer.signed(0)?),
        "overflow" => ChangeEnd::Overflow(answer.signed(0)?),
        "stale" => ChangeEnd::Stale(Fence::new(answer.number(0)?)),
        "other" => ChangeEnd::OtherName(Name::new(answer.text(0)?).map_err(|_| Malformed)?),
        "late" => ChangeEnd::Forgotten, // a later change of this client has come
    }
}

operation! {
    /// Reads the counter. Runs `counter/read`.
    pub(super) struct Read<'a> {
        keys: &'a LockKeys,
    }
    script &READ;
    fn encode(call) {
        call.key(keys.beside("counter"));
    }
    fn decode(answer) -> i64 {
        "value" => answer.signed(0)?,
    }
}
