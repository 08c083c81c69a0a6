//! Slots go back and forth between nodes while their locks are taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaselock::Client;
use testkit::{Cluster, Recorder, history};

use super::{Worker, until};
use crate::rounds;

/// Longer than any move.
const TTL: Duration = Duration::from_secs(10);
/// The locks of two slots, each wanted by several.
const NAMES: [&str; 4] = ["{b}1", "{b}2", "{c}1", "{c}2"];
const WORKERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_back_and_forth_cost_nobody_an_error_and_no_lock_two_holders() {
    let cluster = Cluster::start();
    let (url, folder) = (cluster.url(), testkit::tempdir().unwrap());
    let path = folder.path().join("history");
    let recorder = Recorder::append(&path).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let client = Client::open(&url).unwrap();
            Worker::start(client, NAMES[number % NAMES.len()], TTL, &recorder, &stop)
        })
        .collect();
    let slots = ["b", "c"].map(|key| cluster.slot(key));
    let moves = rounds(20, 300);
    for turn in 0..moves {
        let before: Vec<usize> = workers.iter().map(Worker::grants).collect();
        let slot = slots[turn % slots.len()];
        let owner = cluster.owner(slot).port();
        let nodes = cluster.nodes();
        let place = nodes.iter().position(|node| node.port() == owner).unwrap();
        cluster.move_slot(slot, &nodes[(place + 1) % nodes.len()]);
        until("everybody goes on", async || {
            let mut pairs = workers.iter().zip(&before);
            pairs.all(|(worker, before)| worker.grants() > *before)
        })
        .await;
    }
    stop.store(true, Ordering::SeqCst);
    let mut errors = Vec::new();
    for worker in workers {
        errors.extend(worker.ends().await);
    }
    let events = history::read(&path).unwrap();
    let summary = history::check(&events).unwrap_or_else(|violations| {
        let shown: Vec<String> = violations.iter().take(5).map(ToString::to_string).collect();
        panic!("{} violations: {shown:#?}", violations.len())
    });
    println!("{moves} moves, {summary:?}, {errors:?}");
    assert_eq!(errors, [""; 0]);
    assert!(
        summary.grants >= moves * WORKERS && summary.contended > 0,
        "{summary:?}"
    );
}
