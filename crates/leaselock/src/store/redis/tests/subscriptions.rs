//! Temporary subscriptions, and the one connection that serves them.

use std::sync::Arc;

use testkit::proxy::Proxy;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::store::subscriptions::{Subscription, Subscriptions};

/// The subscriptions of a store, served until dropped.
struct Served {
    set: Arc<Subscriptions>,
    task: JoinHandle<()>,
}

impl Served {
    fn of(store: &RedisStore) -> Self {
        let (set, store) = (store.subscriptions(), store.clone());
        let wanted = Arc::clone(&set);
        Served {
            set,
            task: tokio::spawn(async move { store.serve(&wanted).await }),
        }
    }

    async fn subscribe(&self, channel: &str) -> Subscription {
        let subscription = self.set.subscribe_to_all(channel);
        assert!(
            subscription.ready(PATIENCE).await,
            "{channel} is subscribed"
        );
        subscription
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn wakes(subscription: &Subscription) {
    timeout(PATIENCE, subscription.woken())
        .await
        .expect("it wakes");
}

async fn is_still(subscription: &Subscription) -> bool {
    timeout(Duration::ZERO, subscription.woken()).await.is_err()
}

fn listeners(server: &Server, channel: &str) -> Option<i64> {
    let counts = server.cli(&["PUBSUB", "NUMSUB", channel]);
    counts.list().unwrap()[1].integer()
}

fn connections(server: &Server) -> usize {
    let list = server.cli(&["CLIENT", "LIST", "TYPE", "pubsub"]);
    list.text().unwrap().lines().count()
}

fn is_left(server: &Server, channel: &str) {
    wait_until(PATIENCE, "the channel is left", || {
        listeners(server, channel) == Some(0)
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_of_one_channel_share_it_and_all_channels_one_connection() {
    let server = Server::builder().password("sekret").start();
    let served = Served::of(&store(&format!("{}5", server.url())));
    assert_eq!(connections(&server), 0, "nobody needs one yet");
    let [one, two] = [served.subscribe("a").await, served.subscribe("a").await];
    let other = served.subscribe("b").await;
    assert_eq!(
        (listeners(&server, "a"), connections(&server)),
        (Some(1), 1)
    );
    assert_eq!(server.cli(&["PUBLISH", "a", "x"]).integer(), Some(1));
    wakes(&one).await;
    wakes(&two).await;
    drop(one);
    server.cli(&["PUBLISH", "a", "x"]);
    wakes(&two).await;
    assert!(is_still(&other).await);
    drop(two);
    is_left(&server, "a");
    assert_eq!(listeners(&server, "b"), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wake_up_that_nobody_awaited_counts_once_and_what_the_filter_refuses_wakes_nobody() {
    let server = Server::start();
    let served = Served::of(&store(&server.url()));
    let some = served.set.subscribe("ch", |words| words == b"yes");
    assert!(some.ready(PATIENCE).await);
    let all = served.subscribe("ch").await;
    server.cli(&["PUBLISH", "ch", "no"]);
    wakes(&all).await;
    assert!(is_still(&some).await);
    for words in ["yes", "yes", "no"] {
        server.cli(&["PUBLISH", "ch", words]);
    }
    // A later message on the same connection has come after them.
    let last = served.subscribe("last").await;
    server.cli(&["PUBLISH", "last", "x"]);
    wakes(&last).await;
    for subscription in [&some, &all] {
        wakes(subscription).await;
        assert!(is_still(subscription).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_gap_every_subscription_wakes_once_and_is_ready_again() {
    let server = Server::start();
    let served = Served::of(&store(&server.url()));
    let set = [
        served.subscribe("a").await,
        served.subscribe("a").await,
        served.subscribe("b").await,
    ];
    for cut in ["the connection", "the server"] {
        match cut {
            "the server" => server.restart(),
            _ => drop(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"])),
        }
        for subscription in &set {
            wakes(subscription).await;
            assert!(
                subscription.ready(PATIENCE).await && is_still(subscription).await,
                "{cut}"
            );
        }
        server.cli(&["PUBLISH", "a", "x"]);
        wakes(&set[0]).await;
        wakes(&set[1]).await;
        assert!(is_still(&set[2]).await, "{cut}");
    }
    drop(set);
    is_left(&server, "a");
    is_left(&server, "b");
}

/// No component on the way can tell the old subscription from the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_is_left_and_wanted_again_at_once_is_subscribed() {
    let server = Server::start();
    let served = Served::of(&store(&server.url()));
    let mut subscription = served.subscribe("ch").await;
    for _ in 0..200 {
        drop(subscription);
        subscription = served.subscribe("ch").await;
        server.cli(&["PUBLISH", "ch", "x"]);
        wakes(&subscription).await;
    }
    drop(subscription);
    is_left(&server, "ch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_may_not_be_subscribed_is_told_and_the_others_are_subscribed() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "default", "resetchannels", "&open*"]);
    let served = Served::of(&store(&server.url()));
    let closed = served.set.subscribe_to_all("closed");
    let open = served.set.subscribe_to_all("open");
    assert!(!closed.ready(PATIENCE).await && open.ready(PATIENCE).await);
    server.cli(&["PUBLISH", "open", "x"]);
    wakes(&open).await;
    assert!(is_still(&closed).await && connections(&server) == 1);
    // A later waiter gets the same result.
    assert!(!served.set.subscribe_to_all("closed").ready(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_is_subscribed_as_soon_as_the_server_is_there() {
    let server = Server::start();
    server.kill();
    let served = Served::of(&store(&server.url()));
    let subscription = served.set.subscribe_to_all("ch");
    assert!(!subscription.ready(Duration::from_millis(50)).await);
    server.restart();
    assert!(subscription.ready(PATIENCE).await);
    assert!(
        is_still(&subscription).await,
        "nothing was heard before, so nothing was missed"
    );
}

#[tokio::test]
async fn over_a_connection_that_was_handed_in_nothing_is_subscribed() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let store = RedisStore::from_connection(connection);
    let served = Served::of(&store);
    let subscription = served.set.subscribe_to_all("ch");
    assert!(!subscription.ready(PATIENCE).await && is_still(&subscription).await);
    assert_eq!(store.news_of("job"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_is_closed_some_time_after_the_last_waiter_has_left() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let served = Served::of(&store(&proxy.url()));
    drop(served.subscribe("a").await);
    is_left(&server, "a");
    assert_eq!(proxy.open(), 1, "another wait may come soon");
    wait_until(PATIENCE, "the connection is closed", || proxy.open() == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_vanished_is_not_asked_again_once_nobody_waits_there() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let served = Served::of(&store(&proxy.url()));
    let waiter = served.subscribe("a").await;
    proxy.lead_nowhere();
    let tried = |at_least| {
        wait_until(PATIENCE, "another try", || proxy.connections() >= at_least);
    };
    tried(proxy.connections() + 2);
    drop(waiter);
    // A try that has begun goes on, after a pause of a second at most.
    tokio::time::sleep(Duration::from_secs(2)).await; // until it is over
    let before = proxy.connections();
    tokio::time::sleep(Duration::from_secs(3)).await; // long enough for three tries
    assert_eq!(proxy.connections(), before);
    let _again = served.set.subscribe_to_all("a");
    tried(before + 1);
}
