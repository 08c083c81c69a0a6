//! A grant that the client writes once more and counts on replicas.

use std::time::Duration;

use tokio::sync::SemaphorePermit;

use super::call::{Confirm, Confirmed, ReplicaAck};
use super::pool::ReplicaPool;
use crate::base::clock::Moment;
use crate::base::error::{ErrorKind, StoreError};
use crate::engine::core::Engine;
use crate::engine::lease::record::LeaseRecord;
use crate::engine::request::Copies;
use crate::script::Value;
use crate::store::redis::DedicatedConnection;

/// How much earlier the server's wait times out than our own clock says.
///
/// The server counts in whole milliseconds, from when it has received the command.
const BEFORE: Duration = Duration::from_millis(2);

/// A grant that was written once more, over a connection of the pool.
pub(crate) struct Written<'a> {
    pool: &'a ReplicaPool,
    _permit: SemaphorePermit<'a>,
    connection: DedicatedConnection,
    /// How long the server waits for replicas.
    limit: Duration,
    /// How long its replies may take beyond that.
    within: Duration,
    end: Moment,
}

impl<'a> Written<'a> {
    pub(crate) async fn new(
        engine: &'a Engine,
        record: &LeaseRecord,
        asked: Copies,
    ) -> Result<Self, StoreError> {
        let within = engine.request_timeout(record.ttl());
        let pool = &engine.replica_pool;
        let permit = pool.admit(asked.within + within).await?;
        let Some(confirm) = Confirm::of(&record.resource, &record.token, record.ttl()) else {
            let message = format!("a {} cannot wait for replicas", record.resource.kind.name);
            return Err(StoreError::refused(ErrorKind::Unsupported, message));
        };
        let mut begin = engine.clock.now();
        let written = match pool.take_idle() {
            // The server may have closed it just now.
            Some(mut connection) => connection
                .run(&confirm, within)
                .await
                .ok()
                .map(|found| (connection, found)),
            None => None,
        };
        let (connection, found) = match written {
            Some(written) => written,
            None => {
                let mut connection = engine.connections()?.private(within).await?;
                begin = engine.clock.now();
                let found = connection.run(&confirm, within).await?;
                (connection, found)
            }
        };
        if found != Confirmed::Written {
            let message = "the grant was gone before a replica could confirm it";
            return Err(StoreError::refused(ErrorKind::NotServing, message));
        }
        let now = engine.clock.now();
        let patience = patience(asked.within, now.saturating_since(begin));
        Ok(Written {
            pool,
            _permit: permit,
            connection,
            limit: patience.saturating_sub(BEFORE),
            within,
            end: now.plus(patience),
        })
    }

    /// Returns when the replicas' time is over.
    pub(crate) fn end(&self) -> Moment {
        self.end
    }

    /// Returns the number of copies once there are enough, or once the server has noticed the timeout.
    pub(crate) async fn count(mut self, asked: Copies) -> Result<ReplicaAck, StoreError> {
        let (replicas, on_own_disk) = (
            asked.replicas.to_string(),
            asked.on_disk.unwrap_or_default(),
        );
        let limit = self.limit.as_millis().max(1).to_string(); // 0 would mean without a timeout
        let on_own_disk = if on_own_disk { "1" } else { "0" };
        let words: &[&str] = match asked.on_disk {
            None => &["WAIT", &replicas, &limit],
            Some(_) => &["WAITAOF", on_own_disk, &replicas, &limit],
        };
        let answer = self
            .connection
            .ask(words, asked.within + self.within)
            .await?;
        let counted = decode_count(&answer).ok_or_else(|| {
            StoreError::refused(
                ErrorKind::Malformed,
                "the count of replicas was not understood",
            )
        })?;
        self.pool.put_back(self.connection);
        Ok(counted)
    }
}

/// Returns how long the replicas have after a write that took `took`.
///
/// The time includes a possible release of the grant, which takes about as long as the write.
fn patience(within: Duration, took: Duration) -> Duration {
    within - took.min(within / 4) * 2
}

fn decode_count(answer: &Value) -> Option<ReplicaAck> {
    let count = |value: &Value| match value {
        Value::Int(count) => u32::try_from(*count).ok(),
        _ => None,
    };
    let (on_own_disk, replicas) = match answer {
        Value::Array(both) => match &both[..] {
            [on_own_disk, replicas] => count(on_own_disk).zip(count(replicas))?,
            _ => return None,
        },
        replicas => (0, count(replicas)?),
    };
    Some(ReplicaAck {
        replicas,
        on_own_disk: on_own_disk > 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_have_what_write_and_release_leave_of_the_time_and_at_least_half_of_it() {
        let ms = Duration::from_millis;
        assert_eq!(patience(ms(100), ms(3)), ms(94));
        assert_eq!(patience(ms(100), ms(60)), ms(50));
    }
}
