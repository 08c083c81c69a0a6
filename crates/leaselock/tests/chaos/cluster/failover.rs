//! Primaries die or hand over to their replicas while locks are held, waited for and taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaselock::{Client, Lease};
use testkit::history::Violation;
use testkit::{Cluster, Recorder, Server, clock, history};

use super::{Worker, until};
use crate::rounds;

const CLIENTS: usize = 8;
const TTL: Duration = Duration::from_secs(2);
/// A name on each of three nodes; the node of the first one fails over.
const NAMES: [&str; 3] = ["b", "c", "a"];

/// A lease that somebody keeps across all failovers, on the node that fails over.
struct Keeper {
    client: Client,
    name: String,
    lease: Option<Lease>,
}

impl Keeper {
    fn new(url: &str, number: usize) -> Self {
        let client = Client::connect(url).unwrap();
        let name = format!("{{{}}}kept{number}", NAMES[0]);
        Keeper {
            client,
            name,
            lease: None,
        }
    }

    async fn takes(&mut self) {
        if self.lease.is_none() {
            let mutex = self.client.mutex(&self.name).ttl(TTL);
            self.lease = Some(mutex.acquire_within(super::PATIENCE).await.unwrap());
        }
    }

    /// True when the lease was kept: the new primary knows it. Otherwise its holder was told, and how late.
    async fn is_kept(&mut self, promoted_at: Duration) -> Result<(), Duration> {
        let lease = self.lease.take().unwrap();
        loop {
            let (now, left) = (clock::now(), lease.remaining());
            // A renewal after the promotion has made it whole.
            if lease.is_held() && now + left > promoted_at + TTL {
                self.lease = Some(lease);
                return Ok(());
            }
            let end = now + left;
            let told = tokio::time::timeout(left / 4 + Duration::from_millis(1), lease.lost());
            if told.await.is_ok() {
                assert!(!lease.is_held());
                return Err(clock::now().saturating_sub(end));
            }
            if !lease.is_held() {
                // It is over by its own clock, so it is told without anybody's answer.
                until("the loss is told", async || {
                    tokio::time::timeout(Duration::ZERO, lease.lost())
                        .await
                        .is_ok()
                })
                .await;
                return Err(clock::now().saturating_sub(end));
            }
        }
    }
}

/// The primary is gone from one moment to the next, or hands over in peace.
fn fail_over(cluster: &Cluster, round: usize) -> (&Server, &Server) {
    let primary = cluster.owner_of(NAMES[0]);
    let replica = cluster.replica_of(primary);
    if round.is_multiple_of(2) {
        primary.kill();
        cluster.until_primary(replica);
    } else {
        cluster.fail_over(replica, "");
    }
    (primary, replica)
}

/// The old primary is back as a replica and has a copy.
fn heal(cluster: &Cluster, old: &Server, new: &Server, round: usize) {
    if round.is_multiple_of(2) {
        old.restart();
    }
    cluster.settle();
    let line = format!("master_port:{}\r", new.port());
    testkit::wait_until(super::PATIENCE, "the old primary follows", || {
        let info = old.try_cli(&["INFO", "replication"]);
        info.is_ok_and(|info| {
            let text = info.text().unwrap_or_default();
            text.contains(&line) && text.contains("master_link_status:up")
        })
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_kept_or_told_lost_and_clients_work_again_after_each_failover() {
    let builder = Cluster::builder().replicas(1);
    let cluster = builder.node_timeout(Duration::from_millis(500)).start();
    let (url, folder) = (cluster.url(), testkit::tempdir().unwrap());
    let path = folder.path().join("history");
    let recorder = Recorder::append(&path).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..CLIENTS)
        .map(|number| Worker::start(&url, NAMES[number % NAMES.len()], TTL, &recorder, &stop))
        .collect();
    let mut keepers: Vec<_> = (0..CLIENTS)
        .map(|number| Keeper::new(&url, number))
        .collect();
    let (mut kept, mut lost, mut latest) = (0, 0, Duration::ZERO);
    // After a death, and after a hand-over in peace.
    let mut slowest = [Duration::ZERO; 2];
    for round in 0..rounds(2, 20) {
        for keeper in &mut keepers {
            keeper.takes().await;
        }
        let (old, new) = fail_over(&cluster, round);
        let promoted_at = clock::now();
        let before: Vec<u64> = workers.iter().map(Worker::grants).collect();
        until("everybody works again", async || {
            let mut pairs = workers.iter().zip(&before);
            pairs.all(|(worker, before)| worker.grants() > *before)
        })
        .await;
        let slowest = &mut slowest[round % 2];
        *slowest = (*slowest).max(clock::now() - promoted_at);
        for keeper in &mut keepers {
            match keeper.is_kept(promoted_at).await {
                Ok(()) => kept += 1,
                Err(late) => {
                    lost += 1;
                    latest = latest.max(late);
                }
            }
        }
        heal(&cluster, old, new, round);
    }
    stop.store(true, Ordering::SeqCst);
    let mut grants = 0;
    for worker in workers {
        grants += worker.grants();
        worker.ends().await;
    }
    let events = history::read(&path).unwrap();
    let violations = history::check(&events).err().unwrap_or_default();
    let overlaps = violations
        .iter()
        .filter(|found| matches!(found, Violation::Overlap { .. }))
        .count();
    println!(
        "{grants} grants, {kept} leases kept, {lost} told lost ({latest:?} after their end at most), all work again \
         {slowest:?} after a promotion at most (by death, in peace), {overlaps} overlaps, {} violations",
        violations.len()
    );
    // Replication is asynchronous, so a grant may be forgotten with its primary; the record itself must be sound.
    let nonsense = |found: &&Violation| matches!(found, Violation::Nonsense { .. });
    assert_eq!(violations.iter().find(nonsense), None);
    assert!(kept + lost >= CLIENTS && grants > 100);
}
