//! The requests of a latch.

use std::time::Duration;

use crate::engine::values::calls::operation;
use crate::script::{LockKeys, Script, Scripts, Value, script};

static ARRIVE: Script = script!("latch/arrive");
static INSPECT_LATCH: Script = script!("latch/inspect", reads_only);

/// Every script of this file.
pub(crate) static SCRIPTS: Scripts = &[&ARRIVE, &INSPECT_LATCH];

operation! {
    /// Counts a party, and tells how many are missing then: `None` if the latch is open without it. Or tells how many
    /// parties there are, as others say. Runs `latch/arrive`.
    pub(super) struct Arrive<'a> {
        keys: &'a LockKeys,
        party: &'a str,
        count: u32,
        kept: Duration,
        channel: &'a str,
    }
    script &ARRIVE;
    fn encode(call) {
        call.key(keys.beside("latch"));
        call.arg(party).arg(u64::from(*count)).arg(kept).arg(channel);
    }
    fn decode(answer) -> Result<Option<u32>, u32> {
        "counted" | "again" => Ok(Some(answer.small(0)?)),
        "excess" => Ok(None),
        "disagrees" => Err(answer.small(0)?),
    }
}

/// Who has arrived at a latch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatchState {
    /// The parties, in the order of their arrival. Other clients named them: show them, do not trust them.
    pub arrived: Vec<String>,
    /// How many are missing; 0 when the latch is open.
    pub left: u32,
}

impl LatchState {
    /// True if all parties have arrived.
    pub fn is_open(&self) -> bool {
        self.left == 0
    }
}

operation! {
    /// Reads who has arrived, or how many parties there are, as others say. Runs `latch/inspect`.
    pub(super) struct InspectLatch<'a> {
        keys: &'a LockKeys,
        count: u32,
    }
    script &INSPECT_LATCH;
    fn encode(call) {
        call.key(keys.beside("latch"));
        call.arg(u64::from(*count));
    }
    fn decode(answer) -> Result<LatchState, u32> {
        "arrived" => {
            let (left, parties) = (answer.small(0)?, answer.array(1)?.iter().map(Value::text_lossy));
            Ok(LatchState { arrived: parties.collect::<Result<_, _>>()?, left })
        },
        "disagrees" => Err(answer.small(0)?),
    }
}
