//! Answers and requests that vanish, come twice, come in pieces, or come too late.

use std::convert::Infallible;

use leaselock::barrier::BarrierError;
use leaselock::error::BreakError;
use leaselock::inspect::BreakOptions;
use leaselock::{AcquireError, Client, LostReason, ReleaseError, RunError};
use testkit::{Aim, Cut, Fault, Proxy, Server, Way};

use crate::support::{LONG, calls, eventually, is_free, leftovers, millis, pttl, soon};

pub(super) async fn rig() -> (Server, Proxy, Client, Client) {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let client = Client::builder()
        .url(&proxy.url())
        .request_timeout(millis(300))
        .open()
        .unwrap();
    let rival = Client::open(&server.url()).unwrap();
    client
        .mutex("warm")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    // The faults are for what comes later.
    eventually("its thread has said who it is", async || {
        client.stats().requests["admin"]["ok"] == 1
    })
    .await;
    (server, proxy, client, rival)
}

/// The grant exists, its holder does not know: it is cleaned up long before it would end.
#[tokio::test]
async fn an_acquire_whose_answer_vanished_is_unknown_and_is_cleaned_up() {
    for fault in [Fault::Swallow, Fault::HalfOpen] {
        let (server, proxy, client, rival) = rig().await;
        proxy.set(Way::ToClient, fault);
        let unknown = soon(client.mutex("job").ttl(LONG).try_acquire())
            .await
            .unwrap_err();
        assert!(matches!(unknown, AcquireError::Unknown { clear_in, .. } if clear_in <= LONG));
        assert_eq!(leftovers(&server), ["job"], "the request had its effect");
        proxy.heal();
        eventually("it is cleaned up", async || is_free(&rival, "job").await).await;
        client
            .mutex("job")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}

/// The caller checks before it asks again: the same call would hit the next holder.
#[tokio::test]
async fn a_break_whose_answer_vanished_is_unknown_and_one_that_never_left_is_not() {
    let (server, proxy, client, rival) = rig().await;
    let lease = rival.mutex("job").ttl(LONG).acquire().await.unwrap();
    let terms = || BreakOptions::default().now();
    drop(client.break_lease("free", terms()).await); // the server knows the script then
    proxy.set(Way::ToClient, Fault::Swallow);
    let unknown = soon(client.break_lease("job", terms())).await.unwrap_err();
    assert!(
        matches!(unknown, BreakError::Unknown { .. }) && unknown.to_string().contains("may have"),
        "{unknown}"
    );
    assert!(is_free(&rival, "job").await, "it had its effect");
    drop((lease, server, proxy));
    let refused = soon(client.break_lease("job", terms())).await;
    assert!(
        matches!(refused, Err(BreakError::Store { .. })),
        "{refused:?}"
    );
}

/// Requests are thrown away: nothing happened, but the client cannot know.
#[tokio::test]
async fn an_acquire_whose_request_vanished_is_unknown_and_has_no_late_effect() {
    for fault in [Fault::Swallow, Fault::HalfOpen] {
        let (server, proxy, client, rival) = rig().await;
        proxy.set(Way::ToServer, fault);
        let unknown = soon(client.mutex("job").ttl(LONG).try_acquire())
            .await
            .unwrap_err();
        assert!(
            matches!(unknown, AcquireError::Unknown { .. }),
            "{unknown:?}"
        );
        proxy.heal();
        let lease = soon(client.mutex("job").ttl(LONG).acquire()).await.unwrap();
        assert!(rival.mutex("job").try_acquire().await.unwrap().is_none());
        client.close().await; // the cleanup of the first attempt is over
        assert!(
            lease.is_held() && leftovers(&server) == ["job"],
            "and it did not touch the second"
        );
        lease.release().await.unwrap();
    }
}

/// A request that was held back arrives after its sender has given up and cleaned up: the ghost goes too.
#[tokio::test]
async fn a_request_that_arrives_after_the_clean_up_leaves_no_lock_behind() {
    let (server, proxy, client, rival) = rig().await;
    proxy.aim(Aim::Requests);
    proxy.set(Way::ToServer, Fault::Hold);
    let unknown = soon(client.mutex("job").ttl(LONG).try_acquire())
        .await
        .unwrap_err();
    assert!(
        matches!(unknown, AcquireError::Unknown { .. }),
        "{unknown:?}"
    );
    proxy.heal();
    eventually("the late request has been granted", async || {
        server.cli(&["EXISTS", "{job}:ll:fence"]).integer() == Some(1)
    })
    .await;
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
    assert!(rival.mutex("job").try_acquire().await.unwrap().is_some());
}

/// S8. The answer comes when the lease has ended on the server already: another holds the lock by then.
#[tokio::test]
async fn a_grant_whose_answer_comes_after_its_deadline_is_no_grant() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let client = Client::builder()
        .url(&proxy.url())
        .request_timeout(LONG)
        .open()
        .unwrap();
    let rival = Client::open(&server.url()).unwrap();
    client
        .mutex("warm")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    proxy.set(Way::ToClient, Fault::Hold);
    let mutex = client.mutex("job").ttl(millis(300)).renewal(false);
    let late = tokio::spawn(async move { mutex.try_acquire().await });
    eventually("it is granted", async || pttl(&server, "job") > 0).await;
    let lease = soon(rival.mutex("job").ttl(LONG).acquire()).await.unwrap();
    proxy.heal();
    let refused = soon(late).await.unwrap().unwrap_err();
    assert!(
        matches!(refused, AcquireError::Unknown { .. }),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("deadline"), "{refused}");
    client.close().await;
    lease.extend(LONG).await.unwrap(); // the cleanup of the late grant touched its own token only
    lease.release().await.unwrap();
}

