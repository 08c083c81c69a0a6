//! The clusters of the tests, tested.

use std::time::Duration;

use super::running::PATIENCE;
use super::*;
use crate::process::wait_until;
use crate::resp::Value;

/// A key of each of three nodes.
const KEYS: [&str; 3] = ["b", "c", "a"];

#[test]
fn a_cluster_serves_every_slot_and_a_slot_moves_with_its_keys_and_back() {
    let cluster = Cluster::start();
    for (key, node) in KEYS.iter().zip(cluster.nodes()) {
        assert_eq!(cluster.owner_of(key).port(), node.port(), "{key}");
        assert_eq!(node.cli(&["SET", key, "1"]).text(), Some("OK"));
    }
    let (slot, [first, second, _]) = (cluster.slot(KEYS[0]), cluster.nodes()) else {
        panic!("three nodes");
    };
    for to in [second, first] {
        cluster.move_slot(slot, to);
        assert_eq!(cluster.owner(slot).port(), to.port());
        assert_eq!(to.cli(&["GET", KEYS[0]]), Value::from("1"));
    }
    cluster.settle();
}

/// Without an order both new owners could have the same epoch, and gossip would convince no third node.
#[test]
fn slots_that_change_places_at_the_same_time_are_known_to_all_nodes() {
    let cluster = Cluster::start();
    let [a, b] = [KEYS[0], KEYS[1]].map(|key| cluster.slot(key));
    let [first, second, _] = cluster.nodes() else {
        panic!("three nodes");
    };
    for round in 0..10 {
        let [to, other] = if round % 2 == 0 {
            [second, first]
        } else {
            [first, second]
        };
        std::thread::scope(|scope| {
            scope.spawn(|| cluster.move_slot(a, to));
            scope.spawn(|| cluster.move_slot(b, other));
        });
    }
    cluster.settle();
}

#[test]
fn a_replica_takes_over_by_itself_when_its_primary_is_dead_and_gives_back_when_asked() {
    let builder = Cluster::builder().replicas(1);
    let cluster = builder.node_timeout(Duration::from_millis(500)).start();
    let primary = cluster.owner_of(KEYS[0]);
    let replica = cluster.replica_of(primary);
    primary.kill();
    cluster.until_primary(replica);
    cluster.settle();
    assert_eq!(cluster.owner_of(KEYS[0]).port(), replica.port());
    primary.restart();
    cluster.settle();
    wait_until(PATIENCE, "the old primary follows", || {
        cluster
            .try_replica_of(replica)
            .is_some_and(|node| node.port() == primary.port())
    });
    cluster.fail_over(primary, "");
    cluster.settle();
    assert_eq!(cluster.owner_of(KEYS[0]).port(), primary.port());
}
