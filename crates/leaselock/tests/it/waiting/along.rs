//! Grants that come over the connection of the requests, to the runtime of the task that waits.

use std::sync::mpsc;

use leaselock::{Client, Lease};
use testkit::Server;
use tokio::runtime::{Builder, Runtime};

use crate::support::{
    LONG, apart, by_message, channels, eventually, is_free, leftovers, polls_sent, soon,
    until_queued, waiter,
};

async fn rig() -> (Server, Client, Client, Lease) {
    let server = Server::start();
    let [holder, waiters] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    (server, holder, waiters, lease)
}

/// Where a client hears over the connection of its requests, and where over that of its own thread.
fn along(client: &Client) -> String {
    format!("ll:wake:{}:r", client.id())
}

fn by_itself(client: &Client) -> String {
    format!("ll:wake:{}", client.id())
}

/// The channel that the only queue entry names.
fn told_at(server: &Server) -> String {
    let entries = server.cli(&["HVALS", "{job}:ll:waiters"]);
    let entry = entries.list().unwrap()[0].text().unwrap().to_owned();
    entry.rsplit(' ').next().unwrap().to_owned()
}

async fn released(waiter: tokio::task::JoinHandle<Result<Lease, leaselock::AcquireError>>) {
    let lease = by_message(waiter).await.unwrap().unwrap();
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_task_that_waits_alone_is_woken_over_the_connection_of_its_requests_and_needs_no_other() {
    let (server, holder, waiters, lease) = rig().await;
    let next = waiter(&waiters, "job", LONG);
    until_queued(&holder, "job", 1).await;
    assert_eq!(channels(&server), [along(&waiters)]);
    let before = polls_sent(&server);
    lease.release().await.unwrap();
    released(next).await;
    assert_eq!(polls_sent(&server), before, "the message alone brought it");
    assert!(is_free(&holder, "job").await);
}

/// Those who share a place stand there on the client's own thread, and are told there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_joined_by_others_goes_on_being_called() {
    let (server, holder, waiters, lease) = rig().await;
    let first = waiter(&waiters, "job", LONG);
    until_queued(&holder, "job", 1).await;
    let second = waiter(&waiters, "job", LONG);
    eventually("the thread listens", async || {
        channels(&server).contains(&by_itself(&waiters))
    })
    .await;
    lease.release().await.unwrap();
    released(first).await;
    released(second).await;
    assert_eq!(leftovers(&server), [""; 0]);
}

/// A queue entry that says where no client listens any more would be skipped until its next poll by timer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_that_connection_is_cut_the_waiter_is_woken_over_the_next_one() {
    let (server, holder, waiters, lease) = rig().await;
    let next = waiter(&waiters, "job", LONG);
    until_queued(&holder, "job", 1).await;
    let before = polls_sent(&server);
    assert!(!server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).is_error());
    let looked = eventually("it has looked", async || polls_sent(&server) > before);
    by_message(looked).await;
    assert_eq!(channels(&server), [along(&waiters)]);
    lease.release().await.unwrap();
    released(next).await;
    assert!(is_free(&holder, "job").await);
}

/// The server cuts off a client that listens where it may not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_may_not_subscribe_there_any_more_is_woken_by_the_thread() {
    let (server, holder, waiters, lease) = rig().await;
    let next = waiter(&waiters, "job", LONG);
    until_queued(&holder, "job", 1).await;
    apart(&server);
    let moved = eventually("the place says that the thread listens", async || {
        channels(&server) == [by_itself(&waiters)] && told_at(&server) == by_itself(&waiters)
    });
    by_message(moved).await;
    lease.release().await.unwrap();
    released(next).await;
    assert!(is_free(&holder, "job").await);
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

/// The connection was made by a runtime that is blocked now. A task that waits in another is none the worse for it.
#[test]
fn a_waiter_is_woken_whatever_the_runtime_does_that_made_the_connection() {
    let (blocked, driven) = (runtime(), runtime());
    let (server, holder, waiters, lease) = driven.block_on(rig());
    let other = driven.block_on(holder.mutex("other").ttl(LONG).acquire());
    let (mutex, holder_too) = (waiters.mutex("other").ttl(LONG), holder.clone());
    let elsewhere = blocked.spawn(async move { mutex.acquire().await });
    driven.block_on(until_queued(&holder_too, "other", 1));
    let next = driven.block_on(async {
        let next = waiter(&waiters, "job", LONG);
        until_queued(&holder, "job", 1).await;
        next
    });
    assert_eq!(channels(&server).len(), 2, "one hears along, one by itself");
    let (blocks, blocking) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    drop(blocked.spawn(async move {
        blocks.send(()).unwrap();
        assert!(gone.recv().is_err(), "until the test lets go");
    }));
    blocking.recv().unwrap();
    driven.block_on(async {
        lease.release().await.unwrap();
        let lease = by_message(next).await.unwrap().unwrap();
        drop(go);
        lease.release().await.unwrap();
        other.unwrap().release().await.unwrap();
        soon(elsewhere)
            .await
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
    });
    assert_eq!(leftovers(&server), [""; 0]);
}
