//! Who counts as being there.

use leaselock::Client;
use testkit::{Cut, Fault, Proxy, Server, Way};

use crate::support::{LONG, leftovers, soon, until_queued, waiter};

/// The first in the queue is dead and a monitor hears every channel: the lock goes to the second, in the same step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_monitor_of_all_channels_does_not_stand_in_for_a_dead_waiter() {
    let server = Server::start();
    let mut monitor = server.connect().unwrap();
    monitor.call(&["PSUBSCRIBE", "*"]).unwrap();
    let proxy = Proxy::to(server.port());
    let dead = Client::open(&proxy.url()).unwrap();
    let alive = Client::open(&server.url()).unwrap();
    let lease = alive.mutex("job").ttl(LONG).acquire().await.unwrap();
    let _dead = waiter(&dead, "job", LONG);
    until_queued(&alive, "job", 1).await;
    let next = waiter(&alive, "job", LONG);
    until_queued(&alive, "job", 2).await;
    // Gone for the server, and not able to come back.
    proxy.set(Way::Both, Fault::HalfOpen);
    proxy.cut(Cut::Reset);
    crate::support::eventually("nobody listens for the dead one", async || {
        let channels = server.cli(&["PUBSUB", "CHANNELS", "*"]);
        channels.list().unwrap().len() == 1
    })
    .await;
    lease.release().await.unwrap();
    assert!(
        leftovers(&server).contains(&"job".to_owned()),
        "handed over at once"
    );
    let lease = soon(next).await.unwrap().unwrap();
    let line = alive.inspect("job").await.unwrap().queue;
    assert_eq!(
        line.len(),
        1,
        "a waiter that seems gone is skipped and not removed"
    );
    assert_eq!(line[0].process.client, dead.id());
    lease.release().await.unwrap();
}

/// A waiter that was skipped while it seemed gone is served when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_was_skipped_is_served_later() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let (away, there) = (
        Client::open(&proxy.url()).unwrap(),
        Client::open(&server.url()).unwrap(),
    );
    let lease = there.mutex("job").ttl(LONG).acquire().await.unwrap();
    let skipped = waiter(&away, "job", LONG);
    until_queued(&there, "job", 1).await;
    let second = waiter(&there, "job", LONG);
    until_queued(&there, "job", 2).await;
    proxy.set(Way::Both, Fault::HalfOpen);
    proxy.cut(Cut::Reset);
    crate::support::eventually("nobody listens for the first", async || {
        let channels = server.cli(&["PUBSUB", "CHANNELS", "*"]);
        channels.list().unwrap().len() == 1
    })
    .await;
    lease.release().await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    proxy.heal();
    second.release().await.unwrap();
    soon(skipped)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    assert_eq!(leftovers(&server), [""; 0]);
}
