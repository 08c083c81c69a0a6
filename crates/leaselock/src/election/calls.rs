//! The requests of leaders and followers.

use std::time::Duration;

use leaselock_fence::Fence;

use super::proclamation::Proclamation;
use crate::base::Token;
use crate::base::error::LostReason;
use crate::engine::values::grant::StepReply;
use crate::engine::values::{Resource, operation};
use crate::script::{Script, script};

pub(super) static PROCLAIM: Script = script!("election/proclaim");
pub(super) static OBSERVE: Script = script!("election/observe", reads_only);

operation! {
    /// Writes who leads. Runs `election/proclaim`.
    pub(super) struct Proclaim<'a> {
        resource: &'a Resource,
        token: &'a Token,
        value: &'a str,
        term: Fence,
        /// How long the store keeps the record.
        kept: Duration,
        channel: &'a str,
    }
    script &PROCLAIM;
    fn encode(call) {
        call.key(&resource.lock).key(resource.beside("leader"));
        call.arg(token).arg(value).arg(term.get()).arg(kept).arg(channel);
    }
    fn decode(answer) -> StepReply {
        "proclaimed" => Ok(()),
        "expired" => Err(LostReason::KeyMissing),
        "taken" => Err(LostReason::TakenOver),
    }
}

/// What a follower reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) leader: Option<Proclamation>,
    /// What remains of the holder's lease.
    pub(super) remaining_ms: Option<u64>,
}

operation! {
    /// Reads who leads. Runs `election/observe`.
    pub(super) struct Observe<'a> {
        resource: &'a Resource,
    }
    script &OBSERVE;
    fn encode(call) {
        call.key(&resource.lock).key(resource.beside("leader"));
    }
    fn decode(answer) -> Observed {
        "leads" => Observed {
            leader: Some(Proclamation {
                value: answer.text_lossy(0)?,
                term: Fence::new(answer.number(1)?),
                client: answer.text(2)?.to_owned(),
            }),
            remaining_ms: u64::try_from(answer.signed(3)?).ok(),
        },
        "silent" => Observed {
            leader: None,
            remaining_ms: u64::try_from(answer.signed(0)?).ok(),
        },
        "vacant" => Observed { leader: None, remaining_ms: None },
    }
    fn time_us(answer) {
        let at = match answer.tag() {
            "leads" => 4,
            "silent" => 1,
            _ => 0,
        };
        answer.number(at).ok()
    }
}
