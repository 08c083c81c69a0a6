//! Upgrades and downgrades whose requests or replies vanish.

use leaselock::{AcquireError, Client, LostReason};
use testkit::{Aim, Fault, Proxy, Server, Way};

use super::silent::rig;
use crate::support::{
    LONG, apart, calls, eventually, is_free, leftovers, millis, soon, until_queued,
};

/// The server knows the scripts: a reply that vanishes is not the one that asks for their text.
async fn warm_rig() -> (Server, Proxy, Client, Client) {
    let rig = rig().await;
    warm(&rig.3).await;
    rig
}

async fn warm(client: &Client) {
    let lock = client.rwlock("warm");
    let up = lock.downgrade_to_upgradable(lock.write().await.unwrap());
    let writing = up.await.unwrap().upgrade().await.unwrap();
    writing.release().await.unwrap();
}

/// The store has made it exclusive, its reader does not know: it reads on, and any later request finds the upgrade.
#[tokio::test]
async fn after_an_upgrade_whose_reply_vanished_the_read_goes_on_and_can_be_changed() {
    for goes_up in [true, false] {
        let (server, proxy, client, rival) = warm_rig().await;
        let lock = client.rwlock("job").ttl(LONG);
        let up = lock.upgradable_read().await.unwrap();
        proxy.set(Way::ToClient, Fault::Swallow);
        let unknown = soon(up.try_upgrade()).await.unwrap_err();
        assert!(matches!(*unknown.error, AcquireError::Unknown { .. }));
        let up = unknown.lease;
        assert!(up.is_held());
        proxy.heal();
        up.extend(LONG).await.unwrap();
        assert!(rival.rwlock("job").try_read().await.unwrap().is_none());
        if goes_up {
            let writing = up.upgrade().await.unwrap();
            assert!(rival.rwlock("job").try_read().await.unwrap().is_none());
            writing.release().await.unwrap();
        } else {
            let reading = up.downgrade().await.unwrap();
            let other = rival.rwlock("job").try_read().await.unwrap().unwrap();
            assert_eq!(other.fence(), reading.fence());
            other.release().await.unwrap();
            reading.release().await.unwrap();
        }
        assert!(is_free(&rival, "job").await);
        assert!(leftovers(&server).is_empty());
    }
}

#[tokio::test]
async fn an_upgrade_whose_request_vanished_keeps_the_read_and_its_lease_is_released_whole() {
    let (_server, proxy, client, rival) = warm_rig().await;
    let up = client.rwlock("job").ttl(LONG).upgradable_read().await;
    proxy.set(Way::ToServer, Fault::Swallow);
    let unknown = soon(up.unwrap().try_upgrade()).await.unwrap_err();
    assert!(matches!(*unknown.error, AcquireError::Unknown { .. }));
    proxy.heal();
    let other = rival.rwlock("job").try_read().await.unwrap();
    other.unwrap().release().await.unwrap();
    assert!(unknown.lease.is_held());
    unknown.lease.release().await.unwrap();
    assert!(is_free(&rival, "job").await);
}

/// The server may run the request late, so the writer must not go on as if nothing had happened.
#[tokio::test]
async fn a_downgrade_whose_reply_vanished_ends_the_lease_and_is_cleaned_up() {
    for way in [Way::ToServer, Way::ToClient] {
        let (_server, proxy, client, rival) = warm_rig().await;
        let lock = client.rwlock("job").ttl(LONG);
        let writing = lock.write().await.unwrap();
        let lost = writing.lost();
        proxy.set(way, Fault::Swallow);
        let unknown = soon(lock.downgrade(writing)).await.unwrap_err();
        assert!(matches!(*unknown.error, AcquireError::Unknown { .. }));
        assert!(!unknown.lease.is_held());
        assert_eq!(soon(lost).await.reason, LostReason::Released);
        proxy.heal();
        eventually("it is cleaned up", async || is_free(&rival, "job").await).await;
    }
}

