//! Many who want the same lock at once, and those that wait for it.

use std::sync::Arc;

use leaselock::{Client, Wait};
use tokio::sync::Barrier;

use super::Nodes;
use crate::support::{LONG, calls, channels, eventually, millis, soon};

const CONTENDERS: usize = 20;

/// Every contender asks at the same moment, in a process of its own as far as the servers can tell. One that has the lock
/// keeps it, so each round that was made was made before there was a winner, or found it held.
async fn one_wins(nodes: &Nodes, most_rounds: usize) {
    let quorum = |_| nodes.builder().node_timeout(millis(500)).open().unwrap();
    let quorums: Vec<Client> = (0..CONTENDERS).map(quorum).collect();
    for quorum in &quorums {
        let warm = quorum.mutex("warm").acquire().await.unwrap();
        warm.release().await.unwrap();
    }
    nodes.0[0].cli(&["CONFIG", "RESETSTAT"]);
    let start = Arc::new(Barrier::new(CONTENDERS));
    let mut tasks = tokio::task::JoinSet::new();
    for quorum in &quorums {
        let (mutex, start) = (quorum.mutex("job").ttl(LONG), Arc::clone(&start));
        tasks.spawn(async move {
            start.wait().await;
            mutex.acquire().await
        });
    }
    let winner = soon(tasks.join_next()).await.unwrap().unwrap().unwrap();
    let until_then = calls(&nodes.0[0], "evalsha");
    // A round of all is so many votes, and as many that are taken back at most.
    let rounds = until_then.div_ceil(2 * CONTENDERS);
    println!(
        "{} nodes: {until_then} calls of one node before there was a winner, {rounds} rounds of all",
        nodes.0.len()
    );
    assert!(rounds <= most_rounds, "{until_then} calls");
    assert!(winner.is_held());
    winner.release().await.unwrap();
    let next = soon(tasks.join_next()).await.unwrap().unwrap().unwrap();
    drop(next);
    tasks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn votes_that_are_split_between_twenty_end_with_one_winner_in_a_few_rounds() {
    one_wins(&Nodes::start(5), 4).await;
    one_wins(&Nodes::start(3), 4).await;
    let four = Nodes::start(5);
    let _frozen = four.0[4].pause(); // two and two is no majority
    one_wins(&four, 10).await;
}

/// A waiter polls by timer after five seconds at the earliest, and the release comes before that.
#[tokio::test]
async fn a_release_wakes_a_waiter_and_not_a_crowd() {
    let nodes = Nodes::start(3);
    let holder = nodes.quorum();
    let lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    nodes.all_have_voted().await; // a node that is free votes for a waiter, and has no client to tell
    let waiting: Vec<Client> = (0..8).map(|_| nodes.quorum()).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for quorum in &waiting {
        let mutex = quorum.mutex("job").ttl(LONG);
        tasks.spawn(async move { mutex.acquire().await });
    }
    let asks = |server: &testkit::Server| server.cli(&["ZCARD", "{job}:ll:callers"]).integer();
    eventually("all ask to be told", async || {
        nodes.0.iter().all(|server| asks(server) == Some(8))
    })
    .await;
    eventually("all listen on every node", async || {
        nodes.0.iter().all(|server| channels(server).len() == 8)
    })
    .await;
    // A client that begins to listen on another node votes once more, and takes back what came late.
    nodes.stand_still().await;
    for server in &nodes.0 {
        server.cli(&["CONFIG", "RESETSTAT"]);
    }
    lease.release().await.unwrap();
    let next = crate::support::by_message(tasks.join_next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let told = nodes.0.iter().map(|server| calls(server, "publish")).max();
    assert_eq!(told, Some(1), "a node tells one waiter");
    let busiest = nodes.0.iter().map(|server| calls(server, "evalsha")).max();
    println!("a hand-over to one of 8 waiters: {busiest:?} calls of the busiest node");
    assert!(
        busiest < Some(16),
        "{busiest:?}: each of eight has voted and taken it back"
    );
    drop(next);
    for _ in 0..3 {
        let next = soon(tasks.join_next()).await.unwrap().unwrap().unwrap();
        next.release().await.unwrap();
    }
    tasks.shutdown().await;
    nodes.nothing_is_left().await;
}

#[tokio::test]
async fn a_waiter_that_is_woken_by_a_release_and_goes_away_leaves_it_to_the_next() {
    let nodes = Nodes::start(3);
    let (holder, gone, next) = (nodes.quorum(), nodes.quorum(), nodes.quorum());
    let lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    let asks = async |fits: fn(i64) -> bool| {
        eventually("so many ask to be told", async || {
            let asks = |server: &testkit::Server| server.cli(&["ZCARD", "{job}:ll:callers"]);
            let asked = nodes.0.iter().map(|server| asks(server).integer());
            asked.flatten().filter(|count| fits(*count)).count() == 3
        })
        .await;
    };
    let mutex = gone.mutex("job").ttl(LONG);
    let mut goes = Box::pin(mutex.acquire());
    tokio::select! {
        _ = &mut goes => panic!("it is held"),
        () = asks(|count| count == 1) => {}
    }
    let mutex = next.mutex("job").ttl(LONG);
    let waits = tokio::spawn(async move { mutex.acquire().await });
    asks(|count| count == 2).await;
    // A node tells only whom it sees listening.
    eventually("all listen on every node", async || {
        let listening = |server: &testkit::Server| {
            let channels = server.cli(&["PUBSUB", "CHANNELS", "ll:wake:*"]);
            channels.list().unwrap().len()
        };
        nodes.0.iter().all(|server| listening(server) >= 2)
    })
    .await;
    lease.release().await.unwrap();
    // The first was told, and no task drives it any more. The other one may poll just then by itself, and has it.
    asks(|count| count <= 1).await;
    drop(goes);
    let next = crate::support::by_message(waits).await.unwrap().unwrap();
    next.release().await.unwrap();
    nodes.nothing_is_left().await;
}

#[tokio::test]
async fn tasks_of_one_client_vote_one_at_a_time() {
    let nodes = Nodes::start(3);
    let (holder, quorum) = (nodes.quorum(), nodes.quorum());
    let lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mutex = quorum.mutex("job").ttl(LONG);
        tasks.spawn(async move { mutex.acquire().await.unwrap().release().await });
    }
    let asks = || nodes.0[0].cli(&["ZCARD", "{job}:ll:callers"]).integer();
    eventually("one of them asks to be told", async || asks() == Some(1)).await;
    assert!(calls(&nodes.0[0], "evalsha") < 50);
    lease.release().await.unwrap();
    while let Some(done) = soon(tasks.join_next()).await {
        done.unwrap().unwrap();
    }
    nodes.nothing_is_left().await;
}

#[tokio::test]
async fn a_lease_that_nobody_gives_back_is_had_when_it_ends() {
    let nodes = Nodes::start(3);
    let (one, two) = (nodes.quorum(), nodes.quorum());
    let lease = one
        .mutex("job")
        .ttl(millis(800))
        .renewal(false)
        .acquire()
        .await
        .unwrap();
    let deadline = lease.deadline();
    let next = soon(two.mutex("job").acquire()).await.unwrap();
    assert!(leaselock::clock::Clock::boot().now() >= deadline);
    assert!(!lease.is_held() && next.fence() > lease.fence());
}

#[tokio::test]
async fn a_client_that_retries_or_goes_away_leaves_no_vote_behind() {
    let nodes = Nodes::start(3);
    let (one, two) = (nodes.quorum(), nodes.quorum());
    nodes.0[0].cli(&["SET", "job", "theirs", "PX", "60000"]);
    nodes.0[1].cli(&["SET", "job", "theirs", "PX", "60000"]);
    let few = two.mutex("job").wait(Wait::retries(2));
    assert!(soon(few.acquire()).await.is_err());
    eventually("what was granted is back", async || {
        nodes.holding("job") == 2
    })
    .await;
    let mutex = one.mutex("job");
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    let asks = || nodes.0[0].cli(&["ZCARD", "{job}:ll:callers"]).integer();
    eventually("it asks to be told", async || asks() == Some(1)).await;
    waiting.abort();
    eventually("it does not ask any more", async || asks() == Some(0)).await;
    for server in &nodes.0[..2] {
        server.cli(&["DEL", "job"]);
    }
    nodes.nothing_is_left().await;
}
