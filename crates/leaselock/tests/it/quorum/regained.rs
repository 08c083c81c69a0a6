//! A lease that is held for long has the votes of all nodes again, whatever happens to one after the other.

use std::time::Duration;

use leaselock::lease::LeaseState;
use leaselock::options::Options;
use leaselock::{Client, ClientBuilder, Lease};
use testkit::Server;

use super::Nodes;
use crate::support::{LONG, eventually, millis, pttl, soon};

const TTL: Duration = Duration::from_secs(2);

fn short(builder: ClientBuilder) -> Client {
    let builder = builder.longest_ttl(TTL);
    builder
        .defaults(Options::default().ttl(TTL))
        .open()
        .unwrap()
}

/// To less than its whole time, which a renewal makes of it again.
fn shorten(server: &Server) {
    server.cli(&["PEXPIRE", "job", "30000"]);
}

fn is_whole(server: &Server) -> bool {
    pttl(server, "job") > 30_000
}

async fn held(quorum: &Client) -> Lease {
    soon(quorum.mutex("job").ttl(TTL).acquire()).await.unwrap()
}

async fn outlives_the_restart_of_each(nodes: &Nodes, builder: ClientBuilder) {
    let quorum = short(builder);
    let lease = held(&quorum).await;
    nodes.all_have_voted().await;
    for server in &nodes.0 {
        server.restart();
        nodes.all_have_voted().await;
    }
    assert_eq!(lease.state(), LeaseState::Held);
    soon(lease.release()).await.unwrap();
    nodes.nothing_is_left().await;
}

#[tokio::test]
async fn a_lease_outlives_the_restart_of_every_node_one_after_the_other() {
    let nodes = Nodes::start(3);
    outlives_the_restart_of_each(&nodes, nodes.builder()).await;
}

/// A node that came up empty is asked in vain until it may vote.
#[tokio::test]
async fn a_lease_outlives_it_with_the_delayed_restart_too() {
    let nodes = Nodes::start(3);
    let builder = nodes.delayed_builder();
    outlives_the_restart_of_each(&nodes, builder).await;
}

#[tokio::test]
async fn leases_that_are_renewed_together_are_voted_for_again_together() {
    let nodes = Nodes::start(3);
    let quorum = short(nodes.builder());
    let names: Vec<String> = (0..20).map(|number| format!("job {number}")).collect();
    let mut leases = Vec::new();
    for name in &names {
        leases.push(soon(quorum.mutex(name.as_str()).acquire()).await.unwrap());
    }
    nodes.0[1].restart();
    eventually("it has voted for all again", async || {
        names.iter().all(|name| nodes.holding(name) == 3)
    })
    .await;
    assert!(leases.iter().all(Lease::is_held));
}

#[tokio::test]
async fn a_node_that_was_out_of_reach_at_the_grant_votes_when_it_is_back() {
    let nodes = Nodes::start(3);
    let quorum = nodes.builder().node_timeout(millis(500)).open().unwrap();
    nodes.0[2].kill();
    let lease = held(&quorum).await;
    let granted = lease.deadline();
    eventually("it is renewed", async || lease.deadline() > granted).await;
    nodes.0[2].restart();
    nodes.all_have_voted().await;
    soon(lease.release()).await.unwrap();
    nodes.nothing_is_left().await;
}

#[tokio::test]
async fn nobodys_vote_is_taken_away() {
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    nodes.0[0].cli(&["SET", "job", "theirs"]);
    let lease = held(&quorum).await;
    lease.extend(LONG).await.unwrap();
    let renewed = lease.deadline();
    eventually("it is renewed", async || lease.deadline() > renewed).await;
    assert_eq!(nodes.0[0].cli(&["GET", "job"]).text(), Some("theirs"));
    soon(lease.release()).await.unwrap();
}

/// Whether what asks for a vote comes before or after what gives it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_while_a_node_is_asked_again_leaves_nothing_there() {
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    let others = &nodes.0[1..];
    for round in 0..20 {
        let lease = soon(quorum.mutex("job").ttl(LONG).acquire()).await.unwrap();
        nodes.all_have_voted().await;
        nodes.0[0].cli(&["DEL", "job"]);
        others.iter().for_each(shorten);
        // The lease is verified, and the node whose connection is made anew is the last to answer.
        others[0].cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        if round % 2 == 0 {
            nodes.all_have_voted().await;
        } else {
            eventually("it is verified", async || others.iter().all(is_whole)).await;
        }
        soon(lease.release()).await.unwrap();
        nodes.nothing_is_left().await;
    }
}
