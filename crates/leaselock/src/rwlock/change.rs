//! A lease that goes on in another way: downgrades, and the error of every change.

use super::kind::{DOWNGRADE, READ, UPGRADABLE};
use crate::base::error::AcquireError;
use crate::client::named::Named;
use crate::engine::guard::lease::Lease;
use crate::engine::values::request::Wait;

/// An upgrade or a downgrade that was not made, with the lease that was to be changed.
///
/// The lease is held as before, except when its [`is_held`](Lease::is_held) says no: after [`AcquireError::Lost`], and
/// after a downgrade with [`AcquireError::Unknown`], whose lease is being released in the background.
///
/// # Examples
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leaselock::Client::open("mem:")?;
/// let lock = client.rwlock("index");
/// let other = lock.read().await?;
/// let reading = lock.upgradable_read().await?;
/// let reading = match reading.try_upgrade().await {
///     Ok(writing) => return Ok(writing.release().await?),
///     Err(busy) => busy.lease,
/// };
/// assert!(reading.is_held());
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct ChangeError<M> {
    /// The lease that was to be changed.
    pub lease: Lease<M>,
    /// Why it was not.
    pub error: Box<AcquireError>,
}

impl<M> ChangeError<M> {
    /// With [`AcquireError::Lost`] the lease ends.
    pub(super) fn new(lease: Lease<M>, error: AcquireError) -> Self {
        let error = Box::new(match error {
            AcquireError::Lost(lost) => AcquireError::Lost(lease.end(lost.reason)),
            error => error,
        });
        ChangeError { lease, error }
    }
}

/// Makes the lease of a writer, or of an upgradable reader, one of a reader of the mode `asked`.
///
/// When the reply is lost, the lease ends and its token is cleaned up. The server may run the request late, and the
/// caller must not write after that.
pub(super) async fn downgrade<M, N>(
    lock: &Named,
    mut lease: Lease<M>,
    mode: &str,
    held_as: N,
) -> Result<Lease<N>, ChangeError<M>> {
    let asked = match lease.parts().1.last_fence() {
        Some(fence) if mode == UPGRADABLE => format!("{mode} {fence}"),
        _ => mode.to_owned(),
    };
    let by = lock.as_kind(&DOWNGRADE, Some(&asked));
    let into = lock.as_kind(&READ, Some(mode));
    lease.set_changing(true);
    let error = match by.change(&lease, &into, Some(Wait::Never)).await {
        Ok(mut reading) => {
            reading.succeed(lease);
            return Ok(reading.held_as(held_as));
        }
        Err(error) => error,
    };
    lease.set_changing(false);
    if let AcquireError::Unknown { .. } = error {
        lease.retire();
    }
    Err(ChangeError::new(lease, error))
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use std::time::Duration;

    use crate::Client;
    use crate::base::Clock;

    /// Another guard has the lease counted anew, by what its guards ask for together.
    #[tokio::test]
    async fn a_changed_lease_of_an_owner_has_a_longest_hold_of_its_own() {
        let clock = Clock::manual();
        let builder = Client::builder().url("mem:").clock(clock.clone());
        let client = builder.open().unwrap();
        let longest = Duration::from_secs(20);
        let me = client.owner("import 42");
        let lock = client.rwlock("index").max_hold(longest).owner(&me);
        let reading = lock.upgradable_read().await.unwrap();
        clock.advance(Duration::from_secs(5));
        let writing = reading.upgrade().await.unwrap();
        let another = lock.write().await.unwrap();
        for guard in [writing, another] {
            let hold_until = guard.parts().1.core().terms().hold_until;
            assert_eq!(hold_until, Some(clock.now().plus(longest)));
        }
    }
}