/// S6. The holder is cut off, its key lives on: it is told before the server could give the lock to another. The drift
/// is set high, so that there is room between the two for a slow machine.
#[tokio::test]
async fn a_holder_that_is_cut_off_is_told_before_the_lock_can_be_anothers() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let builder = Client::builder().url(&proxy.url()).drift_ppm(300_000);
    let client = builder.open().unwrap();
    let lease = client
        .mutex("job")
        .ttl(millis(2_000))
        .acquire()
        .await
        .unwrap();
    proxy.set(Way::Both, Fault::HalfOpen);
    let lost = soon(lease.lost()).await;
    let left = pttl(&server, "job");
    assert!(left > 0, "{left} ms left on the server");
    assert_eq!(lost.reason, LostReason::StoreUnreachable);
    assert!(!lease.is_held() && lease.extend(LONG).await.is_err());
}

/// A body that blocks its thread cannot be stopped. No reply says later whether others held the lock before its end.
#[tokio::test]
async fn work_that_blocked_past_the_deadline_was_not_alone_to_its_end_without_a_reply_either() {
    let (_server, proxy, client, _rival) = rig().await;
    let mutex = client.mutex("job").ttl(millis(1_000)).renewal(false);
    let blocks = mutex.run(async |lease| {
        proxy.set(Way::Both, Fault::Swallow);
        std::thread::sleep(lease.remaining()); // what is tested: a body that blocks past the deadline
        Ok::<_, Infallible>("worked")
    });
    let Err(RunError::ReleasedLate { value, lost }) = soon(blocks).await else {
        panic!("others may have held it")
    };
    assert_eq!((value, lost.name.as_str()), ("worked", "job"));
}

#[tokio::test]
async fn requests_that_are_delivered_twice_take_effect_once() {
    let (server, proxy, client, rival) = rig().await;
    proxy.set(Way::ToServer, Fault::Duplicate);
    let mut last = None;
    for _ in 0..10 {
        let lease = client.mutex("job").ttl(LONG).acquire().await.unwrap();
        assert!(lease.fence() > last);
        last = lease.fence();
        let holder = rival.mutex("job").holder().await.unwrap().unwrap();
        assert_eq!(holder.fence, lease.fence(), "no second fence was minted");
        lease.extend(LONG).await.unwrap();
        lease.release().await.unwrap();
        assert!(is_free(&rival, "job").await);
    }
    let held = rival.mutex("job").ttl(LONG).acquire().await.unwrap();
    let waiting = crate::support::waiter(&client, "job", LONG);
    crate::support::until_queued(&rival, "job", 1).await;
    held.release().await.unwrap();
    soon(waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    assert!(proxy.duplicates() > 30, "{}", proxy.duplicates());
    assert_eq!(leftovers(&server), [""; 0]);
}

#[tokio::test]
async fn bytes_that_come_one_by_one_change_nothing() {
    let (server, proxy, client, rival) = rig().await;
    proxy.set(Way::Both, Fault::Slice);
    let held = rival.mutex("job").ttl(LONG).acquire().await.unwrap();
    let waiting = crate::support::waiter(&client, "job", LONG);
    crate::support::until_queued(&rival, "job", 1).await;
    held.release().await.unwrap();
    let lease = soon(waiting).await.unwrap().unwrap();
    lease.extend(LONG).await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(leftovers(&server), [""; 0]);
}

/// What it has sent may still reach the server, behind the request by which it left.
#[tokio::test]
async fn a_party_whose_last_poll_got_no_answer_leaves_its_barrier_again() {
    let (server, proxy, client, rival) = rig().await;
    let phase = client.barrier("phase", 3).party_lease(LONG);
    // Less than until the connection is probed, whose reply could be cut in place of the poll's.
    let waits = tokio::spawn(async move { phase.wait_within(millis(3_000)).await });
    let other = rival.barrier("phase", 3).party_lease(LONG);
    eventually("it has arrived", async || {
        let asks = other.wait_within(millis(0)).await;
        let knows = client.stats().arrivals["barrier"] == 1;
        knows && matches!(asks, Err(BarrierError::TimedOut { arrived: 2, .. }))
    })
    .await;
    let left = calls(&server, "zrem");
    let (bytes, how) = (0, Cut::Close);
    proxy.set(Way::ToClient, Fault::CutAfter { bytes, how });
    let over = soon(waits).await.unwrap().unwrap_err();
    assert!(matches!(over, BarrierError::TimedOut { .. }), "{over}");
    eventually("it has left twice more", async || {
        calls(&server, "zrem") == left + 3
    })
    .await;
}

/// What the store said of its token was heard, so a lost reply about the token of a broken lease does not say "released".
#[tokio::test]
async fn a_lease_that_is_another_clients_or_gone_is_not_released_whichever_later_reply_is_lost() {
    for (meddle, reply) in [
        (&["SET", "job", "another"][..], "*1\r\n$5\r\ntaken\r\n"),
        (&["DEL", "job"], "*1\r\n$7\r\nexpired\r\n"),
    ] {
        let (server, proxy, client, _rival) = rig().await;
        let warm = client.rwlock("warm").read().await.unwrap();
        warm.release().await.unwrap(); // the server knows the script
        let lock = client.rwlock("job").ttl(LONG);
        let lease: leaselock::Lease<()> = match meddle[0] {
            "SET" => lock.write().await.unwrap().into(),
            _ => lock.read().await.unwrap().into(),
        };
        server.cli(meddle);
        proxy.aim(Aim::Requests);
        let (bytes, how) = (reply.len() + 1, Cut::Reset);
        proxy.set(Way::ToClient, Fault::CutAfter { bytes, how });
        let released = soon(lease.release()).await;
        assert!(
            matches!(released, Err(ReleaseError::Unknown { .. })),
            "{reply:?}: {released:?}"
        );
    }
}
