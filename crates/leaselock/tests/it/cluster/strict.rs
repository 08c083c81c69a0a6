//! Strict mode on a cluster: a gate in each slot.

use std::time::Duration;

use leaselock::{AcquireError, Client};

use crate::engine::shared_cluster;
use crate::support::soon;

const LONGEST: Duration = Duration::from_secs(2);

#[tokio::test]
async fn each_slot_has_a_gate_that_its_first_lock_finds_closed_and_time_opens() {
    let cluster = shared_cluster();
    let builder = Client::builder().url(&cluster.url()).prefix("strict:");
    let client = builder.strict(LONGEST).open().unwrap();
    let takes = async |name: &str| {
        let mutex = client.mutex(name).ttl(LONGEST);
        let refused = mutex.try_acquire().await.unwrap_err();
        assert!(
            matches!(refused, AcquireError::Quarantined { .. }),
            "{refused:?}"
        );
        let lease = soon(mutex.acquire()).await.unwrap();
        lease.release().await.unwrap();
    };
    tokio::join!(takes("a"), takes("b"), takes("c"));
}

/// All locks of such a prefix lie in one slot, and their gate too.
#[tokio::test]
async fn a_prefix_in_braces_has_one_gate_which_an_operator_opens() {
    let cluster = shared_cluster();
    let builder = Client::builder().url(&cluster.url()).prefix("{strict}:");
    let client = builder.strict(LONGEST).open().unwrap();
    client.init_strict().await.unwrap();
    for name in ["a", "b"] {
        let mutex = client.mutex(name).ttl(LONGEST);
        let lease = mutex.try_acquire().await.unwrap().unwrap();
        lease.release().await.unwrap();
    }
}
