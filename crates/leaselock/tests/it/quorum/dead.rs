//! Nodes that are killed, frozen or cut off: no client waits for them, and nothing stays on them.

use leaselock::error::Vote;
use leaselock::lease::LeaseState;
use leaselock::{AcquireError, Client, ErrorKind};
use testkit::{Fault, Proxy, Server, Way};
use tokio::time::timeout;

use super::Nodes;
use crate::support::{LONG, eventually, latest_fence, leftovers, millis, soon};

/// The node timeout is longer than the patience of the test, so every step was done without the two. Returns the fencing
/// token of the last lease.
async fn a_life(quorum: &Client, name: &str) -> u64 {
    let mutex = quorum.mutex(name).ttl(LONG);
    let lease = soon(mutex.acquire()).await.unwrap();
    soon(lease.extend(LONG)).await.unwrap();
    assert_eq!(lease.state(), LeaseState::Held);
    assert!(soon(mutex.try_acquire()).await.unwrap().is_none());
    soon(lease.release()).await.unwrap();
    // A try may be in vain yet: a release needs a majority, and so does the next vote.
    let free = async {
        loop {
            if let Some(again) = mutex.try_acquire().await.unwrap() {
                return again;
            }
        }
    };
    let again = soon(free).await;
    let fence = again.fence().unwrap().get();
    soon(again.release()).await.unwrap();
    fence
}

/// Both directions, for the connections that are open and for new ones.
fn silence(proxy: &Proxy) {
    proxy.set(Way::Both, Fault::HalfOpen);
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..5).flat_map(|one| (one + 1..5).map(move |two| (one, two)))
}

#[tokio::test]
async fn whichever_two_of_five_are_killed_nobody_waits_for_them() {
    let nodes = Nodes::start(5);
    for (one, two) in pairs() {
        let before = nodes.quorum();
        a_life(&before, "job").await;
        nodes.0[one].kill();
        nodes.0[two].kill();
        a_life(&before, "job").await;
        a_life(&nodes.quorum(), "job").await;
        nodes.0[one].restart();
        nodes.0[two].restart();
    }
    nodes.nothing_is_left().await;
}

#[tokio::test]
async fn whichever_two_of_five_are_frozen_nobody_waits_for_them_and_nothing_is_left_there() {
    let nodes = Nodes::start(5);
    for (one, two) in pairs() {
        let before = nodes.builder().node_timeout(millis(500)).open().unwrap();
        let patient = nodes.quorum();
        a_life(&patient, "job").await;
        let frozen = [nodes.0[one].pause(), nodes.0[two].pause()];
        a_life(&patient, "job").await;
        a_life(&nodes.quorum(), "job").await;
        a_life(&before, "job").await;
        drop(frozen);
        nodes.nothing_is_left().await; // a vote that is there yet makes rounds in vain, and some of those wait for all
    }
}

#[tokio::test]
async fn whichever_two_of_five_are_cut_off_nobody_waits_for_them() {
    let servers: Vec<Server> = (0..5).map(|_| Server::start()).collect();
    let proxies: Vec<Proxy> = servers
        .iter()
        .map(|server| Proxy::to(server.port()))
        .collect();
    let urls = || proxies.iter().map(|proxy| proxy.url());
    let quorum = || {
        let builder = Client::builder().urls(urls()).durable_nodes();
        builder
            .node_timeout(LONG)
            .request_timeout(LONG)
            .open()
            .unwrap()
    };
    let is_clean = |server: &Server| leftovers(server).is_empty();
    for (one, two) in pairs() {
        let before = quorum();
        // A release that is still on its way to a node would be lost with its connection, and given up after a minute.
        // Nothing may be there because the vote has not come yet: a node that knows its fencing token has had it. A vote
        // that a majority has made needless may never be sent, so there is another life then.
        soon(async {
            loop {
                let last = a_life(&before, "job").await;
                let is_over = |server: &Server| latest_fence(server, "job") >= Some(last);
                let are_over =
                    eventually("each has had the last vote and its release", async || {
                        { servers.iter() }.all(|server| is_over(server) && is_clean(server))
                    });
                if timeout(millis(500), are_over).await.is_ok() {
                    return;
                }
            }
        })
        .await;
        for cut in [one, two] {
            silence(&proxies[cut]);
        }
        a_life(&before, "job").await;
        a_life(&quorum(), "job").await;
        for cut in [one, two] {
            proxies[cut].heal();
        }
        eventually("what was cut off has gone", async || {
            servers.iter().all(is_clean)
        })
        .await;
    }
}

