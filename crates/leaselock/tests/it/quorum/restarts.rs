//! A node that restarts without its data stays out of votes until whatever it may have granted has ended.

use std::time::Duration;

use leaselock::error::Vote;
use leaselock::{AcquireError, Client};

use super::Nodes;
use crate::support::{eventually, millis, soon};

const LONGEST: Duration = Duration::from_secs(3);

fn quorum(nodes: &Nodes, delayed_restart: bool) -> Client {
    let builder = match delayed_restart {
        true => nodes.delayed_builder(),
        false => nodes.builder(),
    };
    // Without the delay no client waits for it, so a slow machine has all the time that it needs.
    let longest = if delayed_restart {
        LONGEST
    } else {
        20 * LONGEST
    };
    builder
        .longest_ttl(longest)
        .node_timeout(millis(500))
        .request_timeout(LONGEST)
        .defaults(leaselock::options::Options::default().ttl(longest))
        .open()
        .unwrap()
}

/// Held by exactly the first three, the third of which restarts empty. Tells whether a second one had the lock while
/// the first believed in it.
async fn a_second_holder_was_seen(nodes: &Nodes, delayed_restart: bool) -> bool {
    let (one, two) = (
        quorum(nodes, delayed_restart),
        quorum(nodes, delayed_restart),
    );
    soon(one.mutex("warm").acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    for server in &nodes.0[3..] {
        server.cli(&["SET", "job", "theirs", "PX", "60000"]);
    }
    let lease = soon(one.mutex("job").renewal(false).acquire())
        .await
        .unwrap();
    assert_eq!(nodes.holding("job"), 5);
    for server in &nodes.0[3..] {
        server.cli(&["DEL", "job"]);
    }
    nodes.0[2].restart();
    let mutex = two.mutex("job");
    let second = loop {
        match soon(mutex.try_acquire()).await {
            Ok(Some(second)) => break second,
            Ok(None) | Err(AcquireError::NoQuorum { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    // The second one is there by now, and the first one's clock is read after that.
    let both = lease.is_held();
    assert!(second.fence() > lease.fence());
    both
}

async fn all_vote(nodes: &Nodes) {
    eventually("all nodes are old enough to vote", async || {
        let report = quorum(nodes, true).doctor().await.unwrap();
        let checks = report.nodes.iter().flat_map(|node| &node.findings);
        let votes =
            |check: &&leaselock::report::Finding| check.topic == "vote" && check.found == "votes";
        checks.filter(votes).count() == nodes.0.len()
    })
    .await;
}

#[tokio::test]
async fn a_node_that_restarts_empty_inside_a_lease_of_three_of_five_lets_no_second_one_in() {
    let nodes = Nodes::start(5);
    all_vote(&nodes).await;
    assert!(!a_second_holder_was_seen(&nodes, true).await);
}

/// The proof that the test above can fail.
#[tokio::test]
async fn without_the_delayed_restart_a_second_holder_is_seen() {
    let nodes = Nodes::start(5);
    assert!(a_second_holder_was_seen(&nodes, false).await);
}

#[tokio::test]
async fn nodes_that_came_up_lately_say_for_how_long_they_stay_out_and_vote_then() {
    let nodes = Nodes::start(3);
    let quorum = quorum(&nodes, true);
    let refusal = soon(quorum.mutex("job").try_acquire()).await.unwrap_err();
    let text = refusal.to_string();
    let AcquireError::NoQuorum { votes, granted, .. } = refusal else {
        panic!("{refusal:?}")
    };
    assert_eq!(granted, 0);
    for one in &votes {
        assert!(
            matches!(one.vote, Vote::NotVoting { rest } if rest <= 2 * LONGEST),
            "{one:?}"
        );
    }
    assert!(text.contains("votes again in"), "{text}");
    assert_eq!(nodes.holding("job"), 0, "nobody was asked");
    soon(quorum.mutex("job").acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}
