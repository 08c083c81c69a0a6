//! The reservation of one waiting caller.

use std::time::Duration;

use super::calls::{GiveBackPermits, Take, Taken};
use crate::base::error::NounFailure;
use crate::engine::services::leftover::Leftover;
use crate::engine::shared_state::noun::ValidNoun;

/// Uses the permits, or reserves the moment at which they may be used. When the reply is lost it asks once more: a
/// reservation is then the same. What a dropped caller has reserved is given back in the background.
pub(super) async fn reserve(
    limiter: &ValidNoun,
    reservation: &mut Leftover<GiveBackPermits>,
    patience: Duration,
) -> Result<Taken, NounFailure> {
    reservation.begins();
    let GiveBackPermits { request, id } = reservation.what();
    let take = Take {
        request,
        id: id.secret(),
        patience_us: u64::try_from(patience.as_micros()).unwrap_or(u64::MAX),
    };
    let is_lost = |failure: &NounFailure| failure.source.maybe_applied();
    let (outcome, was_lost) = match limiter.ask(&take).await {
        Err(failure) if is_lost(&failure) => (limiter.ask(&take).await, true),
        outcome => (outcome, false),
    };
    match &outcome {
        Ok(Taken::Reserved { .. }) => reservation.is_present(),
        Err(failure) if was_lost || is_lost(failure) => {}
        _ => reservation.ends(),
    }
    outcome
}
