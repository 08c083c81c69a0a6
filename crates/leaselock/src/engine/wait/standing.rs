//! A waiter's place in the queue, as it is handed from whoever stands there to whoever goes on.

use std::time::Duration;

use super::notifier::Registration;
use super::progress::Progress;
use crate::base::token::Token;
use crate::engine::cleanup::CleanupGuard;
use crate::engine::lease::Lease;

/// An acquisition that never had an answer is given up after this, even if the caller would wait for ever: waiting for
/// a holder is one thing, waiting for a server that was never there another. A store that others keep busy is there.
pub(super) const NEVER_ANSWERED: Duration = Duration::from_secs(2);
/// With less time a request would only hide the true trouble behind one of time.
pub(super) const SHORTEST_REQUEST: Duration = Duration::from_millis(100);

/// A place in line, or what may be one, that can be handed to whoever goes on standing there.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(super) token: Token,
    pub(super) debt: CleanupGuard,
    pub(super) place: Registration,
    pub(super) so_far: Progress,
}

/// From here on the lease has an owner, and nothing is owed but what late requests may do.
pub(super) fn owned(mut lease: Lease, debt: CleanupGuard, so_far: &Progress) -> Lease {
    if so_far.ambiguous {
        lease.expect_late_requests();
    }
    if debt.settle() {
        lease.stood_in_line();
    }
    lease
}
