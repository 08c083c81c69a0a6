//! What the errors of leases and of inspection know.

use super::operation::{ErrorFacts, HasFacts, Remains};
use super::operations::{AcquireError, BreakError, LeaseError, ReleaseError, RequestError};

impl HasFacts for AcquireError {
    fn facts(&self) -> ErrorFacts<'_> {
        use AcquireError as E;
        match self {
            E::Invalid(invalid) => invalid.facts(),
            E::LostBefore(lost) | E::Lost(lost) => lost.facts(),
            E::Closed => ErrorFacts::default(),
            E::TimedOut { name, .. } => ErrorFacts::of(name).timed_out(self),
            E::Quarantined { name, .. }
            | E::TooFewReplicas { name, .. }
            | E::LostWhileWaiting { name, .. } => ErrorFacts::of(name).passing(),
            E::TooMany { name, .. } | E::Deadlock { name, .. } => ErrorFacts::of(name),
            E::Store { name, source } => ErrorFacts::of_store(name, source),
            #[rustfmt::skip]
            E::Unknown { name, clear_in, source } => {
                let at_most = Some(*clear_in);
                ErrorFacts::of_store(name, source).leaves(Remains::Lease { at_most })
            }
            #[rustfmt::skip]
            E::NoQuorum { name, clear_in, source, .. } => {
                let at_most = *clear_in;
                ErrorFacts::of_store(name, source).leaves(Remains::Votes { at_most })
            }
        }
    }
}

impl HasFacts for LeaseError {
    fn facts(&self) -> ErrorFacts<'_> {
        match self {
            LeaseError::Invalid(invalid) => invalid.facts(),
            LeaseError::Lost(lost) => lost.facts(),
            LeaseError::Unknown { name, source } | LeaseError::Store { name, source } => {
                ErrorFacts::of_store(name, source)
            }
        }
    }
}

impl HasFacts for ReleaseError {
    fn facts(&self) -> ErrorFacts<'_> {
        match self {
            ReleaseError::Invalid(invalid) => invalid.facts(),
            ReleaseError::NotHeld(lost) => lost.facts(),
            ReleaseError::Unknown { name, source } | ReleaseError::Store { name, source } => {
                ErrorFacts::of_store(name, source).leaves(Remains::Lease { at_most: None })
            }
            // Those of the first name that was not released.
            ReleaseError::Several(errors) => {
                errors.first().map(HasFacts::facts).unwrap_or_default()
            }
        }
    }
}

impl HasFacts for RequestError {
    fn facts(&self) -> ErrorFacts<'_> {
        match self {
            RequestError::Invalid(invalid) => invalid.facts(),
            RequestError::Store(source) => source.facts(),
        }
    }
}

impl HasFacts for BreakError {
    fn facts(&self) -> ErrorFacts<'_> {
        match self {
            BreakError::Invalid(invalid) => invalid.facts(),
            BreakError::Unknown { name, source } | BreakError::Store { name, source } => {
                ErrorFacts::of_store(name, source)
            }
            BreakError::NotHeld { name }
            | BreakError::Foreign { name }
            | BreakError::Mismatch { name, .. } => ErrorFacts::of(name),
        }
    }
}
