//! The requests of a flag.

use std::time::Duration;

use crate::engine::values::calls::operation;
use crate::script::Scripts;
use crate::script::keys::LockKeys;
use crate::script::{Script, script};

static RAISE: Script = script!("flag/raise");
static INSPECT_FLAG: Script = script!("flag/inspect", reads_only);

/// Every script of this file.
pub(crate) static SCRIPTS: Scripts = &[&RAISE, &INSPECT_FLAG];

operation! {
    /// Raises it. Runs `flag/raise`.
    pub(super) struct Raise<'a> {
        keys: &'a LockKeys,
        kept: Duration,
        channel: &'a str,
    }
    script &RAISE;
    fn encode(call) {
        call.key(keys.beside("flag"));
        call.arg(kept).arg(channel);
    }
    fn decode(answer) -> () {
        "raised" => (),
    }
}

operation! {
    /// Reads whether it is up. Runs `flag/inspect`.
    pub(super) struct InspectFlag<'a> {
        keys: &'a LockKeys,
    }
    script &INSPECT_FLAG;
    fn encode(call) {
        call.key(keys.beside("flag"));
    }
    fn decode(answer) -> bool {
        "up" => true,
        "down" => false,
    }
}
