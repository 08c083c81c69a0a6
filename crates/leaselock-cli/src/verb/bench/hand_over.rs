//! Hand-over: how long one lock is idle between two holders that release it at once.

use std::time::Duration;

use leaselock::{Client, Mutex};
use tokio::task::JoinSet;

use super::acquire::acquire;
use super::figures::{Figures, What};
use crate::boottime;
use crate::failure::Failure;

/// When a holder had the lock, and when it began to give it back.
type Turn = (u64, u64);

pub(super) async fn measure(clients: &[Client], span: Duration) -> Result<Figures, Failure> {
    let begin = boottime::now();
    let end = begin.saturating_add(boottime::nanoseconds(span));
    let mut running = JoinSet::new();
    for client in clients {
        let lock = client.mutex("one").fencing(false);
        running.spawn(async move { turns_until(&lock, end).await });
    }
    let mut turns: Vec<Turn> = Vec::new();
    while let Some(task) = running.join_next().await {
        turns.extend(task.map_err(Failure::internal)??);
    }
    let elapsed = boottime::now() - begin;
    turns.sort_unstable();
    let waiters = u16::try_from(clients.len()).unwrap_or(u16::MAX);
    Ok(Figures::new(
        What::HandOver { waiters },
        idle(&turns),
        elapsed,
    ))
}

/// The times between one holder's release and the next one's grant.
fn idle(turns: &[Turn]) -> Vec<u64> {
    let pairs = turns.windows(2);
    pairs
        .map(|pair| pair[1].0.saturating_sub(pair[0].1))
        .collect()
}

async fn turns_until(lock: &Mutex, end: u64) -> Result<Vec<Turn>, Failure> {
    let mut turns = Vec::new();
    while boottime::now() < end {
        let lease = acquire(lock).await?;
        let granted = boottime::now();
        // Others take their turn at the runtime's one thread, as they would in another process.
        tokio::task::yield_now().await;
        turns.push((granted, boottime::now()));
        lease.release().await?;
    }
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_runs_from_release_to_the_next_grant() {
        assert_eq!(idle(&[(10, 20), (25, 30), (31, 40)]), [5, 1]);
        assert_eq!(idle(&[(10, 20)]), [0; 0]);
    }
}
