//! How the workloads acquire a lock.

use std::time::Duration;

use leaselock::{Lease, Mutex};

use crate::exit::Exit;
use crate::failure::Failure;

/// An acquisition that takes longer has failed: the tasks hold a lock for a moment only.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn acquire(lock: &Mutex) -> Result<Lease, Failure> {
    let lease = lock.acquire_within(LIMIT).await;
    lease.map_err(|error| Failure::acquire(&error, Exit::UNAVAILABLE))
}