/// Nothing was sent, so nothing has changed.
#[tokio::test]
async fn a_downgrade_that_is_refused_gives_the_writer_back() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lock = client.rwlock("job").ttl(LONG);
    let writing = lock.write().await.unwrap();
    server.cli(&["SET", "{job}:ll:fence", "x"]);
    let refused = lock.downgrade(writing).await.unwrap_err();
    assert!(matches!(*refused.error, AcquireError::Store { .. }));
    assert!(refused.lease.is_held());
    server.cli(&["DEL", "{job}:ll:fence"]);
    let reading = lock.downgrade(refused.lease).await.unwrap();
    reading.release().await.unwrap();
}

/// It leaves the queue to give up, and finds that it is the writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_whose_grant_was_not_heard_is_found_when_its_wait_ends() {
    let server = Server::start();
    apart(&server); // messages and replies come over different connections
    let proxy = Proxy::to(server.port());
    let client = Client::open(&proxy.url()).unwrap();
    let rival = Client::open(&server.url()).unwrap();
    let other = rival.rwlock("job").ttl(LONG).read().await.unwrap();
    let up = client.rwlock("job").ttl(LONG).upgradable_read().await;
    let read = up.as_ref().unwrap().fence();
    let upgrade = tokio::spawn(up.unwrap().upgrade_within(millis(1_000)));
    until_queued(&rival, "job", 1).await;
    proxy.aim(Aim::Listeners);
    proxy.set(Way::ToClient, Fault::Swallow);
    other.release().await.unwrap();
    let writing = soon(upgrade).await.unwrap().unwrap();
    assert!(writing.is_held() && writing.fence() > read);
    assert!(rival.rwlock("job").try_read().await.unwrap().is_none());
    writing.release().await.unwrap();
    assert!(is_free(&rival, "job").await);
}

#[tokio::test]
async fn under_memory_pressure_a_writer_is_downgraded_and_no_reader_upgraded() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lock = client.rwlock("job").ttl(LONG);
    let writing = lock.write().await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let up = lock.downgrade_to_upgradable(writing).await.unwrap();
    let refused = up.try_upgrade().await.unwrap_err();
    assert!(refused.lease.is_held(), "{refused:?}");
    let reading = refused.lease.downgrade().await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(lock.try_write().await.unwrap().is_none());
    reading.release().await.unwrap();
}

/// A renewal of the writer that reaches the store after its downgrade is refused, and is answered before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_whose_reply_is_late_is_no_loss_for_the_writer() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let client = Client::builder().url(&proxy.url());
    let client = client.request_timeout(LONG).open().unwrap();
    let rival = Client::open(&server.url()).unwrap();
    warm(&rival).await;
    // From its first wait on, the connection of the requests listens, and that of the renewals does not.
    let first = rival.mutex("job").ttl(LONG).acquire().await.unwrap();
    let lock = client.rwlock("job").ttl(millis(6_000));
    let waits = lock.clone();
    let waits = tokio::spawn(async move { waits.write().await });
    until_queued(&rival, "job", 1).await;
    first.release().await.unwrap();
    let writing = soon(waits).await.unwrap().unwrap();
    let (lost, view) = (writing.lost(), writing.view());
    proxy.aim(Aim::Listeners);
    proxy.set(Way::ToClient, Fault::Hold);
    let downgrade = tokio::spawn(async move { lock.downgrade(writing).await });
    let is_shared = async || server.cli(&["TYPE", "job"]).text() == Some("zset");
    eventually("the store has downgraded it", is_shared).await;
    let before = calls(&server, "get");
    let is_refused = async || calls(&server, "get") > before;
    eventually("a renewal of the writer was refused", is_refused).await;
    assert!(view.is_held() && !downgrade.is_finished());
    proxy.heal();
    let reading = soon(downgrade).await.unwrap().unwrap();
    assert_eq!(soon(lost).await.reason, LostReason::Released);
    assert!(reading.is_held());
    reading.release().await.unwrap();
}
