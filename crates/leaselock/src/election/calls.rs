//! A leadership as a kind of lock, and the requests of leaders and followers.

use std::time::Duration;

use leaselock_fence::Fence;

use crate::base::error::LostReason;
use crate::engine::values::calls::COMPARE_AND_DELETE;
use crate::engine::values::grant::StepReply;
use crate::engine::values::{Held, Kind, Resource, kind, operation, step};
use crate::script::{Answer, Malformed, Script, script};

/// The mutex, but for the steps in which the leader gives it up.
///
/// Campaigners queue with those who acquire the mutex of that name. A leadership belongs to one task, so it is not
/// handed over among the tasks of a client.
pub(crate) static LEADERSHIP: Kind = kind! {
    name: "leader election",
    label: "leader",
    no_majority: Some("servers that vote have no one place for what a leader proclaims"),
    side_keys: &["queue", "waiters", "fence"],
    acquire: step!("mutex/acquire"),
    extend: script!("mutex/extend"),
    release: step!("election/resign"),
    cancel: step!("election/cancel"),
    release_keys: &["leader"],
    extend_many: script!("mutex/extend_many"),
    release_alone: &COMPARE_AND_DELETE,
    position: script!("mutex/position", reads_only),
    confirm: script!("mutex/confirm"),
    note: script!("mutex/note"),
    others: &[&PROCLAIM, &OBSERVE],
};

static PROCLAIM: Script = script!("election/proclaim");
static OBSERVE: Script = script!("election/observe", reads_only);

operation! {
    /// Writes who leads. Runs `election/proclaim`.
    pub(super) struct Proclaim<'a> {
        held: &'a Held,
        value: &'a str,
        term: Fence,
        /// How long the store keeps the record.
        kept: Duration,
        channel: &'a str,
    }
    script &PROCLAIM;
    fn encode(call) {
        let Held { resource, token } = *held;
        call.key(&resource.lock).key(resource.beside("leader"));
        call.arg(token).arg(value).arg(term.get()).arg(kept).arg(channel);
    }
    fn decode(answer) -> StepReply {
        "proclaimed" => Ok(()),
        "expired" => Err(LostReason::KeyMissing),
        "taken" => Err(LostReason::TakenOver),
    }
}

/// The leader of an election, as it was read last. The leader may be gone by the time it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proclamation {
    /// What the leader proclaimed, such as its address. Another client wrote it: show it, do not trust it.
    pub value: String,
    /// The leader's fencing token, larger with each leader. Two leaders never have the same.
    pub term: Fence,
    /// The id of the leader's client.
    pub client: String,
}

operation! {
    /// Reads who leads, and what remains of the holder's lease. Runs `election/observe`.
    pub(super) struct Observe<'a> {
        resource: &'a Resource,
    }
    script &OBSERVE;
    fn encode(call) {
        call.key(&resource.lock).key(resource.beside("leader"));
    }
    fn decode(answer) -> (Option<Proclamation>, Option<Duration>) {
        "leads" => {
            let leader = Proclamation {
                value: answer.text_lossy(0)?,
                term: Fence::new(answer.number(1)?),
                client: answer.text(2)?.to_owned(),
            };
            (Some(leader), remaining(answer, 3)?)
        },
        "silent" => (None, remaining(answer, 0)?),
        "vacant" => (None, None),
    }
    fn time_us(answer) {
        let last = answer.values().len().checked_sub(1)?;
        answer.number(last).ok()
    }
}

fn remaining(answer: &Answer, at: usize) -> Result<Option<Duration>, Malformed> {
    let ms = u64::try_from(answer.signed(at)?);
    Ok(ms.ok().map(Duration::from_millis))
}
