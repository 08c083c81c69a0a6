//! Votes, releases and renewals of many tasks leave together, and each keeps its own answer.

use std::time::Duration;

use leaselock::{AcquireError, Client, Lease};
use testkit::{Server, Value};

use super::Nodes;
use crate::combined::{calls, crowd, names};
use crate::support::{LONG, eventually, leftovers, millis, soon};

async fn try_all(quorum: &Client, count: usize) -> Vec<Result<Option<Lease>, AcquireError>> {
    crowd(names("job", count), |name| {
        let mutex = quorum.mutex(name).ttl(LONG);
        async move { mutex.try_acquire().await }
    })
    .await
}

async fn take_all(quorum: &Client, count: usize) -> Vec<Lease> {
    crowd(names("job", count), |name| {
        let mutex = quorum.mutex(name).ttl(LONG);
        async move { mutex.acquire().await.unwrap() }
    })
    .await
}

async fn give_back(leases: Vec<Lease>) {
    let mut leases = leases.into_iter();
    crowd(names("", leases.len()), |_| {
        let lease = leases.next().unwrap();
        async move { lease.release().await.unwrap() }
    })
    .await;
}

fn sent(server: &Server) -> u64 {
    calls(server, "evalsha") + calls(server, "eval")
}

/// The first has the whole of a group's number, and its second number is larger than it and than all that nodes know.
#[tokio::test]
async fn a_crowd_leaves_in_a_few_calls_to_each_node_and_each_has_its_own_lease() {
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    let mut last = vec![None; 300];
    for _ in 0..3 {
        let leases = take_all(&quorum, 300).await;
        for (number, lease) in leases.iter().enumerate() {
            assert_eq!(lease.name().as_str(), format!("job{number}"));
            assert!(lease.fence() > last[number], "{:?}", lease.fence());
            last[number] = lease.fence();
            assert!(nodes.holding(&format!("job{number}")) >= 2);
        }
        give_back(leases).await;
        nodes.nothing_is_left().await;
    }
    for server in &nodes.0 {
        assert!(
            sent(server) < 300,
            "{} calls for 1800 requests",
            sent(server)
        );
    }
}

#[tokio::test]
async fn a_client_that_cannot_have_its_lock_leaves_nothing_behind_and_hinders_no_other() {
    let nodes = Nodes::start(3);
    for server in &nodes.0[..2] {
        server.cli(&["SET", "job7", "somebody", "PX", "60000"]);
    }
    nodes.0[2].cli(&["SET", "job8", "somebody", "PX", "60000"]);
    let quorum = nodes.quorum();
    let outcomes = crowd(names("job", 64), |name| {
        let mutex = quorum.mutex(name.as_str()).ttl(LONG);
        async move {
            if name == "job7" {
                return mutex.try_acquire().await.unwrap();
            }
            Some(soon(mutex.acquire()).await.unwrap())
        }
    })
    .await;
    assert!(outcomes[7].is_none(), "another holds it on a majority");
    let had: Vec<Lease> = outcomes.into_iter().flatten().collect();
    assert_eq!(had.len(), 63);
    let third = &nodes.0[2];
    eventually("its vote on the third was taken back", async || {
        third.cli(&["EXISTS", "job7"]).integer() == Some(0)
    })
    .await;
    give_back(had).await;
    for server in &nodes.0 {
        let others = |key: &String| key != "job7" && key != "job8";
        eventually("nothing of ours is left", async || {
            !leftovers(server).iter().any(others)
        })
        .await;
    }
}

#[tokio::test]
async fn of_a_crowd_that_wants_one_lock_one_has_it() {
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    let tasks = (0..40).map(|task| format!("job{}", task % 4));
    let outcomes = crowd(tasks, |name| {
        let mutex = quorum.mutex(name).ttl(LONG);
        async move { mutex.try_acquire().await }
    })
    .await;
    let had: Vec<Lease> = outcomes.into_iter().filter_map(Result::unwrap).collect();
    let mut names: Vec<&str> = had.iter().map(|lease| lease.name().as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["job0", "job1", "job2", "job3"]);
}

#[tokio::test]
async fn a_crowd_does_not_wait_for_the_dead() {
    let nodes = Nodes::start(5);
    let quorum = nodes.quorum();
    give_back(take_all(&quorum, 40).await).await;
    let frozen = nodes.0[1].pause();
    nodes.0[3].kill();
    let leases = soon(take_all(&quorum, 40)).await;
    soon(give_back(leases)).await;
    drop(frozen);
    nodes.0[3].restart();
    nodes.nothing_is_left().await;
}

#[tokio::test]
async fn without_a_majority_each_of_a_crowd_is_refused_with_the_votes_and_nothing_is_left() {
    let nodes = Nodes::start(3);
    let quorum = nodes.builder().node_timeout(millis(300)).open().unwrap();
    give_back(take_all(&quorum, 40).await).await;
    nodes.0[0].kill();
    nodes.0[2].kill();
    for outcome in soon(try_all(&quorum, 40)).await {
        let refusal = outcome.unwrap_err();
        let AcquireError::NoQuorum { votes, .. } = &refusal else {
            panic!("{refusal:?}")
        };
        assert_eq!(votes.len(), 3);
    }
    let there = &nodes.0[1];
    eventually("nothing is left", async || leftovers(there).is_empty()).await;
}

/// A client that connects asks what time it is there, so the first proposal is as good as any.
#[tokio::test]
async fn the_first_acquisition_of_a_client_needs_no_second_proposal() {
    let nodes = Nodes::start(3);
    let lease = nodes.quorum().mutex("job").acquire().await.unwrap();
    assert!(lease.fence().is_some());
    for server in &nodes.0 {
        eventually("it has voted and knows the client", async || {
            sent(server) == 2
        })
        .await;
        assert_eq!(calls(server, "get"), 0, "a second proposal reads the lock");
    }
}

#[tokio::test]
async fn leases_of_a_quorum_are_renewed_together_and_a_lost_one_loses_only_itself() {
    const COUNT: usize = 200;
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    let leases = crowd(names("job", COUNT), |name| {
        let mutex = quorum.mutex(name).ttl(Duration::from_secs(3));
        async move { mutex.acquire().await.unwrap() }
    })
    .await;
    let before: Vec<u64> = nodes.0.iter().map(sent).collect();
    let renewed = |rounds: u64| {
        let nodes = &nodes;
        eventually("they are renewed", async move || {
            let enough = |server: &Server| calls(server, "pexpire") >= rounds * COUNT as u64;
            nodes.0.iter().all(enough)
        })
    };
    renewed(1).await;
    for server in &nodes.0[1..] {
        let taken = server.cli(&["SET", "job7", "somebody", "XX"]);
        assert_eq!(taken, Value::Status("OK".into()));
    }
    soon(leases[7].lost()).await;
    renewed(3).await;
    let held = leases.iter().filter(|lease| lease.is_held()).count();
    assert_eq!(held, COUNT - 1);
    for (server, before) in nodes.0.iter().zip(before) {
        let (calls_made, renewals) = (sent(server) - before, calls(server, "pexpire"));
        assert!(
            calls_made * 10 < renewals,
            "{calls_made} calls for {renewals} renewals"
        );
    }
}
