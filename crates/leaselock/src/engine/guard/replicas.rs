//! A grant that counts only once replicas have it.
//!
//! A server counts the replicas that have the writes of *one connection*. A batch, or the previous holder's release,
//! may have written the grant over another connection. So the client writes the grant once more over a connection of
//! its own: a replica that has this write has all earlier ones. No other request uses the connection meanwhile, because
//! it is blocked while it waits.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leaselock_fence::Name;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::lease::Lease;
use crate::base::error::{AcquireError, ReleaseError};
use crate::base::{ErrorKind, InvalidInput, Moment, Result, StoreError, refusal, span};
use crate::engine::services::shared::ReplicaPool;
use crate::engine::services::{Engine, LeaseRecord};
use crate::engine::values::Copies;
use crate::engine::values::calls_optional::Confirm;
use crate::script::{Operation, Value};
use crate::store::DedicatedConnection;

impl Engine {
    /// Refuses confirmed grants, unless the store is a single server over connections of our own: only there can it
    /// wait.
    pub(crate) fn check_replicas(&self) -> Result<(), InvalidInput> {
        if self.store.capabilities().has_replicas {
            return Ok(());
        }
        Err(InvalidInput::new(format!(
            "min_replicas and fsynced need connections of their own to one server with replicas, and this is {}: use a \
             redis:// or redis+sentinel:// URL or a redis::Client, or leave them out",
            self.store.describe()
        ))
        .because("copies need one server with replicas"))
    }
}

impl ReplicaAck {
    pub(crate) fn are_enough(&self, asked: Copies) -> bool {
        self.replicas >= asked.replicas && (self.on_own_disk || asked.on_disk != Some(true))
    }
}

/// Returns the lease once there are enough copies of it; otherwise gives it back first.
///
/// A server checks only ten times a second, or when another event occurs, whether a wait has timed out. So the client
/// ends the wait by its own clock: it releases the lease, and that release makes the server reply to the wait.
pub(crate) async fn confirmed(
    lease: Lease,
    asked: Copies,
    how: GiveBack,
) -> Result<Lease, AcquireError> {
    let (engine, record) = {
        let (engine, record, _) = lease.parts();
        (Arc::clone(engine), Arc::clone(record))
    };
    let (name, ttl) = (&record.name, record.ttl().as_duration());
    let lease = Some(lease);
    let mut lease = Unconfirmed { lease, how };
    let written = match grant_again(&engine, &record, asked).await {
        Ok(written) => written,
        Err(source) => {
            let name = name.clone();
            let error = AcquireError::Store { name, source };
            return Err(error_or_unknown(lease.give_back().await, error, ttl));
        }
    };
    let over = engine.clock.sleep_until(written.end());
    let mut count = pin!(written.count(asked));
    tokio::select! {
        biased;
        counted = &mut count => {
            let error = match verdict(counted, asked, name) {
                Ok(()) => match lease.take_if_held() {
                    Some(lease) => return Ok(lease),
                    None => late(name),
                },
                Err(error) => error,
            };
            Err(error_or_unknown(lease.give_back().await, error, ttl))
        }
        () = over => {
            let released = lease.give_back().await;
            let within = engine.request_timeout(record.ttl());
            let counted = timeout(within, count).await.unwrap_or_else(|_| Err(no_count()));
            let error = match verdict(counted, asked, name) {
                Ok(()) => late(name),
                Err(error) => error,
            };
            Err(error_or_unknown(released, error, ttl))
        }
    }
}

async fn grant_again<'a>(
    engine: &'a Engine,
    record: &LeaseRecord,
    asked: Copies,
) -> Result<Written<'a>> {
    let Some(confirm) = Confirm::of(record.held_for()) else {
        let message = format!(
            "a {} cannot wait for replicas",
            record.held.resource.kind.name
        );
        return Err(StoreError::refused(ErrorKind::Unsupported, message));
    };
    let within = engine.request_timeout(record.ttl());
    match Written::new(engine, &confirm, asked, within).await? {
        (written, Ok(())) => Ok(written),
        (_, Err(_)) => {
            Err(refusal!(NotServing: "the grant was gone before a replica could confirm it"))
        }
    }
}

