//! Reading and pinning the number of permits.

use super::kind::RESIZE;
use super::lock::{Semaphore, at_least_one};
use crate::base::error::RequestError;
use crate::base::process::operator;
use crate::client::inspection::{PermitCount, not_a_lock};
use crate::client::views::{Inspect, InspectedState};
use crate::engine::services::core::OPERATOR_WITHIN;
use crate::engine::values::LogEvent;
use crate::engine::values::calls::operation;
use crate::engine::values::kind::Resource;

operation! {
    /// Pins the number of permits; with 0 the latest request decides again. Runs
    /// `semaphore/resize`.
    pub(super) struct Resize {
        resource: Resource,
        permits: u32,
    }
    script resource.script(&RESIZE);
    fn encode(call) {
        call.key(&resource.lock).key(resource.queue()).key(resource.waiters());
        call.key(resource.fence()).key(resource.usage());
        resource.write_gate_key(call);
        call.arg(u64::from(*permits));
    }
    fn decode(answer) -> (u32, u32) {
        "resized" => (answer.small(0)?, answer.small(1)?),
    }
    fn time_us(answer) {
        answer.number(2).ok()
    }
}

impl Semaphore {
    /// Reads how many permits there are and how many are held.
    ///
    /// Of a name that no client has used as a semaphore in the last seven days it is what the first request would find:
    /// the number of this handle, none of them held. One read, of two seconds at most, whatever the wait policy.
    ///
    /// # Errors
    /// [`RequestError`]. Its kind is [`WrongType`](crate::ErrorKind::WrongType) when something that is no lock lies there.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let pool = client.semaphore("connections", 10);
    /// let permit = pool.acquire_many(3).await?;
    /// let permits = pool.permits().await?;
    /// assert_eq!((permits.total, permits.available()), (10, 7));
    /// # Ok(()) }
    /// ```
    pub async fn permits(&self) -> Result<PermitCount, RequestError> {
        at_least_one(self.permits)?;
        let resource = self.named.resource()?;
        let inspect = Inspect { keys: &resource };
        let engine = &self.named.state.engine;
        let seen = engine.ask(&inspect, OPERATOR_WITHIN).await?;
        if let InspectedState::Other { kind } = seen.state {
            return Err(not_a_lock(self.named.name()?, &kind).into());
        }
        Ok(seen.permits.unwrap_or(PermitCount {
            total: self.permits,
            used: 0,
            pinned: false,
        }))
    }

    /// Pins the number of permits for all clients, whatever their requests name. Returns how many there are now.
    ///
    /// It stays pinned until [`unset_permits`](Semaphore::unset_permits), or until the semaphore was unused for seven
    /// days. More permits are granted to waiters in the same step. A smaller number takes no permit away. The
    /// [event log](crate::Client::log) says who pinned it.
    ///
    /// # Waiting
    /// One request of two seconds at most, and one of a second for the log.
    ///
    /// # Cancel safety
    /// When dropped, the number may have changed.
    ///
    /// # Errors
    /// [`RequestError`]; after an error of the store the number may have changed.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let pool = client.semaphore("connections", 10);
    /// let permit = pool.acquire_many(3).await?;
    /// let permits = pool.set_permits(20).await?;
    /// assert_eq!((permits.total, permits.available()), (20, 17));
    /// # Ok(()) }
    /// ```
    pub async fn set_permits(&self, permits: u32) -> Result<PermitCount, RequestError> {
        at_least_one(permits)?;
        self.resize(permits).await
    }

    /// Unpins the number of permits: the latest request decides again. Otherwise as
    /// [`set_permits`](Semaphore::set_permits).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let uploads = client.semaphore("uploads", 4);
    /// uploads.set_permits(2).await?; // an operator, for an hour
    /// uploads.unset_permits().await?; // what the programs say again
    /// # Ok(()) }
    /// ```
    pub async fn unset_permits(&self) -> Result<PermitCount, RequestError> {
        self.resize(0).await
    }

    async fn resize(&self, permits: u32) -> Result<PermitCount, RequestError> {
        let resource = self.named.resource()?;
        let resize = Resize { resource, permits };
        let engine = &self.named.state.engine;
        let (total, used) = engine.ask(&resize, OPERATOR_WITHIN).await?;
        let event = match permits {
            0 => LogEvent::new("permits_unpinned", ""),
            _ => LogEvent::new("permits_pinned", format!("{permits} permits")),
        };
        let event = event.of(self.named.name()?, None);
        engine.log.write(&event.by(operator())).await;
        Ok(PermitCount {
            total: if total == 0 { self.permits } else { total }, // no request has said it
            used,
            pinned: permits > 0,
        })
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use crate::client::Client;
    use crate::client::inspection::PermitCount;

    #[tokio::test]
    async fn a_number_that_no_client_has_named_is_unpinned_to_that_of_each_handle() {
        let client = Client::open("mem:").unwrap();
        let all = |total| PermitCount {
            total,
            used: 0,
            pinned: false,
        };
        let pool = client.semaphore("pool", 4);
        assert_eq!(pool.unset_permits().await.unwrap(), all(4));
        assert_eq!(pool.permits().await.unwrap(), all(4));
        let other = client.semaphore("pool", 9);
        assert_eq!(other.permits().await.unwrap(), all(9));
    }
}
