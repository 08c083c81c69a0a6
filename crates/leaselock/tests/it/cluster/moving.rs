//! Slots that go to another node while their locks are free, held, and waited for.

use leaselock::{AcquireError, Client, ErrorKind, Lease};
use testkit::{Cluster, Server};

use crate::engine::shared_cluster;
use crate::support::{LONG, by_message, is_free, soon, until_queued, waiter};

/// A node that does not have the name.
fn elsewhere<'a>(cluster: &'a Cluster, name: &str) -> &'a Server {
    let owner = cluster.owner_of(name).port();
    let mut others = cluster.nodes().iter().filter(|node| node.port() != owner);
    others.next().unwrap()
}

#[tokio::test]
async fn a_client_that_knows_an_old_owner_follows_the_slot() {
    let cluster = shared_cluster();
    let client = Client::open(&cluster.url()).unwrap();
    let (slot, home) = (cluster.slot("follows"), cluster.owner_of("follows"));
    let mutex = client.mutex("follows").ttl(LONG);
    let before = mutex.acquire().await.unwrap();
    cluster.move_slot(slot, elsewhere(&cluster, "follows"));
    before.extend(LONG).await.unwrap();
    let fence = before.fence();
    before.release().await.unwrap();
    cluster.move_slot(slot, home);
    let after = mutex.try_acquire().await.unwrap().unwrap();
    assert!(after.fence() > fence);
    after.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_is_held_and_waited_for_moves_with_its_queue() {
    let cluster = shared_cluster();
    let [one, two] = [(); 2].map(|()| Client::open(&cluster.url()).unwrap());
    let slot = cluster.slot("along");
    let lease = one.mutex("along").ttl(LONG).acquire().await.unwrap();
    let mut first = waiter(&two, "along", LONG);
    until_queued(&one, "along", 1).await;
    let mut second = waiter(&one, "along", LONG);
    until_queued(&one, "along", 2).await;
    cluster.move_slot(slot, elsewhere(&cluster, "along"));
    let mut fences = vec![lease.fence()];
    lease.release().await.unwrap();
    // The waiter that listens at the new node first may come first; the other is told.
    let (served, left) = tokio::select! {
        served = by_message(&mut first) => (served, second),
        served = by_message(&mut second) => (served, first),
    };
    let served = served.unwrap().unwrap();
    fences.push(served.fence());
    served.release().await.unwrap();
    let last = by_message(left).await.unwrap().unwrap();
    fences.push(last.fence());
    assert!(fences.is_sorted_by(|one, other| one < other), "{fences:?}");
    last.release().await.unwrap();
    assert!(is_free(&one, "along").await);
}

/// The lock has moved already and its line has not: nothing that needs both can be done.
#[tokio::test]
async fn while_its_keys_are_apart_a_lease_is_extended_and_given_back_and_nobody_else_gets_it() {
    let cluster = shared_cluster();
    let [one, two] = [(); 2].map(|()| Client::open(&cluster.url()).unwrap());
    let (slot, to) = (cluster.slot("apart"), elsewhere(&cluster, "apart"));
    let lease = one.mutex("apart").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&two, "apart", LONG);
    until_queued(&one, "apart", 1).await;
    cluster.begin_move(slot, to);
    cluster.move_key("apart", cluster.owner(slot), to);
    lease.extend(LONG).await.unwrap();
    let refused = soon(one.mutex("apart").try_acquire()).await.unwrap_err();
    let AcquireError::Store { source, .. } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(source.kind(), ErrorKind::ClusterDown, "{source}");
    let before = lease.fence();
    lease.release().await.unwrap();
    assert!(!next.is_finished());
    cluster.end_move(slot, to);
    let next = soon(next).await.unwrap().unwrap();
    assert!(next.fence() > before);
    next.release().await.unwrap();
    assert!(is_free(&one, "apart").await);
}

/// As above: the holds have moved already, and the queue and the numbers beside them have not.
#[tokio::test]
async fn while_its_keys_are_apart_a_read_and_permits_are_extended_and_given_back_and_nobody_else_comes_in()
 {
    let cluster = shared_cluster();
    let [one, two] = [(); 2].map(|()| Client::open(&cluster.url()).unwrap());
    let pool = one.semaphore("apart-pool", 3).ttl(LONG);
    let config = one.rwlock("apart-config").ttl(LONG);
    let stays = pool.acquire().await.unwrap();
    let held: [(&str, Lease<()>); 3] = [
        ("apart-pool", pool.acquire_many(2).await.unwrap().into()),
        ("apart-config", config.read().await.unwrap().into()),
        (
            "apart-config",
            config.upgradable_read().await.unwrap().into(),
        ),
    ];
    let all = two.semaphore("apart-pool", 3).ttl(LONG);
    let two_permits = tokio::spawn(async move { all.acquire_many(2).await });
    until_queued(&one, "apart-pool", 1).await;
    let writer = waiter(&two, "apart-config", LONG);
    until_queued(&one, "apart-config", 1).await;
    let moves = ["apart-pool", "apart-config"].map(|name| {
        let (slot, to) = (cluster.slot(name), elsewhere(&cluster, name));
        cluster.begin_move(slot, to);
        cluster.move_key(name, cluster.owner(slot), to);
        (slot, to)
    });
    let releases = held.map(|(name, lease)| async move {
        lease.extend(LONG).await.unwrap();
        lease
            .release()
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    });
    let [pool, reader, upgradable] = releases;
    tokio::join!(pool, reader, upgradable);
    assert!(!two_permits.is_finished() && !writer.is_finished());
    for (slot, to) in moves {
        cluster.end_move(slot, to);
    }
    let two_permits = soon(two_permits).await.unwrap().unwrap();
    stays.release().await.unwrap();
    two_permits.release().await.unwrap();
    soon(writer)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    assert!(is_free(&one, "apart-pool").await && is_free(&one, "apart-config").await);
}

/// Nothing of the lock is left at the old node, so the request belongs to the new one, which has nothing either.
#[tokio::test]
async fn a_lock_without_a_key_waits_for_the_end_of_the_move() {
    let cluster = shared_cluster();
    let client = Client::open(&cluster.url()).unwrap();
    let (slot, to) = (cluster.slot("new"), elsewhere(&cluster, "new"));
    cluster.begin_move(slot, to);
    let refused = soon(client.mutex("new").try_acquire()).await.unwrap_err();
    assert!(
        matches!(&refused, AcquireError::Store { source, .. } if source.kind() == ErrorKind::ClusterDown),
        "{refused:?}"
    );
    let mutex = client.mutex("new").ttl(LONG);
    let waiting = tokio::spawn(async move { mutex.acquire_within(LONG).await });
    cluster.end_move(slot, to);
    let lease = soon(waiting).await.unwrap().unwrap();
    lease.release().await.unwrap();
}