/// Waits until there are enough copies of what was written; an error says how many there are.
pub(crate) async fn enough(written: Written<'_>, asked: Copies) -> Result<()> {
    let counted = written.count(asked).await?;
    if counted.are_enough(asked) {
        return Ok(());
    }
    let own_disk = match asked.on_disk {
        Some(true) if !counted.on_own_disk => ", and it is not on the server's own disk",
        _ => "",
    };
    let (have, want, within) = (counted.replicas, asked.replicas, span(asked.within));
    Err(refusal!(NoReply: "{have} of {want} replicas have confirmed it within {within}{own_disk}"))
}

fn verdict(counted: Result<ReplicaAck>, asked: Copies, name: &Name) -> Result<(), AcquireError> {
    let name = name.clone();
    match counted {
        Ok(counted) if counted.are_enough(asked) => Ok(()),
        Ok(counted) => Err(AcquireError::TooFewReplicas {
            name,
            required: asked.replicas,
            confirmed: counted.replicas,
            local_fsync: asked
                .on_disk
                .filter(|own_disk| *own_disk)
                .map(|_| counted.on_own_disk),
            timeout: asked.within,
        }),
        Err(source) => Err(AcquireError::Store { name, source }),
    }
}

/// Returns the error when there were enough copies, but the lease had expired or was released by then.
fn late(name: &Name) -> AcquireError {
    let source = refusal!(NoReply: "the replicas had confirmed the grant when its time was over");
    AcquireError::Store {
        name: name.clone(),
        source,
    }
}

fn no_count() -> StoreError {
    refusal!(NoReply: "the server has not said in time how many replicas have the grant")
}

/// Returns the error, or `Unknown` when it is not known whether the lease was released.
fn error_or_unknown(
    released: Result<(), ReleaseError>,
    error: AcquireError,
    clear_in: Duration,
) -> AcquireError {
    match released {
        Err(ReleaseError::Unknown { name, source } | ReleaseError::Store { name, source }) => {
            let message = format!("{error}; whether it was given back is not known: {source}");
            let source = StoreError::unknown(source.kind(), message);
            AcquireError::Unknown {
                name,
                clear_in,
                source,
            }
        }
        _ => error,
    }
}

/// How a lease is given back that too few replicas have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GiveBack {
    Release,
    /// As if it had never been granted: for kinds whose release records something about the lease.
    Undo,
}

/// A lease that is given back unless it is taken out, also when this is dropped.
pub(super) struct Unconfirmed {
    /// `None` at the end.
    lease: Option<Lease>,
    how: GiveBack,
}

impl Unconfirmed {
    pub(super) fn take_if_held(&mut self) -> Option<Lease> {
        self.lease.take_if(|lease| lease.is_held())
    }

    pub(super) async fn give_back(mut self) -> Result<(), ReleaseError> {
        let Some(lease) = self.lease.take() else {
            return Ok(());
        };
        if self.how == GiveBack::Release {
            return lease.release().await;
        }
        let name = lease.name().clone();
        let undone = lease.undo().await;
        undone.map_err(|source| ReleaseError::Store { name, source })
    }
}

impl Drop for Unconfirmed {
    fn drop(&mut self) {
        if let Some(lease) = &mut self.lease
            && self.how == GiveBack::Undo
        {
            lease.expect_late_requests(); // the cleanup then cancels, and does not release
        }
    }
}

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
    ) -> Result<(Self, O::Reply)> {
        let pool = &engine.shared.replica_pool;
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
        let left = time_for_replicas(asked.within, now.saturating_since(begin));
        let written = Written {
            pool,
            _permit: permit,
            connection,
            limit: left.saturating_sub(BEFORE),
            within,
            end: now.plus(left),
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
    pub(crate) async fn count(mut self, asked: Copies) -> Result<ReplicaAck> {
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
        let counted = decode_count(&answer)
            .ok_or_else(|| refusal!(Malformed: "the count of replicas was not understood"))?;
        self.pool.put_back(self.connection);
        Ok(counted)
    }
}

/// Returns how long the replicas have after a write that took `took`.
///
/// The time includes a possible release of a grant, which takes about as long as the write.
fn time_for_replicas(within: Duration, took: Duration) -> Duration {
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
mod written_tests {
    use super::*;

    #[test]
    fn replicas_have_what_write_and_release_leave_of_the_time_and_at_least_half_of_it() {
        let ms = Duration::from_millis;
        assert_eq!(time_for_replicas(ms(100), ms(3)), ms(94));
        assert_eq!(time_for_replicas(ms(100), ms(60)), ms(50));
    }
}
