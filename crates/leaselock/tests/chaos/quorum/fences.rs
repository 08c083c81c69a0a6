//! Every fencing token is larger than all before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaselock::Client;
use leaselock::options::Options;
use testkit::Server;

use crate::rounds;

const NODES: usize = 5;
/// Short, so that a node that restarts empty votes again while the test runs, and long against any pause of a grant.
const LONGEST: Duration = Duration::from_secs(2);
/// The longest pause of a node, and between two faults.
const FAULT: Duration = Duration::from_millis(150);

fn quorum(servers: &[Server]) -> Client {
    let builder = Client::builder()
        .urls(servers.iter().map(Server::url))
        .longest_ttl(LONGEST);
    let defaults = Options::default().ttl(Duration::from_secs(1));
    builder.defaults(defaults).open().unwrap()
}

/// One node after the other is frozen or restarts with nothing in it, never two at a time; a majority of those that are
/// old enough to vote is there most of the time.
fn flap(servers: &[Server], over: &AtomicBool) -> usize {
    let mut faults = 0;
    while !over.load(Ordering::SeqCst) {
        let node = &servers[faults % NODES];
        if faults % (4 * NODES) == 3 * NODES {
            node.restart();
        } else {
            let paused = node.pause();
            std::thread::sleep(FAULT); // the fault is that nothing happens
            drop(paused);
        }
        std::thread::sleep(FAULT); // and here that nothing is wrong
        faults += 1;
    }
    faults
}

/// Grants of one name follow each other, so a client that records its fence while it holds the lease records it in the order
/// of the grants.
#[test]
fn fences_are_strictly_increasing_while_nodes_freeze_and_restart_empty() {
    let wanted = rounds(300, 10_000);
    let servers: Vec<Server> = (0..NODES).map(|_| Server::start()).collect();
    let over = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let fences = std::thread::scope(|scope| {
        let flapping = {
            let (servers, over) = (&servers, Arc::clone(&over));
            scope.spawn(move || flap(servers, &over))
        };
        let fences = runtime.block_on(grants(&servers, wanted));
        over.store(true, Ordering::SeqCst);
        println!(
            "{} grants, {} faults",
            fences.len(),
            flapping.join().unwrap()
        );
        fences
    });
    let repeated = fences.windows(2).filter(|pair| pair[1] <= pair[0]).count();
    assert_eq!(repeated, 0, "{fences:?}");
}

async fn grants(servers: &[Server], wanted: usize) -> Vec<u64> {
    let fences = Arc::new(std::sync::Mutex::new(Vec::with_capacity(wanted)));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (mutex, fences) = (quorum(servers).mutex("job"), Arc::clone(&fences));
        tasks.spawn(async move {
            while fences.lock().unwrap().len() < wanted {
                let Ok(lease) = mutex.acquire_within(Duration::from_secs(10)).await else {
                    continue; // too many of the others started recently
                };
                if lease.is_held() {
                    fences.lock().unwrap().push(lease.fence().unwrap().get());
                }
                drop(lease.release().await); // a node may freeze meanwhile
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    Arc::try_unwrap(fences).unwrap().into_inner().unwrap()
}
