//! Work that runs once for a value: its record keeps JSON.

use std::error::Error;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::guard::lease::LeaseView;
use crate::once::{Once, OnceError, OnceResult, OnceRun};

impl Once {
    /// As [`run`](Once::run), for a value in place of bytes: the record keeps it as JSON, and every caller reads that.
    ///
    /// # Errors
    /// As [`run`](Once::run), and [`OnceError::Unreadable`] when the work is done and its result is no such value. A value
    /// that cannot be written as JSON, such as a map with lists as keys, counts as done too.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leaselock::Client::open("mem:")?;
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Receipt {
    ///     cents: u32,
    /// }
    ///
    /// let charge = client.once("charge/42");
    /// let first = charge.run_json(|_| async { Ok::<_, &str>(Receipt { cents: 4200 }) }).await?;
    /// let later = charge.run_json(|_| async { Err::<Receipt, _>("it is charged") }).await?;
    /// assert_eq!((first.value.cents, later.value.cents), (4200, 4200));
    /// # Ok(()) }
    /// ```
    pub async fn run_json<T, E, F, Fut>(&self, body: F) -> Result<OnceResult<T>, OnceError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<Box<dyn Error + Send + Sync>>,
        F: FnOnce(LeaseView<OnceRun>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let name = self.named.name()?;
        // The work is done in any case, so what cannot be written is a result that cannot be read, and no failure.
        let json = |value| serde_json::to_vec(&value).unwrap_or_default();
        let run = self.run(async |run| body(run).await.map(json)).await?;
        let read = serde_json::from_slice(&run.value).map_err(|error| OnceError::Unreadable {
            name: name.clone(),
            message: error.to_string(),
        });
        Ok(OnceResult {
            value: read?,
            ran_here: run.ran_here,
            fence: run.fence,
            attempt: run.attempt,
        })
    }
}
