//! Latches and barriers on a server: what they cost, and many parties with timeouts.

use std::collections::{BTreeMap, BTreeSet};

use leaselock::Client;
use leaselock::barrier::{BarrierError, BarrierPass};
use testkit::Server;
use tokio::task::JoinSet;

use crate::support::{LONG, calls, channels, eventually, millis, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_opening_of_a_latch_costs_one_message_and_one_read_for_each_of_a_thousand_waiters() {
    const CLIENTS: usize = 10;
    const EACH: usize = 100;
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    client.latch("another", 1).state().await.unwrap(); // sends the script, so that each call is a read from here on
    server.cli(&["CONFIG", "RESETSTAT"]);
    let mut waiters = JoinSet::new();
    for _ in 0..CLIENTS {
        let client = Client::open(&server.url()).unwrap();
        for _ in 0..EACH {
            let latch = client.latch("deploy", 1);
            waiters.spawn(async move { latch.wait().await });
        }
    }
    eventually("all wait", async || {
        let reads = calls(&server, "evalsha");
        !channels(&server).is_empty() && reads >= CLIENTS * EACH
    })
    .await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    assert_eq!(client.latch("deploy", 1).arrive("last").await.unwrap(), 0);
    while let Some(waited) = soon(waiters.join_next()).await {
        waited.unwrap().unwrap();
    }
    assert_eq!(calls(&server, "publish"), 1);
    let reads = calls(&server, "evalsha");
    assert!(reads <= CLIENTS * EACH + 2, "{reads}"); // the arrival may have sent its script first
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_a_client_waits_until_its_parties_have_left() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let barrier = client.barrier("phase", 2).party_lease(LONG);
    let waits = tokio::spawn(async move { barrier.wait().await });
    let waiting = || {
        server
            .cli(&["ZCOUNT", "{phase}:ll:barrier", "0", "+inf"])
            .integer()
    };
    eventually("it has arrived", async || waiting() == Some(1)).await;
    waits.abort();
    drop(waits.await);
    let closed = client.close().await;
    assert_eq!((closed.released, closed.unconfirmed), (1, 0));
    assert_eq!(waiting(), Some(0));
}

/// Parties give up at any moment, also at that of the last arrival, and come back. One that has passed is one of exactly
/// as many as there are parties, each with an index of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_as_many_pass_a_generation_as_there_are_parties_whoever_gives_up() {
    const PARTIES: u32 = 8;
    const ROUNDS: u64 = 40;
    let server = Server::start();
    let mut tasks = JoinSet::new();
    // As many as there are parties, so that each must pass each generation.
    for party in 0..u64::from(PARTIES) {
        let client = Client::open(&server.url()).unwrap();
        tasks.spawn(async move {
            let barrier = client.barrier("phase", PARTIES).party_lease(LONG);
            let (mut passes, mut tries) = (Vec::<BarrierPass>::new(), 0);
            while u64::try_from(passes.len()).unwrap() < ROUNDS {
                tries += 1;
                let patience = match (party + tries) % 3 {
                    0 => LONG,
                    short => millis(3 * short),
                };
                match barrier.wait_within(patience).await {
                    Ok(pass) => passes.push(pass),
                    Err(BarrierError::TimedOut { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            passes
        });
    }
    let mut passed: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    while let Some(passes) = soon(tasks.join_next()).await {
        for pass in passes.unwrap() {
            assert!(
                passed
                    .entry(pass.generation)
                    .or_default()
                    .insert(pass.index)
            );
        }
    }
    let all: BTreeSet<u32> = (0..PARTIES).collect();
    assert_eq!(passed.len(), usize::try_from(ROUNDS).unwrap());
    assert!(passed.values().all(|indexes| *indexes == all));
    let left = server.cli(&["EXISTS", "{phase}:ll:barrier"]);
    assert_eq!(left.integer(), Some(0));
}

/// What lies there is no latch or barrier of ours: it is refused, and stays as it is.
#[tokio::test]
async fn another_type_under_the_keys_is_refused_and_left_alone() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    for key in ["{job}:ll:latch", "{job}:ll:passed"] {
        server.cli(&["SET", key, "something"]);
    }
    let refused = client.latch("job", 1).arrive("a").await.unwrap_err();
    let leaselock::latch::LatchError::Store { source, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!(source.kind(), leaselock::ErrorKind::WrongType, "{source}");
    let refused = client.barrier("job", 1).wait().await.unwrap_err();
    let BarrierError::Store { source, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!(source.kind(), leaselock::ErrorKind::WrongType, "{source}");
    for key in ["{job}:ll:latch", "{job}:ll:passed"] {
        assert_eq!(server.cli(&["GET", key]).text(), Some("something"));
    }
}
