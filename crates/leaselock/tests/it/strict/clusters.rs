//! On a cluster each slot has a gate of its own, on the node that has the slot.

use leaselock::{AcquireError, Client, Quarantine, StrictStatus};
use testkit::Cluster;

use super::LONGEST;
use crate::support::soon;

/// What keeps a lock from being granted.
async fn kept_by(client: &Client, name: &str) -> Option<Quarantine> {
    match client.mutex(name).ttl(LONGEST).try_acquire().await {
        Ok(lease) => {
            lease.unwrap().release().await.unwrap();
            None
        }
        Err(AcquireError::Quarantined { why, .. }) => Some(why),
        Err(other) => panic!("{name}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_took_over_grants_nothing_at_first_and_the_others_go_on() {
    let cluster = Cluster::builder().primaries(3).replicas(1).start();
    let builder = Client::builder().url(&cluster.url()).strict(LONGEST);
    let client = builder.request_timeout(LONGEST).build().unwrap();
    assert_eq!(kept_by(&client, "job").await, Some(Quarantine::Missing));
    client.init_strict().await.unwrap();
    let status = client.strict_status().await.unwrap();
    assert_eq!(status, StrictStatus::Open { longest: LONGEST });
    let (port, others) = (cluster.owner_of("job").port(), ["a", "b", "c"]);
    let elsewhere = |name: &&str| cluster.owner_of(name).port() != port;
    let other = others.into_iter().find(elsewhere).unwrap();
    for name in ["job", "{job}:2", other] {
        assert_eq!(kept_by(&client, name).await, None, "{name}");
    }
    let replica = cluster.replica_of(cluster.owner_of("job"));
    cluster.fail_over(replica, "");
    cluster.settle();
    assert_eq!(kept_by(&client, "job").await, Some(Quarantine::Moved));
    assert_eq!(kept_by(&client, other).await, None);
    let lease = soon(client.mutex("job").ttl(LONGEST).acquire()).await;
    lease.unwrap().release().await.unwrap();
}
