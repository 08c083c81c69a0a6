//! The requests of a limiter, and why it allowed nothing.

use std::time::Duration;

use super::rate::CheckedRates;
use crate::base::error::{InvalidInput, noun_error};
use crate::base::span::rounded;
use crate::base::token::Token;
use crate::engine::values::calls::operation;
use crate::script::{Answer, LockKeys, Malformed, Script, Scripts, script};

static TAKE: Script = script!("limiter/take");
static GIVE_BACK_PERMITS: Script = script!("limiter/give_back");

/// Every script of this file.
pub(crate) static SCRIPTS: Scripts = &[&TAKE, &GIVE_BACK_PERMITS];

/// Which permits a request is about: of which limiter, at which rate, and how many.
#[derive(Debug, Clone)]
pub(super) struct PermitRequest {
    pub(super) keys: LockKeys,
    pub(super) rate: CheckedRates,
    pub(super) cost: u32,
}

/// What the store says. `rate` is the index of the rate that allows the fewest permits, or that allows them last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // of `leaselock-tower`
pub enum Taken {
    Allowed { left: u32, rate: usize },
    Reserved { wait_us: u64, rate: usize },
    Limited { wait_us: u64, rate: usize },
}

operation! {
    /// Uses permits, or reserves the moment at which they may be used. Runs `limiter/take`.
    pub(super) struct Take<'a> {
        request: &'a PermitRequest,
        /// The caller's own, if it waits.
        id: &'a str,
        longest_us: u64,
    }
    script &TAKE;
    fn encode(call) {
        let PermitRequest { keys, rate, cost } = request;
        call.key(keys.beside("limiter")).key(keys.beside("reserved")).key(keys.beside("returned"));
        call.arg(id).arg(u64::from(*cost)).arg(longest_us);
        rate.write_to(call);
    }
    fn decode(answer) -> Taken {
        "allowed" => Taken::Allowed { left: answer.small(0)?, rate: rate_of(answer)? },
        "reserved" => Taken::Reserved { wait_us: answer.number(0)?, rate: rate_of(answer)? },
        "limited" => Taken::Limited { wait_us: answer.number(0)?, rate: rate_of(answer)? },
    }
}

/// Reads the index of a rate, which the scripts count from 1.
fn rate_of(answer: &Answer) -> Result<usize, Malformed> {
    let index = answer.number(1)?.checked_sub(1);
    index
        .and_then(|index| index.try_into().ok())
        .ok_or(Malformed)
}

operation! {
    /// Gives back a reservation before its moment; false if there was none whose moment is to come. Runs
    /// `limiter/give_back`.
    #[derive(Clone)]
    pub(super) struct GiveBackPermits {
        request: PermitRequest,
        id: Token,
    }
    script &GIVE_BACK_PERMITS;
    fn encode(call) {
        let PermitRequest { keys, rate, cost } = request;
        call.key(keys.beside("limiter")).key(keys.beside("reserved")).key(keys.beside("returned"));
        call.arg(id).arg(u64::from(*cost));
        rate.write_to(call);
    }
    fn decode(answer) -> bool {
        "given_back" => true,
        "gone" => false,
    }
}

noun_error! {
    /// Why a call of a [`Limiter`](crate::limiter::Limiter) failed. Nothing is held, so there is nothing to release.
    ///
    /// After `Invalid` and `TimedOut` the caller must not act. After `Store` it is not known whether the rate allows it: a caller
    /// that does not act keeps the rate, and one that acts fails open.
    #[derive(Debug, Clone, thiserror::Error)]
    pub enum LimiterError of name: "The limiter's name." {
        /// The store did not reply, or refused. The permits may count as used. The rate is kept however often the caller asks
        /// again.
        #[error("`{name}`: {source}")]
        Store leaves Permits,

        /// A name, a rate or a cost is out of its range. Nothing was sent.
        #[error(transparent)]
        Invalid(#[from] InvalidInput),

        /// The limiter would allow it later than the caller is willing to wait. Nothing was used or reserved.
        #[error("`{name}`: rate limit reached; retry in {}", rounded(*retry_after))]
        TimedOut {
            /// When it would allow this if no other client asked.
            retry_after: Duration,
        } => ErrorFacts::timed_out,
    }
}
