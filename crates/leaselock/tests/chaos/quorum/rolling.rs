//! A lease that is held while every node restarts without its data, again and again, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use leaselock::options::Options;
use leaselock::{Client, Lease};
use testkit::Server;

use super::soon;
use crate::figures::Figures;
use crate::rounds;

const CONTENDERS: usize = 4;
/// So long does a node that came up empty stay out of votes.
const LONGEST: Duration = Duration::from_secs(2);

fn quorum(servers: &[Server]) -> Client {
    let builder = Client::builder()
        .urls(servers.iter().map(Server::url))
        .longest_ttl(LONGEST);
    builder
        .defaults(Options::default().ttl(LONGEST))
        .open()
        .unwrap()
}

/// What others have had meanwhile.
#[derive(Default)]
struct Others {
    over: AtomicBool,
    /// The lock that is held all the time. No other client may have it.
    held: AtomicUsize,
    /// One of their own.
    free: AtomicUsize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_held_while_all_nodes_restart_empty_in_turn_and_nobody_else_has_it() {
    for nodes in [3, 5] {
        let servers: Vec<Server> = (0..nodes).map(|_| Server::start()).collect();
        let holder = quorum(&servers);
        let lease = soon(holder.mutex("held").acquire()).await.unwrap();
        let others = Arc::new(Others::default());
        let contenders: Vec<_> = (0..CONTENDERS)
            .map(|_| tokio::spawn(contend(quorum(&servers), Arc::clone(&others))))
            .collect();
        let vote = unanimous(&servers).await;
        let mut back = Figures::default();
        let restarts = nodes * rounds(1, 6);
        for round in 0..restarts {
            has_it_back(&servers[round % nodes], &vote, &mut back).await;
            assert!(lease.is_held(), "{round}: {:?}", lease.state());
        }
        let free = others.free.load(Ordering::SeqCst);
        println!(
            "{nodes} nodes, {restarts} restarts: held all the time; the vote was back after {back}; others had {free} \
             leases of another lock"
        );
        assert_eq!(others.held.load(Ordering::SeqCst), 0);
        assert!(free > 0);
        ends(lease, &others).await;
        for contender in contenders {
            contender.await.unwrap();
        }
    }
}

/// Whose vote it has given for the lock.
fn voted(server: &Server) -> Option<String> {
    server.cli(&["GET", "held"]).text().map(str::to_owned)
}

/// Fails rather than waits for ever.
async fn until(condition: impl Fn() -> bool) {
    soon(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await; // between two checks of the condition
        }
    })
    .await;
}

/// The vote that all have given.
async fn unanimous(servers: &[Server]) -> String {
    let is_unanimous = || {
        let first = voted(&servers[0]);
        first.is_some() && servers.iter().all(|server| voted(server) == first)
    };
    until(is_unanimous).await;
    voted(&servers[0]).unwrap()
}

async fn has_it_back(server: &Server, vote: &str, back: &mut Figures) {
    server.restart();
    back.time(until(|| voted(server).as_deref() == Some(vote)))
        .await;
}

/// It can be had by others then, so they had a chance all the time.
async fn ends(lease: Lease, others: &Others) {
    lease.release().await.unwrap();
    until(|| others.held.load(Ordering::SeqCst) > 0).await;
    others.over.store(true, Ordering::SeqCst);
}

async fn contend(quorum: Client, others: Arc<Others>) {
    while !others.over.load(Ordering::SeqCst) {
        for (name, had) in [("held", &others.held), ("free", &others.free)] {
            let mutex = quorum.mutex(name);
            // Refused while too many nodes are young.
            if let Ok(lease) = mutex.acquire_within(Duration::from_millis(50)).await {
                had.fetch_add(1, Ordering::SeqCst);
                drop(lease.release().await);
            }
        }
    }
}
