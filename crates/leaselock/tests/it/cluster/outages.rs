//! Nodes that are gone.

use std::time::Duration;

use leaselock::{AcquireError, Client, ErrorKind};
use testkit::{Cluster, Server};

use crate::support::{LONG, eventually, soon};

/// Why the lock cannot be had; nothing of ours is on the server.
async fn refusal(client: &Client, name: &str) -> ErrorKind {
    match soon(client.mutex(name).try_acquire()).await {
        Err(AcquireError::Store { source, .. }) => source.kind(),
        other => panic!("{other:?}"),
    }
}

/// By default no node serves while some slots have no node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_replica_the_locks_of_a_dead_primary_are_refused_and_later_all_others_too() {
    let builder = Cluster::builder().node_timeout(Duration::from_millis(500));
    let cluster = builder.start();
    let client = Client::open(&cluster.url()).unwrap();
    let [dead, other] = ["b", "a"];
    assert_ne!(
        cluster.owner_of(dead).port(),
        cluster.owner_of(other).port()
    );
    for name in [dead, other] {
        let lease = client.mutex(name).acquire().await.unwrap();
        lease.release().await.unwrap();
    }
    let node = cluster.owner_of(dead);
    node.kill();
    eventually("its end is noticed", async || {
        !matches!(
            client.mutex(dead).try_acquire().await,
            Err(AcquireError::Unknown { .. })
        )
    })
    .await;
    let kind = refusal(&client, dead).await;
    assert!(
        matches!(kind, ErrorKind::Unreachable | ErrorKind::ClusterDown),
        "{kind:?}"
    );
    let address = |server: &Server| format!("127.0.0.1:{}", server.port());
    let connected = client.stats().connected;
    assert!(!connected[&address(node)], "{connected:?}");
    assert!(
        connected[&address(cluster.owner_of(other))],
        "{connected:?}"
    );
    eventually("the others refuse too", async || {
        match client.mutex(other).try_acquire().await {
            Err(AcquireError::Store { source, .. }) => source.kind() == ErrorKind::ClusterDown,
            _ => false,
        }
    })
    .await;
    node.restart();
    for name in [dead, other] {
        eventually("it serves again", async || {
            client.mutex(name).ttl(LONG).try_acquire().await.is_ok()
        })
        .await;
    }
    let connected = client.stats().connected;
    assert!(connected[&address(node)], "{connected:?}");
}

#[tokio::test]
async fn any_node_of_the_url_that_lives_is_enough() {
    let cluster = crate::engine::shared_cluster();
    let nobody = testkit::Server::start();
    let gone = nobody.port();
    drop(nobody);
    let alive = cluster.nodes()[1].port();
    let url = format!("redis+cluster://127.0.0.1:{gone},127.0.0.1:{alive}");
    let client = Client::open(&url).unwrap();
    let lease = soon(client.mutex("any").acquire()).await.unwrap();
    lease.release().await.unwrap();
    let url = format!("redis+cluster://127.0.0.1:{gone}");
    let client = Client::open(&url).unwrap();
    assert_eq!(refusal(&client, "any").await, ErrorKind::Unreachable);
}
