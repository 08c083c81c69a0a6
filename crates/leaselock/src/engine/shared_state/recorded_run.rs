//! A run whose end is recorded under its name: of work that runs once, or of a tick of a schedule.
//!
//! A caller begins it, or is told why no run begins. The run holds the name as a mutex does, and one step records its end
//! and gives the name back (`Lease::end_by`). A noun says what its scripts ask for and what they tell.

use tracing::Instrument;

use super::attempt::Attempt;
use crate::base::error::{AcquireError, ErrorKind, InvalidInput, NounFailure, StoreError};
use crate::base::token::Token;
use crate::base::ttl::Ttl;
use crate::engine::guard::lease::Lease;
use crate::engine::services::totals::acquiring::Acquiring;
use crate::engine::values::request::Wait;
use crate::engine::values::resource::Resource;
use crate::engine::ways::ask::Ask;
use crate::engine::ways::trying::{CallNumber, CallNumbers, Tried, Tries, Try};
use crate::engine::ways::way::Way;
use crate::quorum::votable::Votable;

/// Begins a run, or asks why none begins.
#[derive(Debug)]
pub(crate) struct BeginRun<T> {
    pub(crate) resource: Resource,
    pub(crate) token: Token,
    pub(crate) ttl: Ttl,
    /// What the noun asks for.
    pub(crate) asked: T,
    /// Which request of which call this is.
    pub(crate) number: CallNumber,
}

/// What a caller asks for until it is told.
pub(crate) trait RunTerms: Clone + Send + Sync {
    /// What the callers' channel is called.
    const NOUN: &'static str;
    type Told: Send + 'static;

    /// Notes why no run has begun. True if a broadcast will say when that changes.
    fn is_watched(&mut self, told: &Self::Told) -> bool;
}

/// Asks until a run begins, or there is no reason to wait for one.
///
/// `acquiring` counts a run that begins as a lease, and what a caller is told in its place not at all.
pub(crate) async fn begin<T: RunTerms>(
    acquiring: Acquiring<'_>,
    mut ask: Ask<'_>,
    ttl: Ttl,
    asked: T,
    calls: &CallNumbers,
    wait: Wait,
) -> Result<(Option<Lease>, T::Told), AcquireError>
where
    BeginRun<T>: Votable<Reply = Tried<T::Told>>,
{
    let mut tries = RunTries { ttl, asked, calls };
    let begun = Tries::new(&mut ask, &mut tries, T::NOUN, wait).run();
    let begun = begun.instrument(acquiring.span.clone()).await;
    if let Ok((None, _)) = &begun {
        acquiring.end_untold();
        return begun;
    }
    acquiring.end(begun, |(lease, _), hold| {
        if let Some(lease) = lease {
            lease.counted(hold);
        }
    })
}

struct RunTries<'a, T> {
    ttl: Ttl,
    asked: T,
    calls: &'a CallNumbers,
}

impl<T: RunTerms> Try for RunTries<'_, T>
where
    BeginRun<T>: Votable<Reply = Tried<T::Told>>,
{
    type Told = T::Told;
    type Request = BeginRun<T>;

    fn request(&self, resource: &Resource, token: &Token) -> BeginRun<T> {
        BeginRun {
            resource: resource.clone(),
            token: token.clone(),
            ttl: self.ttl,
            asked: self.asked.clone(),
            number: self.calls.next(token),
        }
    }

    fn is_watched(&mut self, told: &T::Told) -> bool {
        self.asked.is_watched(told)
    }
}

/// Gives a run back as if it had never begun. Without a reply that is repeated in the background.
pub(crate) async fn cancel(lease: Lease<Attempt>) -> Result<(), NounFailure> {
    let name = lease.name().clone();
    let cancelled = lease.undo().await;
    cancelled.map_err(|source| NounFailure { name, source })
}

/// Refuses options of a lock that a run cannot have.
pub(crate) fn check(
    fencing: Option<bool>,
    renews: bool,
    has_owner: bool,
) -> Result<(), InvalidInput> {
    if fencing == Some(false) || !renews {
        return Err(InvalidInput::new(
            "a run has a fencing token and is renewed: leave `fencing(false)` and `renewal(false)` out",
        ));
    }
    if has_owner {
        return Err(InvalidInput::new(
            "a run has no owner, because no other task may share it",
        ));
    }
    Ok(())
}

/// The error of a reply that does not fit to what was asked.
pub(crate) fn unexpected_reply() -> StoreError {
    let message = "a reply that no version of this script gives";
    StoreError::refused(ErrorKind::Malformed, message)
}
