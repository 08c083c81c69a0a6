//! What the ways of acquiring have in common.

use crate::base::error::AcquireError;

/// A way of acquiring. Each implementor owns the state of one way, from the first request to the grant or the error.
///
/// `acquire.rs` chooses among those for one lock: [`Retry`](super::retry::Retry), [`Poll`](super::poll::Poll),
/// [`Rounds`](super::vote::way::Rounds), [`Queue`](super::queue::way::Queue), [`Local`](super::local::way::Local).
/// [`Tries`](super::trying::Tries) and [`All`](super::all::All) are for primitives that ask for something else.
///
/// # Cancel safety
/// What a dropped future may have left on the store is cleaned up in the background.
pub(crate) trait Way {
    /// What is acquired.
    type Got;

    /// Goes on until it is acquired, or there is a reason to end.
    fn run(self) -> impl Future<Output = Result<Self::Got, AcquireError>> + Send;
}
