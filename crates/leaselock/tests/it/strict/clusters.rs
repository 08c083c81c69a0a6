//! On a cluster each slot has a gate of its own, on the node that has the slot.

use leaselock::strict::{Quarantine, StrictStatus};
use leaselock::{AcquireError, Client, ErrorKind};
use testkit::{Cluster, Server};

use super::LONGEST;
use crate::support::soon;

/// What keeps a lock from being granted.
async fn kept_by(client: &Client, name: &str) -> Option<Quarantine> {
    match client.mutex(name).ttl(LONGEST).try_acquire().await {
        Ok(lease) => {
            lease.unwrap().release().await.unwrap();
            None
        }
        Err(AcquireError::Quarantined { reason, .. }) => Some(reason),
        Err(other) => panic!("{name}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_took_over_grants_nothing_at_first_and_the_others_go_on() {
    let cluster = Cluster::builder().primaries(3).replicas(1).start();
    let builder = Client::builder().url(&cluster.url()).strict(LONGEST);
    let client = builder.request_timeout(LONGEST).open().unwrap();
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

fn gates_on(node: &Server) -> i64 {
    node.cli(&["DBSIZE"]).integer().unwrap()
}

/// One after the other nothing would be opened behind the first that does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gates_are_opened_on_all_nodes_at_once_and_again_after_a_failure() {
    let cluster = Cluster::start();
    let builder = Client::builder().url(&cluster.url()).strict(LONGEST);
    let client = builder.open().unwrap();
    assert_eq!(client.strict_status().await.unwrap(), StrictStatus::Missing);
    let [frozen, others @ ..] = cluster.nodes() else {
        panic!("three nodes")
    };
    let paused = frozen.pause();
    let error = soon(client.init_strict()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoReply, "{error}");
    for node in others {
        assert!(gates_on(node) > 10, "{}", gates_on(node));
    }
    drop(paused);
    soon(client.init_strict()).await.unwrap();
    let all: i64 = cluster.nodes().iter().map(gates_on).sum();
    assert_eq!(all, 16_384, "one in each slot");
    let status = soon(client.strict_status()).await.unwrap();
    assert_eq!(status, StrictStatus::Open { longest: LONGEST });
    // One that is gone is found among all the others.
    let gate = cluster.nodes()[1].cli(&["RANDOMKEY"]);
    cluster.nodes()[1].cli(&["DEL", gate.text().unwrap()]);
    let status = soon(client.strict_status()).await.unwrap();
    assert_eq!(status, StrictStatus::Missing);
}
