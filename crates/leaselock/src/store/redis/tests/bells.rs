//! Temporary subscriptions, and the one connection that serves them.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::store::subscriptions::{Subscription, Subscriptions};

/// The subscriptions of a store, served until dropped.
struct Tower {
    bells: Arc<Subscriptions>,
    task: JoinHandle<()>,
}

impl Tower {
    fn of(store: &RedisStore) -> Self {
        let (bells, store) = (store.bells(), store.clone());
        let served = Arc::clone(&bells);
        Tower {
            bells,
            task: tokio::spawn(async move { store.serve(&served).await }),
        }
    }

    async fn hear(&self, channel: &str) -> Subscription {
        let bell = self.bells.hear(channel);
        assert!(bell.ready(PATIENCE).await, "{channel} is heard");
        bell
    }
}

impl Drop for Tower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn rings(bell: &Subscription) {
    timeout(PATIENCE, bell.rung()).await.expect("it rings");
}

async fn is_still(bell: &Subscription) -> bool {
    timeout(Duration::ZERO, bell.rung()).await.is_err()
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
async fn bells_of_one_channel_share_its_subscription_and_all_channels_one_connection() {
    let server = Server::builder().password("sekret").start();
    let tower = Tower::of(&store(&format!("{}5", server.url())));
    assert_eq!(connections(&server), 0, "nobody needs one yet");
    let [one, two] = [tower.hear("a").await, tower.hear("a").await];
    let other = tower.hear("b").await;
    assert_eq!(
        (listeners(&server, "a"), connections(&server)),
        (Some(1), 1)
    );
    assert_eq!(server.cli(&["PUBLISH", "a", "x"]).integer(), Some(1));
    rings(&one).await;
    rings(&two).await;
    drop(one);
    server.cli(&["PUBLISH", "a", "x"]);
    rings(&two).await;
    assert!(is_still(&other).await);
    drop(two);
    is_left(&server, "a");
    assert_eq!(listeners(&server, "b"), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_that_nobody_awaited_counts_once_and_what_does_not_ring_is_not_heard() {
    let server = Server::start();
    let tower = Tower::of(&store(&server.url()));
    let some = tower.bells.hear_only("ch", |words| words == b"yes");
    assert!(some.ready(PATIENCE).await);
    let all = tower.hear("ch").await;
    server.cli(&["PUBLISH", "ch", "no"]);
    rings(&all).await;
    assert!(is_still(&some).await);
    for words in ["yes", "yes", "no"] {
        server.cli(&["PUBLISH", "ch", words]);
    }
    // A later message on the same connection has come after them.
    let last = tower.hear("last").await;
    server.cli(&["PUBLISH", "last", "x"]);
    rings(&last).await;
    for bell in [&some, &all] {
        rings(bell).await;
        assert!(is_still(bell).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_gap_every_bell_rings_once_and_hears_again() {
    let server = Server::start();
    let tower = Tower::of(&store(&server.url()));
    let bells = [
        tower.hear("a").await,
        tower.hear("a").await,
        tower.hear("b").await,
    ];
    for cut in ["the connection", "the server"] {
        match cut {
            "the server" => server.restart(),
            _ => drop(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"])),
        }
        for bell in &bells {
            rings(bell).await;
            assert!(bell.ready(PATIENCE).await && is_still(bell).await, "{cut}");
        }
        server.cli(&["PUBLISH", "a", "x"]);
        rings(&bells[0]).await;
        rings(&bells[1]).await;
        assert!(is_still(&bells[2]).await, "{cut}");
    }
    drop(bells);
    is_left(&server, "a");
    is_left(&server, "b");
}

/// No component on the way can tell the old subscription from the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_is_left_and_wanted_again_at_once_is_heard() {
    let server = Server::start();
    let tower = Tower::of(&store(&server.url()));
    let mut bell = tower.hear("ch").await;
    for _ in 0..200 {
        drop(bell);
        bell = tower.hear("ch").await;
        server.cli(&["PUBLISH", "ch", "x"]);
        rings(&bell).await;
    }
    drop(bell);
    is_left(&server, "ch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_may_not_be_heard_is_told_and_the_others_are_heard() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "default", "resetchannels", "&open*"]);
    let tower = Tower::of(&store(&server.url()));
    let closed = tower.bells.hear("closed");
    let open = tower.bells.hear("open");
    assert!(!closed.ready(PATIENCE).await && open.ready(PATIENCE).await);
    server.cli(&["PUBLISH", "open", "x"]);
    rings(&open).await;
    assert!(is_still(&closed).await && connections(&server) == 1);
    // A later waiter gets the same result.
    assert!(!tower.bells.hear("closed").ready(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bell_hears_as_soon_as_the_server_is_there() {
    let server = Server::start();
    server.kill();
    let tower = Tower::of(&store(&server.url()));
    let bell = tower.bells.hear("ch");
    assert!(!bell.ready(Duration::from_millis(50)).await);
    server.restart();
    assert!(bell.ready(PATIENCE).await);
    assert!(
        is_still(&bell).await,
        "nothing was heard before, so nothing was missed"
    );
}

#[tokio::test]
async fn over_a_connection_that_was_handed_in_nothing_is_heard() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let store = RedisStore::from_connection(connection);
    let tower = Tower::of(&store);
    let bell = tower.bells.hear("ch");
    assert!(!bell.ready(PATIENCE).await && is_still(&bell).await);
    assert_eq!(store.news_of("job"), None);
}
