//! Replicas that become primaries.

use leaselock::strict::Quarantine;
use testkit::Server;

use super::{opened, quarantined, strict, taken};
use crate::support::eventually;

/// The replica has all that the primary was told.
async fn in_step(primary: &Server, replica: &Server) {
    let mark = primary
        .cli(&["INCR", "mark"])
        .integer()
        .unwrap()
        .to_string();
    eventually("the replica is in step", async || {
        replica.cli(&["GET", "mark"]).text() == Some(&mark)
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_is_promoted_with_all_data_is_another_server_and_grants_nothing_at_first() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let holder = opened(&primary).await;
    let lease = taken(&holder).await;
    in_step(&primary, &replica).await;
    replica.promote();
    let other = strict(&replica);
    assert_eq!(quarantined(&other).await, Quarantine::Moved);
    drop(lease);
}

/// The way back is a failover too: what the server in between granted and extended may be missing.
#[tokio::test]
async fn a_primary_that_was_a_replica_meanwhile_is_another_one_although_its_process_is_the_same() {
    let first = Server::start();
    let second = Server::builder().replica_of(&first).start();
    let client = opened(&first).await;
    taken(&client).await.release().await.unwrap();
    in_step(&first, &second).await;
    let gate = first.cli(&["GET", super::GATE]);
    // Over to the other, and back before anything that was written there has come back.
    second.promote();
    first.replica_of(second.port());
    first.promote();
    assert_eq!(first.cli(&["GET", super::GATE]), gate);
    eventually("it takes writes again", async || first.is_primary()).await;
    assert_eq!(quarantined(&client).await, Quarantine::Moved);
}
