//! Extending a lease of one name, or of several.

use std::time::Duration;

use futures_util::future::join_all;

use super::handle::Lease;
use crate::base::Ttl;
use crate::base::error::LeaseError;
use crate::engine::values::{Extend, ExtendAnswer};

impl<M> Lease<M> {
    /// Extends the lease to `ttl` from now. Later renewals use the same `ttl`.
    ///
    /// It never shortens the present deadline, and never revives a lost lease.
    ///
    /// # Waiting
    /// One request, within the request timeout; of several names one for each, all at once.
    ///
    /// # Cancel safety
    /// When dropped, the extension may have happened; the lease is held until its old deadline at least.
    ///
    /// # Errors
    /// [`LeaseError`]: every variant says what it means for the lease. Of several names it is that of one name, which it
    /// says, and a loss before any other error; the other names may be extended.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// # let lease = client.mutex("invoices").acquire().await?;
    /// lease.extend(std::time::Duration::from_secs(60)).await?; // before a step that takes long
    /// # Ok(()) }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<(), LeaseError> {
        match &*self.several {
            [] => self.extend_one(ttl).await,
            leases => extend_each(leases, ttl).await,
        }
    }

    async fn extend_one(&self, ttl: Duration) -> Result<(), LeaseError> {
        let ttl = Ttl::new(ttl)?;
        self.engine.check_strict(ttl)?;
        self.engine.store.check_limits(0, ttl.as_duration())?;
        self.can_be("extended", |custom| custom.why_no_renewal())?;
        if let Some(lost) = self.record.lost_by_now() {
            return Err(lost.into());
        }
        let t0 = self.engine.clock.now();
        let extend = Extend {
            resource: &self.record.resource,
            token: &self.record.token,
            ttl,
        };
        let within = self.engine.request_timeout(ttl);
        let answer = match &self.record.custom {
            Some(custom) => custom.extend(&self.engine.store, ttl, within).await,
            None => self.engine.ask(&extend, within).await,
        };
        match answer {
            Ok(ExtendAnswer::Extended { .. }) => {
                let now = self.engine.clock.now();
                self.record.core().extended(t0, now, ttl);
                let next = self.passes_to.as_ref();
                let renewed = next.map_or(ttl, |next| next.renewal_ttl(ttl));
                self.record.core().set_ttl(renewed);
                self.record.tell_hook();
                self.engine.check_now(self.id);
                self.record
                    .lost_by_now()
                    .map_or(Ok(()), |lost| Err(lost.into()))
            }
            Ok(ExtendAnswer::Gone(reason)) => Err(self.end(reason).into()),
            Err(source) => Err(LeaseError::from_store(&self.record.name, source)),
        }
    }
}

/// Extends each of them. A loss comes before any other error.
async fn extend_each(leases: &[Lease], ttl: Duration) -> Result<(), LeaseError> {
    let extended = join_all(leases.iter().map(|lease| lease.extend_one(ttl))).await;
    let mut errors: Vec<_> = extended.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| !matches!(error, LeaseError::Lost(_)));
    errors.into_iter().next().map_or(Ok(()), Err)
}
