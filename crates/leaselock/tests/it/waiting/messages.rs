//! Messages that are lost, late, refused or early. A message is only a reason to poll, so each waiter is served.

use leaselock::{Client, Lease};
use testkit::{Aim, Cut, Fault, Proxy, Server, Way};

use crate::support::{
    LONG, apart, by_message, eventually, is_free, leftovers, soon, until_queued, waiter,
};

/// A holder that reaches the server directly, and a client for waiters behind a proxy.
async fn rig() -> (Server, Proxy, Client, Client, Lease) {
    rig_on(Server::start()).await
}

/// Messages and answers of the waiters come over different connections, so that one of them can fail alone.
async fn rig_apart() -> (Server, Proxy, Client, Client, Lease) {
    let server = Server::start();
    apart(&server);
    rig_on(server).await
}

async fn rig_on(server: Server) -> (Server, Proxy, Client, Client, Lease) {
    let proxy = Proxy::to(server.port());
    let holder = Client::open(&server.url()).unwrap();
    let waiters = Client::open(&proxy.url()).unwrap();
    let lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    (server, proxy, holder, waiters, lease)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_whose_message_is_lost_is_found_by_a_poll() {
    let (server, proxy, holder, waiters, lease) = rig_apart().await;
    let next = waiter(&waiters, "job", LONG);
    until_queued(&holder, "job", 1).await;
    proxy.aim(Aim::Listeners);
    proxy.set(Way::ToClient, Fault::Swallow);
    lease.release().await.unwrap();
    assert_eq!(
        leftovers(&server),
        ["job"],
        "it was handed over: out of line, and held"
    );
    soon(next).await.unwrap().unwrap().release().await.unwrap();
    assert!(is_free(&holder, "job").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_while_the_listener_is_cut_off_is_found_when_it_is_back() {
    let (server, _proxy, holder, waiters, lease) = rig().await;
    let next = waiter(&waiters, "job", LONG);
    until_queued(&holder, "job", 1).await;
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    lease.release().await.unwrap();
    by_message(next)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    assert!(is_free(&holder, "job").await);
}

/// The answer that says "queued" comes after the message that says "granted".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_is_heard_before_the_answer_to_its_request_counts() {
    let (_server, proxy, holder, waiters, lease) = rig_apart().await;
    // The client listens and is connected before the fault begins.
    waiters
        .mutex("other")
        .ttl(LONG)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let warm = waiter(&waiters, "job", LONG);
    until_queued(&holder, "job", 1).await;
    warm.abort();
    until_queued(&holder, "job", 0).await;
    proxy.aim(Aim::Requests);
    proxy.set(Way::ToClient, Fault::Hold);
    let heard = proxy.bytes(Way::ToClient);
    let next = waiter(&waiters, "job", LONG);
    until_queued(&holder, "job", 1).await;
    lease.release().await.unwrap();
    eventually("the message has passed", async || {
        proxy.bytes(Way::ToClient) > heard
    })
    .await;
    proxy.heal();
    by_message(next)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    assert!(is_free(&holder, "job").await);
}

/// The message is late by more than the answer and finds no waiter: the lease that a poll had found stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_is_received_after_a_poll_has_found_it_changes_nothing() {
    let (server, proxy, holder, waiters, lease) = rig_apart().await;
    let next = waiter(&waiters, "job", LONG);
    until_queued(&holder, "job", 1).await;
    proxy.aim(Aim::Listeners);
    proxy.set(Way::ToClient, Fault::Hold);
    lease.release().await.unwrap();
    let lease = soon(next).await.unwrap().unwrap();
    let heard = proxy.bytes(Way::ToClient);
    proxy.heal();
    eventually("the late message has passed", async || {
        proxy.bytes(Way::ToClient) > heard
    })
    .await;
    lease.extend(LONG).await.unwrap();
    assert!(lease.is_held() && leftovers(&server) == ["job"]);
    lease.release().await.unwrap();
}

/// The holder may not publish: its release succeeds, and the waiter finds the free lock by a poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_may_not_publish_succeeds_and_the_waiter_is_served() {
    let server = Server::start();
    server.cli(&[
        "ACL",
        "SETUSER",
        "mute",
        "on",
        ">secret",
        "~*",
        "+@all",
        "resetchannels",
    ]);
    let url = format!("redis://mute:secret@127.0.0.1:{}/", server.port());
    let mute = Client::open(&url).unwrap();
    let other = Client::open(&server.url()).unwrap();
    let lease = mute.mutex("job").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&other, "job", LONG);
    until_queued(&other, "job", 1).await;
    lease.release().await.unwrap();
    assert!(
        !leftovers(&server).contains(&"job".to_owned()),
        "the grant was taken back"
    );
    soon(next).await.unwrap().unwrap().release().await.unwrap();
    // And it may wait, although it may not listen.
    let lease = other.mutex("job").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&mute, "job", LONG);
    until_queued(&other, "job", 1).await;
    lease.release().await.unwrap();
    soon(next).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(leftovers(&server), [""; 0]);
}

/// Each command finds the cache empty: while it waits, when it is woken, when it lets go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_scripts_stop_nobody() {
    let (server, proxy, holder, _waiters, lease) = rig().await;
    let flush = || assert!(!server.cli(&["SCRIPT", "FLUSH"]).is_error());
    flush();
    let mut waiting = Vec::new();
    for place in 1..=3 {
        let client = Client::open(&proxy.url()).unwrap();
        waiting.push(waiter(&client, "job", LONG));
        until_queued(&holder, "job", place).await;
        flush();
    }
    lease.release().await.unwrap();
    for next in waiting {
        flush();
        let lease = soon(next).await.unwrap().unwrap();
        flush();
        lease.extend(LONG).await.unwrap();
        flush();
        lease.release().await.unwrap();
    }
    assert_eq!(leftovers(&server), [""; 0]);
}

/// Nothing that the server knew survives; the waiters join the queue again by themselves, in whatever order they come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_survive_a_restart_of_the_server() {
    let (server, proxy, holder, _waiters, lease) = rig().await;
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let client = Client::open(&proxy.url()).unwrap();
            let next = waiter(&client, "job", LONG);
            tokio::spawn(async move { next.await.unwrap().unwrap().release().await.unwrap() })
        })
        .collect();
    until_queued(&holder, "job", 3).await;
    server.restart();
    proxy.cut(Cut::Reset);
    for next in waiting {
        soon(next).await.unwrap();
    }
    assert!(
        lease.release().await.is_err(),
        "the server has forgotten it"
    );
    eventually("nothing is left", async || leftovers(&server).is_empty()).await;
}
