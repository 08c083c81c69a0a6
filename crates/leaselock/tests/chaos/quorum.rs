//! A quorum whose nodes come and go, and whose votes are split.

mod fences;
mod pairs;
mod rolling;
mod splits;

use std::future::Future;
use std::time::Duration;

/// Anything that waits for no node that is gone is done within this, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fails rather than hangs.
#[track_caller]
fn soon<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(PATIENCE, future).await {
            Ok(value) => value,
            Err(_) => panic!("{caller}: not within {PATIENCE:?}"),
        }
    }
}
