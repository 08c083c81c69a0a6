//! What happens to a server is a reason to check leases at once. Every lease here is renewed by its timer long
//! after the test is over, so whatever is seen was brought about by that.

use std::sync::Arc;
use std::time::Duration;

use leaselock::lease::LeaseState;
use leaselock::{Client, Lease, LostReason, Mutex};
use testkit::{Cluster, Server, Watched};

use crate::quorum::Nodes;
use crate::support::{eventually, introduced, soon};

/// Its third, after which it is renewed, is many times longer than a test waits.
const VERY_LONG: Duration = Duration::from_secs(600);
/// What is left of it on the server before it is verified.
const SHORTENED_MS: i64 = 100_000;

async fn held(mutex: Mutex) -> Lease {
    soon(mutex.ttl(VERY_LONG).acquire()).await.unwrap()
}

fn shorten(server: &Server) {
    let left = SHORTENED_MS.to_string();
    assert_eq!(server.cli(&["PEXPIRE", "job", &left]).integer(), Some(1));
}

fn left_ms(server: &Server) -> i64 {
    server.cli(&["PTTL", "job"]).integer().unwrap()
}

fn is_whole(server: &Server) -> bool {
    left_ms(server) > SHORTENED_MS
}

#[tokio::test]
async fn a_holder_is_notified_at_once_when_its_server_has_come_back_without_the_lease() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lease = held(client.mutex("job")).await;
    server.restart();
    assert_eq!(soon(lease.lost()).await.reason, LostReason::KeyMissing);
}

/// Nothing is sent from here on: the connections are all that tells.
#[tokio::test]
async fn a_lease_is_verified_as_soon_as_there_is_a_connection_again() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lease = held(client.mutex("job")).await;
    for round in ["before any renewal", "over the connection of renewals"] {
        shorten(&server);
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        eventually(round, async || is_whole(&server)).await;
    }
    assert_eq!(lease.state(), LeaseState::Held);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_client_that_holds_nothing_makes_no_new_connection() {
    let server = Server::start();
    let [idle, holder] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    held(idle.mutex("other")).await.release().await.unwrap();
    let lease = held(holder.mutex("job")).await;
    introduced(&server, &idle).await;
    introduced(&server, &holder).await;
    shorten(&server);
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    eventually("who holds something makes one", async || is_whole(&server)).await;
    let connected = server.cli(&["CLIENT", "LIST", "TYPE", "normal"]);
    let ours = |line: &&str| !line.contains("cmd=client");
    assert_eq!(connected.text().unwrap().lines().filter(ours).count(), 1);
    lease.release().await.unwrap();
}

/// The connection to a server that is frozen does not end by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_verified_at_the_new_primary_as_soon_as_sentinels_name_it() {
    let group = Arc::new(Watched::start());
    let client = Client::open(&group.url()).unwrap();
    let lease = held(client.mutex("job")).await;
    let old = group.primary();
    shorten(old);
    eventually("all have the lease, shortened", async || {
        let mut all = group.servers.iter();
        all.all(|server| (1..=SHORTENED_MS).contains(&left_ms(server)))
    })
    .await;
    let frozen = old.pause();
    let (watched, port) = (Arc::clone(&group), old.port());
    let new = tokio::task::spawn_blocking(move || watched.sentinels.wait_for_switch(port));
    let new = group.on(new.await.unwrap());
    eventually("it is whole there", async || is_whole(new)).await;
    assert_eq!(lease.state(), LeaseState::Held);
    drop(frozen);
    lease.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_verified_when_its_node_of_a_cluster_has_come_back() {
    let builder = Cluster::builder().node_timeout(Duration::from_millis(500));
    let cluster = builder.start();
    let client = Client::open(&cluster.url()).unwrap();
    let lease = held(client.mutex("job")).await;
    cluster.owner_of("job").restart();
    assert_eq!(soon(lease.lost()).await.reason, LostReason::KeyMissing);
}

async fn held_by_all(nodes: &Nodes) -> Lease {
    let quorum = nodes.builder().longest_ttl(VERY_LONG).open().unwrap();
    let lease = held(quorum.mutex("job")).await;
    nodes.all_have_voted().await;
    lease
}

#[tokio::test]
async fn a_lease_of_a_quorum_is_verified_at_once_when_a_node_has_come_back_without_it() {
    let nodes = Nodes::start(3);
    let lease = held_by_all(&nodes).await;
    nodes.0[1..].iter().for_each(shorten);
    nodes.0[0].restart();
    eventually("the other two are asked again", async || {
        nodes.0[1..].iter().all(is_whole)
    })
    .await;
    assert_eq!(lease.state(), LeaseState::Held, "a majority has it");
}

/// No majority has renewed the lease since, so no node is asked for its vote again.
#[tokio::test]
async fn a_lease_of_a_quorum_is_over_at_once_when_a_majority_has_come_back_without_it() {
    let nodes = Nodes::start(3);
    let lease = held_by_all(&nodes).await;
    nodes.0[..2].iter().for_each(Server::kill);
    nodes.0[..2].iter().for_each(Server::restart);
    assert_eq!(soon(lease.lost()).await.reason, LostReason::KeyMissing);
}
