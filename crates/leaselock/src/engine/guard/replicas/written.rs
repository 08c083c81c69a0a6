//! What the client writes over a connection of its own, and counts on replicas.

use std::time::Duration;

use tokio::sync::SemaphorePermit;

use crate::base::{ErrorKind, Moment, StoreError};
use crate::engine::services::Engine;
use crate::engine::services::shared::ReplicaPool;
use crate::engine::values::Copies;
use crate::script::{Operation, Value};
use crate::store::DedicatedConnection;

/// How much earlier the server's wait times out than our own clock says.
///
/// The server counts in whole milliseconds, from when it has received the command.
const BEFORE: Duration = Duration::from_millis(2);

/// How many copies of a grant the servers have acknowledged.
pub(crate) struct ReplicaAck {
    pub(crate) replicas: u32,
    /// True if the server itself has it on disk.
    pub(crate) on_own_disk: bool,
}

/// Why what was written counts, and has too few copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shortfall {
    pub(crate) asked: Copies,
    pub(crate) confirmed: u32,
    /// Why the server did not say how many.
    pub(crate) source: Option<StoreError>,
}

/// What was written over a connection of the pool.
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
    /// Runs an operation that writes in any case, and returns its reply too. An error says whether it may have run.
    pub(crate) async fn new<O: Operation>(
        engine: &'a Engine,
        operation: &O,
        asked: Copies,
        within: Duration,
    ) -> Result<(Self, O::Reply), StoreError> {
        let pool = &engine.limits.replica_pool;
        let permit = pool.admit(asked.within + within).await?;
        let mut begin = engine.clock.now();
        let mut failed = None;
        let mut written = None;
        if let Some(mut connection) = pool.take_idle() {
            match connection.run(operation, within).await {
                Ok(reply) => written = Some((connection, reply)),
                Err(error) => failed = Some(error), // the server may have closed it just now
            }
        }
        let (connection, reply) = match written {
            Some(written) => written,
            None => {
                let opened = async {
                    let mut connection = engine.connections()?.private(within).await?;
                    begin = engine.clock.now();
                    let reply = connection.run(operation, within).await?;
                    Ok((connection, reply))
                };
                let may_have_run = failed.is_some_and(|error| error.maybe_applied());
                opened
                    .await
                    .map_err(|error: StoreError| match may_have_run {
                        true => StoreError::unknown(error.kind(), error.to_string()),
                        false => error,
                    })?
            }
        };
        let now = engine.clock.now();
        let patience = patience(asked.within, now.saturating_since(begin));
        let written = Written {
            pool,
            _permit: permit,
            connection,
            limit: patience.saturating_sub(BEFORE),
            within,
            end: now.plus(patience),
        };
        Ok((written, reply))
    }

    /// Gives the connection back without a wait for replicas.
    pub(crate) fn put_back(self) {
        self.pool.put_back(self.connection);
    }

    /// Waits until there are enough copies, which is `None`, or the server has noticed the timeout.
    pub(crate) async fn shortfall(self, asked: Copies) -> Option<Shortfall> {
        let (confirmed, source) = match self.count(asked).await {
            Ok(counted) if counted.are_enough(asked) => return None,
            Ok(counted) => (counted.replicas, None),
            Err(error) => (0, Some(error)),
        };
        Some(Shortfall {
            asked,
            confirmed,
            source,
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
/// The time includes a possible release of a grant, which takes about as long as the write.
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
