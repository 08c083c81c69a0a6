//! The requests of a limiter.

use super::band::Rate;
use crate::quorum::votable::on_one_store;
#[cfg(feature = "redis")]
use crate::script::Scripts;
use crate::script::keys::LockKeys;
use crate::script::{Answer, Call, Malformed, Operation, Script, script};

static TAKE: Script = script!("limiter/take");
static GIVE_BACK_PERMITS: Script = script!("limiter/give_back");

/// Every script of this file.
#[cfg(feature = "redis")]
pub(crate) static SCRIPTS: Scripts = &[&TAKE, &GIVE_BACK_PERMITS];

/// Which permits a request is about: of which limiter, at which rate, and how many.
#[derive(Debug, Clone)]
pub(super) struct PermitRequest {
    pub(super) keys: LockKeys,
    pub(super) rate: Rate,
    pub(super) cost: u32,
}

/// Uses permits, or reserves the moment at which they may be used. Runs `limiter/take`.
#[derive(Debug)]
pub(super) struct Take<'a> {
    pub(super) request: &'a PermitRequest,
    /// The caller's own, if it waits.
    pub(super) id: &'a str,
    pub(super) patience_us: u64,
}

/// What the store says. `band` is the index of the band that allows the fewest permits, or that allows them last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // of `leaselock-tower`
pub enum Taken {
    Allowed { left: u32, band: usize },
    Reserved { wait_us: u64, band: usize },
    Limited { wait_us: u64, band: usize },
}

impl Operation for Take<'_> {
    type Reply = Taken;

    fn script(&self) -> &'static Script {
        &TAKE
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.request.keys.beside("limiter"))
            .key(self.request.keys.beside("reserved"))
            .key(self.request.keys.beside("returned"));
        call.arg(self.id)
            .arg(u64::from(self.request.cost))
            .arg(self.patience_us);
        self.request.rate.write_to(call);
    }

    fn decode(answer: &Answer) -> Result<Taken, Malformed> {
        let (wait_us, band) = (|| answer.number(0), answer.number(1)?);
        let band = band.checked_sub(1).and_then(|index| index.try_into().ok());
        let band = band.ok_or(Malformed)?;
        Ok(match answer.tag() {
            "allowed" => Taken::Allowed {
                left: answer.small(0)?,
                band,
            },
            "reserved" => Taken::Reserved {
                wait_us: wait_us()?,
                band,
            },
            "limited" => Taken::Limited {
                wait_us: wait_us()?,
                band,
            },
            _ => return Err(Malformed),
        })
    }
}

/// Gives back a reservation before its moment. Runs `limiter/give_back`.
#[derive(Debug)]
pub(super) struct GiveBackPermits<'a> {
    pub(super) request: &'a PermitRequest,
    pub(super) id: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenBack {
    GivenBack,
    /// There was no reservation whose moment is to come.
    Gone,
}

impl Operation for GiveBackPermits<'_> {
    type Reply = GivenBack;

    fn script(&self) -> &'static Script {
        &GIVE_BACK_PERMITS
    }

    fn encode(&self, call: &mut Call) {
        call.key(self.request.keys.beside("limiter"))
            .key(self.request.keys.beside("reserved"))
            .key(self.request.keys.beside("returned"));
        call.arg(self.id).arg(u64::from(self.request.cost));
        self.request.rate.write_to(call);
    }

    fn decode(answer: &Answer) -> Result<GivenBack, Malformed> {
        match answer.tag() {
            "given_back" => Ok(GivenBack::GivenBack),
            "gone" => Ok(GivenBack::Gone),
            _ => Err(Malformed),
        }
    }
}

on_one_store!(Take<'_>, GiveBackPermits<'_>);
