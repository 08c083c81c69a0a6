//! A waiter is told by the node that has the lock.

use leaselock::Client;
use testkit::{Cluster, Server};

use crate::engine::shared_cluster;
use crate::support::{LONG, by_message, eventually, is_free, millis, until_queued, waiter};

/// So many names lie on each of three nodes.
fn names(of: &str) -> impl Iterator<Item = String> {
    (0..8).map(move |number| format!("{of}{number}"))
}

/// The channels of waiters that a node tells about, sharded ones first, and then those that are not.
fn heard(node: &Server, what: &str, client: &Client) -> Vec<String> {
    let answer = node.cli(&["PUBSUB", what, "*"]);
    let channels = answer.list().unwrap_or_default();
    let text = |channel: &testkit::Value| channel.text().unwrap().to_owned();
    let mut ours: Vec<String> = channels.iter().map(text).collect();
    ours.retain(|channel| channel.contains(client.id()));
    ours
}

/// Servers before Redis 7 do not have channels that belong to a slot.
fn has_sharded_channels(cluster: &Cluster) -> bool {
    !cluster.nodes()[0]
        .cli(&["PUBSUB", "SHARDCHANNELS"])
        .is_error()
}

#[tokio::test]
async fn a_release_hands_over_by_message_wherever_the_lock_lies() {
    let cluster = shared_cluster();
    let [one, two] = [(); 2].map(|()| Client::open(&cluster.url()).unwrap());
    let mut nodes: Vec<u16> = Vec::new();
    for name in names("handed") {
        let lease = one.mutex(&name).ttl(LONG).acquire().await.unwrap();
        let next = waiter(&two, &name, LONG);
        until_queued(&one, &name, 1).await;
        let before = lease.fence();
        lease.release().await.unwrap();
        let next = by_message(next).await.unwrap().unwrap();
        assert!(next.fence() > before);
        next.release().await.unwrap();
        assert!(is_free(&one, &name).await);
        nodes.push(cluster.owner_of(&name).port());
    }
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 3, "names of every node");
}

/// A confirmed grant has its whole time at once; one that the message alone brought is short until it is renewed.
#[tokio::test]
async fn a_grant_by_message_needs_no_confirmation() {
    // Of its own: after a slot that another test moves, the client may be connected anew, and confirms.
    let cluster = Cluster::start();
    let [one, two] = [(); 2].map(|()| Client::open(&cluster.url()).unwrap());
    // The second time, both know the way to every node.
    for name in names("warm") {
        two.mutex(&name)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    let lease = one.mutex("brief").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&two, "brief", LONG);
    until_queued(&one, "brief", 1).await;
    lease.release().await.unwrap();
    let next = by_message(next).await.unwrap().unwrap();
    assert!(next.remaining() <= millis(4_950), "{:?}", next.remaining());
    next.release().await.unwrap();
}

#[tokio::test]
async fn waiters_listen_at_the_node_of_their_lock_only_and_leave_when_they_are_served() {
    let cluster = shared_cluster();
    let [one, two] = [(); 2].map(|()| Client::open(&cluster.url()).unwrap());
    let lease = one.mutex("place").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&two, "place", LONG);
    until_queued(&one, "place", 1).await;
    let what = if has_sharded_channels(&cluster) {
        "SHARDCHANNELS"
    } else {
        "CHANNELS"
    };
    let owner = cluster.owner_of("place");
    // Where another test moves a slot, the client connects anew, and listens again a moment later.
    eventually("the waiter listens", async || {
        heard(owner, what, &two).len() == 1
    })
    .await;
    for node in cluster.nodes() {
        let here = usize::from(node.port() == owner.port());
        assert_eq!(heard(node, what, &two).len(), here);
        if what == "SHARDCHANNELS" {
            assert_eq!(heard(node, "CHANNELS", &two), [""; 0]);
        }
    }
    lease.release().await.unwrap();
    let next = by_message(next).await.unwrap().unwrap();
    next.release().await.unwrap();
    eventually("nobody listens any more", async || {
        heard(owner, what, &two).is_empty()
    })
    .await;
}

#[tokio::test]
async fn tasks_of_one_client_are_served_in_turn() {
    let cluster = shared_cluster();
    let [one, two] = [(); 2].map(|()| Client::open(&cluster.url()).unwrap());
    let lease = one.mutex("shared").ttl(LONG).acquire().await.unwrap();
    let tasks: Vec<_> = (0..4).map(|_| waiter(&two, "shared", LONG)).collect();
    until_queued(&one, "shared", 1).await;
    let mut fences = vec![lease.fence().unwrap()];
    lease.release().await.unwrap();
    let mut leases: Vec<_> = tasks.into_iter().map(Some).collect();
    while leases.iter().any(Option::is_some) {
        for task in &mut leases {
            if task.as_ref().is_some_and(|task| task.is_finished()) {
                let lease = task.take().unwrap().await.unwrap().unwrap();
                fences.push(lease.fence().unwrap());
                lease.release().await.unwrap();
            }
        }
        tokio::task::yield_now().await;
    }
    assert!(
        fences.windows(2).all(|pair| pair[0] < pair[1]),
        "{fences:?}"
    );
    // The tasks have asked for their next grant before the last of them was served, and withdraw that.
    eventually("it is free", async || is_free(&one, "shared").await).await;
}

#[tokio::test]
async fn a_release_while_nobody_is_heard_is_found_when_the_listener_is_back() {
    let cluster = shared_cluster();
    let [one, two] = [(); 2].map(|()| Client::open(&cluster.url()).unwrap());
    let lease = one.mutex("cut").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&two, "cut", LONG);
    until_queued(&one, "cut", 1).await;
    let owner = cluster.owner_of("cut");
    assert!(!owner.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).is_error());
    lease.release().await.unwrap();
    let next = by_message(next).await.unwrap().unwrap();
    next.release().await.unwrap();
}
