//! A counter whose clients lose their connections again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use leaselock::Client;
use leaselock::counter::{Counter, CounterError};
use testkit::{Cut, Fault, Proxy, Server, Way, wait_until};
use tokio::task::JoinSet;

use crate::rounds;

const CLIENTS: usize = 4;
const CUTS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(20);

/// What the tasks of all clients have in common.
#[derive(Default)]
struct Shared {
    /// Changes that surely count.
    counted: AtomicUsize,
    /// Changes that surely do not.
    refused: AtomicUsize,
    cuts: AtomicUsize,
    is_over: AtomicBool,
}

/// The connection of each client ends before a request, behind it, and within a reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_counts_once_through_replies_that_are_lost_and_connections_that_are_cut() {
    let (wanted, of_each_client) = (rounds(500, 1_000_000), rounds(4, 128));
    let server = Server::start();
    let shared = Arc::<Shared>::default();
    let (mut tasks, mut faults) = (JoinSet::new(), JoinSet::new());
    for number in 0..CLIENTS {
        let proxy = Proxy::to(server.port());
        let client = Client::builder().url(&proxy.url());
        let client = client.request_timeout(Duration::from_millis(300));
        let visits = client.open().unwrap().counter("visits");
        for task in 0..of_each_client {
            let value = [1, -1, 10][task % 3];
            tasks.spawn(changes(visits.clone(), value, Arc::clone(&shared)));
        }
        let shared = Arc::clone(&shared);
        faults.spawn_blocking(move || cuts(proxy, number, wanted, &shared));
    }
    let proxies = faults.join_all().await;
    shared.is_over.store(true, Ordering::SeqCst);
    let sum: i64 = tasks.join_all().await.into_iter().sum();
    drop(proxies);
    let visits = Client::open(&server.url()).unwrap().counter("visits");
    assert_eq!(visits.get().await.unwrap(), sum);
    let of = |number: &AtomicUsize| number.load(Ordering::SeqCst);
    let (counted, refused) = (of(&shared.counted), of(&shared.refused));
    let cuts = of(&shared.cuts);
    println!("{counted} changes counted, {refused} not, {cuts} connections cut; the sum is exact");
}

/// Cuts the connections of one client until there were enough changes of all.
fn cuts(proxy: Proxy, number: usize, wanted: usize, shared: &Shared) -> Proxy {
    let mut cut = 0;
    while cut < CUTS || shared.counted.load(Ordering::SeqCst) < wanted {
        let how = [Cut::Reset, Cut::Close][cut % 2];
        let way = [Way::ToClient, Way::ToServer, Way::ToClient][(cut + number) % 3];
        let connections = proxy.connections();
        let bytes = [0, 0, 7, 200][cut % 4];
        let mut polls = 0;
        wait_until(PATIENCE, "the client connects again", || {
            // Once more now and then: the cut may have met a connection that the client does not need any more.
            if polls % 100 == 0 {
                proxy.set(way, Fault::CutAfter { bytes, how });
            }
            polls += 1;
            proxy.connections() > connections
        });
        cut += 1;
    }
    shared.cuts.fetch_add(cut, Ordering::SeqCst);
    proxy
}

/// What one task has added.
async fn changes(visits: Counter, value: i64, shared: Arc<Shared>) -> i64 {
    let mut added = 0;
    while !shared.is_over.load(Ordering::SeqCst) {
        if counts(visits.add(value).await).await {
            added += value;
            shared.counted.fetch_add(1, Ordering::SeqCst);
        } else {
            shared.refused.fetch_add(1, Ordering::SeqCst);
        }
    }
    assert!(added != 0, "none of its changes counted");
    added
}

async fn counts(mut outcome: Result<i64, CounterError>) -> bool {
    loop {
        outcome = match outcome {
            Ok(_) => return true,
            Err(CounterError::Unknown(unknown)) => unknown.resolve().await,
            Err(CounterError::Store { .. }) => return false,
            Err(error) => panic!("{error}"),
        }
    }
}
