//! Keys that a user changes by hand while they are held.

use leaselock::{Client, Lease, Lost, LostReason, ReleaseError};
use testkit::Server;

use crate::support::{LONG, eventually, leftovers, millis, pttl, soon};

async fn rig() -> (Server, Client, Lease) {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lease = client
        .mutex("job")
        .ttl(millis(1_000))
        .acquire()
        .await
        .unwrap();
    (server, client, lease)
}

#[tokio::test]
async fn a_deleted_key_is_a_lost_lease_at_the_next_renewal() {
    let (server, _client, lease) = rig().await;
    let deadline = lease.deadline();
    server.cli(&["DEL", "job"]);
    let lost = soon(lease.lost()).await;
    assert_eq!(
        (lost.reason, lost.fence),
        (LostReason::KeyMissing, lease.fence())
    );
    assert!(
        lease.deadline() == deadline && leftovers(&server).is_empty(),
        "not brought back"
    );
}

#[tokio::test]
async fn a_key_that_was_made_endless_ends_again_after_the_next_renewal() {
    let (server, _client, lease) = rig().await;
    server.cli(&["PERSIST", "job"]);
    assert_eq!(pttl(&server, "job"), -1);
    eventually("it has an end", async || pttl(&server, "job") > 0).await;
    assert!(lease.is_held());
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_key_whose_end_came_nearer_is_made_whole_by_the_next_renewal() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lease = client
        .mutex("job")
        .ttl(millis(3_000))
        .acquire()
        .await
        .unwrap();
    server.cli(&["PEXPIRE", "job", "2000"]);
    eventually("it is whole again", async || pttl(&server, "job") > 2_000).await;
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_key_that_another_took_is_a_lost_lease_and_stays_the_others() {
    let (server, _client, lease) = rig().await;
    server.cli(&["SET", "job", "theirs"]);
    assert_eq!(soon(lease.lost()).await.reason, LostReason::TakenOver);
    let refused = lease.release().await.unwrap_err();
    assert!(
        matches!(
            refused,
            ReleaseError::NotHeld(Lost {
                reason: LostReason::TakenOver,
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!(
        (server.cli(&["GET", "job"]), pttl(&server, "job")),
        ("theirs".into(), -1)
    );
}

#[tokio::test]
async fn a_key_of_a_foreign_type_is_a_lost_lease_at_the_next_renewal_and_is_never_destroyed() {
    let (server, client, lease) = rig().await;
    server.cli(&["DEL", "job"]);
    server.cli(&["HSET", "job", "theirs", "1"]);
    assert_eq!(soon(lease.lost()).await.reason, LostReason::TakenOver);
    drop(lease);
    client.close().await;
    assert_eq!(server.cli(&["HLEN", "job"]).integer(), Some(1));
}

/// Everything at once, and fences go on growing.
#[tokio::test]
async fn a_flush_loses_the_lease_and_no_fence_is_repeated() {
    let (server, client, lease) = rig().await;
    let mut last = lease.fence();
    for _ in 0..5 {
        server.cli(&["FLUSHALL"]);
        let next = soon(client.mutex("job").ttl(LONG).acquire()).await.unwrap();
        assert!(next.fence() > last, "{:?} after {last:?}", next.fence());
        last = next.fence();
    }
    // Which of the two depends on whether a renewal came between a flush and the next grant.
    let reason = soon(lease.lost()).await.reason;
    assert!(
        matches!(reason, LostReason::TakenOver | LostReason::KeyMissing),
        "{reason}"
    );
}