#[tokio::test]
async fn with_three_of_five_gone_a_lock_is_refused_by_name_and_nothing_is_left_on_the_two() {
    let nodes = Nodes::start(5);
    let quorum = nodes.builder().node_timeout(millis(300)).open().unwrap();
    a_life(&quorum, "job").await;
    let _frozen = nodes.0[0].pause();
    nodes.0[1].kill();
    nodes.0[2].kill();
    let mutex = quorum.mutex("job").ttl(LONG);
    let refusal = soon(mutex.try_acquire()).await.unwrap_err();
    let text = refusal.to_string();
    let AcquireError::NoQuorum {
        granted,
        needed,
        votes,
        ..
    } = refusal
    else {
        panic!("{refusal:?}")
    };
    assert_eq!((granted, needed), (2, 3));
    let said: Vec<&Vote> = votes.iter().map(|one| &one.vote).collect();
    let (gone, there) = (&Vote::Silent, &Vote::Granted);
    assert_eq!(said, [gone, gone, gone, there, there]);
    let frozen = format!(
        "127.0.0.1:{}/0: silent (no reply in 300 ms)",
        nodes.0[0].port()
    );
    assert!(text.contains(&frozen), "{text}");
    for gone in &nodes.0[1..3] {
        // The connection was there when it was killed, or it was noticed in time.
        let refused = format!("127.0.0.1:{}/0: unreachable (", gone.port());
        assert!(text.contains(&refused), "{text}");
    }
    let kinds = votes.iter().map(|one| Some(one.error.as_ref()?.kind()));
    let (late, refused) = (Some(ErrorKind::NoReply), Some(ErrorKind::Unreachable));
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [late, refused, refused, None, None]
    );
    for there in &nodes.0[3..] {
        assert_eq!(there.cli(&["EXISTS", "job"]).integer(), Some(0));
    }
    let limited = soon(mutex.acquire_within(millis(700))).await.unwrap_err();
    assert!(
        matches!(limited, AcquireError::NoQuorum { .. }),
        "{limited:?}"
    );
    let ended = soon(mutex.acquire()).await; // it was never answered by a majority, yet nodes are there
    drop(ended);
}

/// A request that was under way when its node froze is carried out afterwards, when no client wants it any more.
#[tokio::test]
async fn what_a_frozen_node_grants_late_is_taken_back() {
    let nodes = Nodes::start(3);
    let quorum = nodes.builder().node_timeout(millis(200)).open().unwrap();
    a_life(&quorum, "job").await;
    for dropped in [false, true] {
        let frozen = nodes.0[2].pause();
        let lease = soon(quorum.mutex("job").ttl(LONG).acquire()).await.unwrap();
        if dropped {
            drop(lease);
        } else {
            soon(lease.release()).await.unwrap();
        }
        drop(frozen);
        nodes.nothing_is_left().await;
        eventually("it stays so", async || quorum.inspect("job").await.is_ok()).await;
    }
}

/// Of a release that a majority has confirmed, one node's may still be on its way.
#[tokio::test]
async fn closing_a_client_that_released_a_detached_lease_waits_for_the_slowest_node() {
    let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
    let slow = Proxy::to(servers[2].port());
    let urls = || [servers[0].url(), servers[1].url(), slow.url()];
    let quorum = || {
        let builder = Client::builder().urls(urls()).durable_nodes();
        builder.node_timeout(LONG).open().unwrap()
    };
    let lease = quorum().mutex("job").ttl(LONG).acquire().await.unwrap();
    let has_vote = || servers[2].cli(&["EXISTS", "job"]).integer() == Some(1);
    eventually("each node has the vote", async || has_vote()).await;
    let handle = lease.detach().await.unwrap();
    eventually("and the detached one's", async || has_vote()).await;
    let other = quorum();
    other.inspect("job").await.unwrap(); // connects
    slow.set(Way::ToServer, Fault::Hold);
    soon(other.attach(handle).release()).await.unwrap();
    let mut closing = Box::pin(other.close());
    let early = tokio::time::timeout(millis(100), &mut closing).await;
    assert!(early.is_err(), "a node has not replied");
    assert!(has_vote());
    slow.heal();
    soon(closing).await;
    assert!(!has_vote());
}
