//! Reading the event log.

use std::time::Duration;

use tokio::sync::broadcast::Receiver;

use super::handle::Client;
use crate::base::error::RequestError;
use crate::engine::services::OPERATOR_WITHIN;
use crate::engine::values::LogEntry;
use crate::engine::values::log::{KEPT, entries};

impl Client {
    /// Reads the event log of this prefix, the newest entry last: losses, breaks, deadlocks, and what else is rare.
    ///
    /// The entries that are not older than `back` by the store's clock; [`Duration::MAX`] for all. The store keeps the
    /// newest 1,000, for seven days at most. Clients write what they see in the background, at most once a second, so an
    /// entry may come a moment later, and after an outage late or never: alarms belong on counters. A majority of servers
    /// has what any of them has.
    ///
    /// # Waiting
    /// For one request, 2 s at most.
    ///
    /// # Errors
    /// [`RequestError::Store`]: the store, or each of several, does not reply, or the user may not read the log.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let hour = std::time::Duration::from_secs(3600);
    /// for entry in client.log(hour).await?.iter().filter(|entry| entry.kind == "lost") {
    ///     println!("{:?} {:?} {entry}", entry.at, entry.name);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn log(&self, back: Duration) -> Result<Vec<LogEntry>, RequestError> {
        let written = self.engine().log.read(back, KEPT, OPERATOR_WITHIN).await?;
        Ok(entries(&written))
    }

    /// Returns the events of this client from now on: what it writes to the [log](Client::log), each acquisition that
    /// enters a queue (`waiting`), each lease that is `granted` or `released`, and each server that is `disconnected` (the
    /// text says why) or `connected` again.
    ///
    /// [`kind`](LogEntry::kind) and the other fields are as in the log, at once and without a request. A receiver that
    /// is 1,024 events behind has missed the oldest:
    /// [`RecvError::Lagged`](tokio::sync::broadcast::error::RecvError::Lagged) says how many. Use it to show and to
    /// measure; to stop work in time use [`Lease::lost`](crate::Lease::lost). A lease that was granted before the first
    /// call of `events` is not seen when it is released. The text of `waiting` has the position and the id of the holder's
    /// client, where they are known; tries without a queue ([`Wait::Poll`](crate::Wait::Poll)) do not wait.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// let mut events = client.events();
    /// client.mutex("invoices").acquire().await?.release().await?;
    /// let granted = events.recv().await?;
    /// assert_eq!((&*granted.kind, granted.name.as_deref()), ("granted", Some("invoices")));
    /// assert_eq!(events.recv().await?.kind, "released");
    /// # Ok(()) }
    /// ```
    pub fn events(&self) -> Receiver<LogEntry> {
        self.engine().log.listen()
    }
}
