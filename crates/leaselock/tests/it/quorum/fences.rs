//! Fencing tokens that a majority has accepted.

use leaselock::{AcquireError, ErrorKind};

use super::Nodes;
use crate::support::{LONG, eventually, latest_fence, set_fence, soon};

#[tokio::test]
async fn fences_grow_from_majority_to_majority() {
    let nodes = Nodes::start(5);
    let quorums = [nodes.quorum(), nodes.quorum(), nodes.quorum()];
    let mut last = None;
    for round in 0..30 {
        // Each majority shares one node or more with the one before.
        let absent = [round % 5, (round + 1 + round % 4) % 5];
        let frozen = absent.map(|at| nodes.0[at].pause());
        let lease = soon(quorums[round % 3].mutex("job").ttl(LONG).acquire())
            .await
            .unwrap();
        assert!(lease.fence() > last, "{:?} after {last:?}", lease.fence());
        last = lease.fence();
        soon(lease.release()).await.unwrap();
        drop(frozen);
        nodes.nothing_is_left().await;
    }
}

/// Its clock or its clients were ahead: what it has seen counts, in one second round.
#[tokio::test]
async fn a_node_that_has_seen_a_larger_number_makes_the_next_one_larger_still() {
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    let first = quorum.mutex("job").ttl(LONG).acquire().await.unwrap();
    let ahead = first.fence().unwrap().get() + 3_600_000_000; // an hour
    first.release().await.unwrap();
    nodes.nothing_is_left().await;
    for server in &nodes.0[..2] {
        set_fence(server, "job", ahead);
    }
    for fresh in [&quorum, &nodes.quorum()] {
        let lease = soon(fresh.mutex("job").ttl(LONG).acquire()).await.unwrap();
        assert!(lease.fence().unwrap().get() > ahead, "{:?}", lease.fence());
        lease.release().await.unwrap();
        nodes.nothing_is_left().await;
    }
    let kept: Vec<u64> = nodes.0.iter().map(seen).collect();
    assert!(
        kept.iter().filter(|kept| **kept > ahead + 1).count() >= 2,
        "{kept:?}"
    );
}

fn damage(server: &testkit::Server) {
    set_fence(server, "job", 9_000_000_000_000_000);
}

/// It has no vote where its fence is damaged, and its number counts for no client.
#[tokio::test]
async fn a_node_whose_fence_is_damaged_spoils_no_fence_of_the_majority() {
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    damage(&nodes.0[0]);
    let mut last = None;
    for _ in 0..3 {
        let lease = soon(quorum.mutex("job").ttl(LONG).acquire()).await.unwrap();
        let fence = lease.fence().unwrap();
        assert!(
            last < Some(fence) && fence.get() < 9_000_000_000_000_000,
            "{fence}"
        );
        last = Some(fence);
        soon(lease.release()).await.unwrap();
        nodes.nothing_is_left().await;
    }
    damage(&nodes.0[1]);
    let error = soon(quorum.mutex("job").ttl(LONG).acquire())
        .await
        .unwrap_err();
    let AcquireError::NoQuorum { source, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(source.kind(), ErrorKind::Corrupt, "{error}");
    assert!(
        error.to_string().contains("`{job}:ll:fence` is damaged"),
        "{error}"
    );
    let unfenced = quorum.mutex("job").ttl(LONG).fencing(false);
    soon(unfenced.acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

fn seen(server: &testkit::Server) -> u64 {
    latest_fence(server, "job").unwrap_or(0)
}

#[tokio::test]
async fn all_nodes_know_the_fence_of_the_holder() {
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    nodes.know_the_scripts(&quorum).await;
    for _ in 0..3 {
        let lease = quorum.mutex("job").ttl(LONG).acquire().await.unwrap();
        let fence = lease.fence().unwrap().get();
        eventually("all have accepted it", async || {
            nodes.0.iter().all(|server| seen(server) == fence)
        })
        .await;
        lease.release().await.unwrap();
    }
    let unfenced = quorum.mutex("job").fencing(false).acquire().await.unwrap();
    assert_eq!(unfenced.fence(), None);
}
