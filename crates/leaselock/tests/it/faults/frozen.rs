//! Servers that stop in their tracks, and servers that forget.

use leaselock::{AcquireError, Client, LostReason};
use testkit::Server;

use crate::support::{LONG, eventually, is_free, leftovers, millis, soon};

#[tokio::test]
async fn a_holder_on_a_frozen_server_is_told_by_its_own_clock() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lease = client
        .mutex("job")
        .ttl(millis(1_000))
        .acquire()
        .await
        .unwrap();
    let paused = server.pause();
    let lost = soon(lease.lost()).await;
    assert_eq!(lost.reason, LostReason::StoreUnreachable);
    // It says what its renewals have met, and for how long.
    let silence = lost.last_error().unwrap();
    assert_eq!(silence.kind(), leaselock::ErrorKind::NoReply);
    assert!(silence.to_string().contains(&client.store()));
    let unconfirmed = lost.unconfirmed_for().unwrap();
    assert!(unconfirmed >= millis(900), "{unconfirmed:?}");
    let text = lost.to_string();
    assert!(text.contains("; not confirmed for ") && text.ends_with(&silence.to_string()));
    assert!(!lease.is_held() && lease.remaining().is_zero() && client.held().is_empty());
    drop(paused);
    drop(lease);
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
    let lease = soon(client.mutex("job").acquire()).await.unwrap();
    lease.release().await.unwrap();
}

/// What a frozen server has in its buffers it carries out when it goes on: no ghost stays for its ttl.
#[tokio::test]
async fn requests_of_callers_who_gave_up_leave_nothing_when_a_frozen_server_goes_on() {
    let server = Server::start();
    let client = Client::builder()
        .url(&server.url())
        .request_timeout(millis(100))
        .open()
        .unwrap();
    client
        .mutex("warm")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let paused = server.pause();
    for number in 0..5 {
        let name = format!("job-{number}");
        let unknown = soon(client.mutex(name).ttl(LONG).acquire_within(millis(200))).await;
        assert!(
            !matches!(unknown, Ok(_) | Err(AcquireError::TimedOut { .. })),
            "{unknown:?}"
        );
    }
    drop(paused);
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
    // Nor is anything carried out later: the cleanup comes a second time, and then the client is done.
    let closed = client.close().await;
    assert_eq!(closed.unconfirmed, 0);
    assert_eq!(leftovers(&server), [""; 0]);
}

/// A pause shorter than the ttl costs nothing: the lease is renewed when the server goes on.
#[tokio::test]
async fn a_short_freeze_loses_no_lease() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lease = client
        .mutex("job")
        .ttl(millis(4_000))
        .acquire()
        .await
        .unwrap();
    let first = lease.deadline();
    let paused = server.pause();
    eventually("a renewal has failed", async || {
        lease.state() == leaselock::lease::LeaseState::Suspect
    })
    .await;
    let trouble = lease.last_error().unwrap();
    assert_eq!(trouble.kind(), leaselock::ErrorKind::NoReply);
    assert!(lease.unconfirmed_for() >= millis(1_000));
    drop(paused);
    eventually("it was renewed", async || lease.deadline() > first).await;
    assert_eq!(lease.state(), leaselock::lease::LeaseState::Held);
    assert_eq!(lease.last_error(), None);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_restarted_empty_makes_the_holder_lose_its_lease() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lease = client
        .mutex("job")
        .ttl(millis(2_000))
        .acquire()
        .await
        .unwrap();
    let fence = lease.fence();
    server.restart();
    assert_eq!(soon(lease.lost()).await.reason, LostReason::KeyMissing);
    let next = soon(client.mutex("job").acquire()).await.unwrap();
    assert!(
        next.fence() > fence,
        "although the server has forgotten the last one"
    );
}

#[tokio::test]
async fn a_server_that_restarted_with_its_data_keeps_the_lease() {
    let server = Server::builder().append_only().start();
    let client = Client::open(&server.url()).unwrap();
    let rival = Client::open(&server.url()).unwrap();
    let lease = client
        .mutex("job")
        .ttl(millis(4_000))
        .acquire()
        .await
        .unwrap();
    let first = lease.deadline();
    server.restart();
    assert!(
        soon(rival.mutex("job").try_acquire())
            .await
            .unwrap()
            .is_none()
    );
    eventually("it was renewed", async || lease.deadline() > first).await;
    lease.release().await.unwrap();
    assert!(is_free(&rival, "job").await);
}
