//! Free locks: each task acquires and releases a lock of its own.

use std::time::Duration;

use leaselock::{Client, Mutex};
use tokio::task::JoinSet;

use super::acquire::acquire;
use super::figures::{Figures, What};
use crate::boottime;
use crate::failure::Failure;

pub(super) async fn measure(
    client: &Client,
    tasks: u16,
    span: Duration,
) -> Result<Figures, Failure> {
    let lock = |task| client.mutex(format!("free/{task}")).fencing(false);
    let locks: Vec<Mutex> = (0..tasks).map(lock).collect();
    pair(&locks[0]).await?; // connects, which is not counted
    let begin = boottime::now();
    let end = begin.saturating_add(boottime::nanoseconds(span));
    let mut running = JoinSet::new();
    for lock in locks {
        running.spawn(async move { pairs_until(&lock, end).await });
    }
    let mut took = Vec::new();
    while let Some(task) = running.join_next().await {
        took.extend(task.map_err(Failure::internal)??);
    }
    let elapsed = boottime::now() - begin;
    Ok(Figures::new(What::Free { tasks }, took, elapsed))
}

async fn pairs_until(lock: &Mutex, end: u64) -> Result<Vec<u64>, Failure> {
    let mut took = Vec::new();
    let mut before = boottime::now();
    while before < end {
        pair(lock).await?;
        let after = boottime::now();
        took.push(after - before);
        before = after;
    }
    Ok(took)
}

async fn pair(lock: &Mutex) -> Result<(), Failure> {
    Ok(acquire(lock).await?.release().await?)
}
