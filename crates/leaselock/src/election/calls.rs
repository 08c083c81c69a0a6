//! The requests of leaders and followers.

use std::time::Duration;

use leaselock_fence::Fence;

use super::leader::Leader;
use crate::base::token::Token;
use crate::engine::values::resource::Resource;
use crate::quorum::votable::on_one_store;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

pub(super) static PROCLAIM: Script = script!("election/proclaim");
pub(super) static OBSERVE: Script = script!("election/observe", reads_only);

/// Writes who leads. Runs `election/proclaim`.
#[derive(Debug)]
pub(super) struct Proclaim<'a> {
    pub(super) resource: &'a Resource,
    pub(super) token: &'a Token,
    pub(super) value: &'a str,
    pub(super) term: Fence,
    /// How long the store keeps the record.
    pub(super) kept: Duration,
    pub(super) channel: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proclaimed {
    Shown,
    /// The lease has ended.
    Expired,
    /// Another client holds the name.
    Taken,
}

impl Operation for Proclaim<'_> {
    type Reply = Proclaimed;

    fn script(&self) -> &'static Script {
        &PROCLAIM
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock).key(self.resource.leader());
        call.arg(self.token)
            .arg(self.value)
            .arg(self.term.get())
            .arg(self.kept)
            .arg(self.channel);
    }

    fn decode(answer: &Answer) -> Result<Proclaimed, Malformed> {
        match answer.tag() {
            "proclaimed" => Ok(Proclaimed::Shown),
            "expired" => Ok(Proclaimed::Expired),
            "taken" => Ok(Proclaimed::Taken),
            _ => Err(Malformed),
        }
    }
}

/// Reads who leads. Runs `election/observe`.
#[derive(Debug)]
pub(super) struct Observe<'a> {
    pub(super) resource: &'a Resource,
}

/// What a follower reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) leader: Option<Leader>,
    /// What remains of the holder's lease.
    pub(super) remaining_ms: Option<u64>,
}

impl Operation for Observe<'_> {
    type Reply = Observed;

    fn script(&self) -> &'static Script {
        &OBSERVE
    }

    fn encode(&self, call: &mut Call) {
        call.key(&self.resource.lock).key(self.resource.leader());
    }

    fn decode(answer: &Answer) -> Result<Observed, Malformed> {
        let remaining = |at| Ok(u64::try_from(answer.signed(at)?).ok());
        match answer.tag() {
            "leads" => Ok(Observed {
                leader: Some(Leader {
                    value: answer.text_lossy(0)?,
                    term: Fence::new(answer.number(1)?),
                    client: answer.text(2)?.to_owned(),
                }),
                remaining_ms: remaining(3)?,
            }),
            "silent" => Ok(Observed {
                leader: None,
                remaining_ms: remaining(0)?,
            }),
            "vacant" => Ok(Observed {
                leader: None,
                remaining_ms: None,
            }),
            _ => Err(Malformed),
        }
    }

    fn time_us(answer: &Answer) -> Option<u64> {
        let at = match answer.tag() {
            "leads" => 4,
            "silent" => 1,
            _ => 0,
        };
        answer.number(at).ok()
    }
}

on_one_store!(Proclaim<'_>, Observe<'_>);
