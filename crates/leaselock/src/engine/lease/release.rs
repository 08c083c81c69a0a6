//! Giving a lease back.

use std::time::Duration;

use crate::base::error::{NotHeld, ReleaseError, StoreError};
use crate::base::fence::Fence;
use crate::base::name::Name;
use crate::base::token::Token;
use crate::engine::calls::Release;
use crate::engine::core::Engine;
use crate::engine::custom::CustomLock;
use crate::engine::grant::ReleaseAnswer;
use crate::engine::resource::Resource;

/// Releases by token. An answer that was lost is asked for again once: then "not held" means that the first did it.
pub(crate) async fn release(
    engine: &Engine,
    name: &Name,
    keys: &Resource,
    token: &Token,
    used: Option<Fence>,
    within: Duration,
) -> Result<(), ReleaseError> {
    let release = Release { keys, token, used };
    let first = engine.requests.release(&release, within).await;
    let again = first.as_ref().is_err_and(StoreError::maybe_applied);
    let answer = if again {
        Box::pin(engine.ask(&release, within)).await // seldom, and large
    } else {
        first
    };
    given_back(name, answer, again)
}

/// Gives back what was taken in another way. An answer that was lost is not asked for again, because not every way
/// looks before it deletes; what may be left is cleaned up, which does.
pub(super) async fn claimed(
    engine: &Engine,
    name: &Name,
    claim: &dyn CustomLock,
    left: Duration,
    within: Duration,
) -> Result<(), ReleaseError> {
    let answer = if left.is_zero() {
        // It has ended by our own clock, and not every way would look whose it is now.
        let cleaned = claim.clean_up(&engine.store, within).await;
        cleaned.map(|()| ReleaseAnswer::Expired)
    } else {
        claim.release(&engine.store, left, within).await
    };
    engine.gates.notify(claim.lock());
    given_back(name, answer, false)
}

/// `again`: the same was asked before, and may have been done then.
fn given_back(
    name: &Name,
    answer: Result<ReleaseAnswer, StoreError>,
    again: bool,
) -> Result<(), ReleaseError> {
    let not_held = |why| {
        Err(ReleaseError::NotHeld {
            name: name.clone(),
            why,
        })
    };
    match answer {
        Ok(ReleaseAnswer::Released) => Ok(()),
        Ok(ReleaseAnswer::Expired | ReleaseAnswer::Taken) if again => Ok(()),
        Ok(ReleaseAnswer::Expired) => not_held(NotHeld::Expired),
        Ok(ReleaseAnswer::Taken) => not_held(NotHeld::Taken),
        Err(source) if again || source.maybe_applied() => Err(ReleaseError::Unknown {
            name: name.clone(),
            source,
        }),
        Err(source) => Err(ReleaseError::Store {
            name: name.clone(),
            source,
        }),
    }
}
