//! A waiter that is more urgent does not wait for the turns of others, at whatever moment it comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use leaselock::Client;
use testkit::{Aim, Fault, Proxy, Server, Way};

use crate::support::{LONG, apart, by_message, eventually, soon, until_queued, waiter};
use crate::waiting::together::arrives;

/// The store grants the lock to the others' place while the urgent one's first request is still on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_finds_a_more_urgent_task_waiting_has_no_turns_for_others() {
    let server = Server::start();
    apart(&server);
    let proxy = Proxy::to(server.port());
    let holder = Client::open(&server.url()).unwrap();
    let together = Client::open(&proxy.url()).unwrap();
    let lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    // Messages are heard already, so that the grant that matters needs no request.
    let before = waiter(&together, "job", LONG);
    until_queued(&holder, "job", 1).await;
    lease.release().await.unwrap();
    soon(before)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    let lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    let mutex = together.mutex("job").ttl(LONG);
    let told = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&told);
    let last = mutex.clone().on_wait(move |_| heard.store(true, SeqCst));
    let waiters = [&mutex, &mutex, &last].map(arrives);
    let mut waiting: Vec<_> = waiters.into_iter().map(tokio::spawn).collect();
    eventually("they share a place", async || told.load(SeqCst)).await;
    until_queued(&holder, "job", 1).await;
    proxy.aim(Aim::Requests);
    proxy.set(Way::ToServer, Fault::Hold);
    let urgent = tokio::spawn(arrives(&together.mutex("job").ttl(LONG).priority(3)));
    lease.release().await.unwrap();
    let first = by_message(waiting.remove(0)).await.unwrap().unwrap();
    assert!(!urgent.is_finished());
    proxy.heal();
    eventually("the urgent one is in line", async || {
        let line = holder.inspect("job").await.unwrap().queue;
        line.first().is_some_and(|first| first.priority == 3)
    })
    .await;
    first.release().await.unwrap();
    let lease = soon(urgent).await.unwrap().unwrap();
    assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
    lease.release().await.unwrap();
    for waiter in waiting {
        soon(waiter)
            .await
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}
