//! Primaries die or hand over to their replicas while locks are held, waited for and taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaselock::{Client, Lease};
use testkit::history::Violation;
use testkit::{Cluster, Recorder, Server, clock, history};

use super::{PATIENCE, Worker, until};
use crate::figures::Figures;
use crate::{quarantine, rounds};

const CLIENTS: usize = 8;
const TTL: Duration = Duration::from_secs(2);
/// A node of which nothing was heard for so long is taken for dead; one that is cut off goes on granting for as long.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
/// What the users of strict mode agree on.
const LONGEST: Duration = TTL.saturating_add(NODE_TIMEOUT);
/// A name on each of three nodes; the node of the first one fails over.
const NAMES: [&str; 3] = ["b", "c", "a"];

/// A lease that a client keeps across all failovers, on the node that fails over.
struct Keeper {
    client: Client,
    name: String,
    lease: Option<Lease>,
}

impl Keeper {
    fn new(client: Client, number: usize) -> Self {
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
            self.lease = Some(mutex.acquire_within(PATIENCE).await.unwrap());
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
                // It is over by its own clock, so it is told without any server's answer.
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
    testkit::wait_until(PATIENCE, "the old primary follows", || {
        let info = old.try_cli(&["INFO", "replication"]);
        info.is_ok_and(|info| {
            let text = info.text().unwrap_or_default();
            text.contains(&line) && text.contains("master_link_status:up")
        })
    });
}

/// Those who take locks all the time, and those who keep one.
struct Stage {
    cluster: Cluster,
    strict: bool,
    /// Is granted a lock in the slot of the first name when others are too.
    probe: Client,
    workers: Vec<Worker>,
    keepers: Vec<Keeper>,
    seen: Seen,
}

/// What has come of the failovers.
#[derive(Default)]
struct Seen {
    kept: usize,
    lost: usize,
    /// How long after the end of a lease its holder was told at most.
    latest: Duration,
    /// Until all work again, after a death and after a hand-over in peace.
    again: [Figures; 2],
    /// Until those work again whose slot has failed over, each of them, counted from the end of the quarantine.
    after_quarantine: Figures,
}

impl Stage {
    async fn set(strict: bool, recorder: &Recorder, stop: &Arc<AtomicBool>) -> Stage {
        let builder = Cluster::builder().replicas(1).node_timeout(NODE_TIMEOUT);
        let cluster = builder.start();
        let client = || {
            let builder = Client::builder().url(&cluster.url());
            let builder = if strict {
                builder.strict(LONGEST)
            } else {
                builder
            };
            builder.open().unwrap()
        };
        let probe = client();
        if strict {
            probe.init_strict().await.unwrap();
        }
        let worker = |number| {
            let name = NAMES[number % NAMES.len()];
            Worker::start(client(), name, TTL, recorder, stop)
        };
        Stage {
            workers: (0..CLIENTS).map(worker).collect(),
            keepers: (0..CLIENTS)
                .map(|number| Keeper::new(client(), number))
                .collect(),
            probe,
            cluster,
            strict,
            seen: Seen::default(),
        }
    }

    async fn fails_over(&mut self, round: usize) {
        for keeper in &mut self.keepers {
            keeper.takes().await;
        }
        let (old, new) = fail_over(&self.cluster, round);
        let promoted_at = clock::now();
        for keeper in &mut self.keepers {
            match keeper.is_kept(promoted_at).await {
                Ok(()) => self.seen.kept += 1,
                Err(late) => {
                    self.seen.lost += 1;
                    self.seen.latest = self.seen.latest.max(late);
                }
            }
        }
        if self.strict {
            let name = format!("{{{}}}probe{round}", NAMES[0]);
            let met = quarantine::over(&self.probe, &name, TTL, PATIENCE).await;
            let concerned = self.workers.iter().filter(|worker| worker.name == NAMES[0]);
            let took = works_again(concerned, met.end).await;
            println!(
                "quarantines: {}, the last one over {:.1?} after the promotion; then locks of its slot were had after {took}",
                met.count,
                met.end - promoted_at
            );
            self.seen.after_quarantine.add_all(&took);
        }
        let took = works_again(self.workers.iter(), promoted_at).await;
        self.seen.again[round % 2].add(took.worst());
        heal(&self.cluster, old, new, round);
    }
}

/// How long after that moment each of them has had a lock.
async fn works_again<'a>(
    workers: impl Iterator<Item = &'a Worker> + Clone,
    moment: Duration,
) -> Figures {
    let since = || {
        workers
            .clone()
            .map(|worker| worker.grants.since(moment))
            .collect()
    };
    let mut took: Option<Figures> = None;
    until("everybody works again", async || {
        took = since();
        took.is_some()
    })
    .await;
    took.unwrap()
}

/// What the history says that must not be.
async fn failovers(strict: bool, rounds: usize) -> Vec<Violation> {
    let folder = testkit::tempdir().unwrap();
    let path = folder.path().join("history");
    let recorder = Recorder::append(&path).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut stage = Stage::set(strict, &recorder, &stop).await;
    for round in 0..rounds {
        stage.fails_over(round).await;
    }
    stop.store(true, Ordering::SeqCst);
    let mut grants = 0;
    for worker in stage.workers {
        grants += worker.grants();
        worker.ends().await;
    }
    let events = history::read(&path).unwrap();
    let violations = history::check(&events).err().unwrap_or_default();
    let overlap = |found: &&Violation| matches!(found, Violation::Overlap { .. });
    let Seen {
        kept,
        lost,
        latest,
        again: [dead, in_peace],
        after_quarantine,
    } = stage.seen;
    println!(
        "strict {strict}: {rounds} failovers, {grants} grants, {kept} leases kept, {lost} told lost ({latest:.1?} after \
         their end at most), {} overlaps, {} violations; all work again {dead} after a promotion by death, {in_peace} \
         after one in peace",
        violations.iter().filter(overlap).count(),
        violations.len()
    );
    if strict {
        println!(
            "from the end of the quarantine those of its slot work again after {after_quarantine}"
        );
    }
    assert!(kept + lost == CLIENTS * rounds && grants > 100);
    violations
}

/// Replication is asynchronous, so a grant may be forgotten with its primary; the record itself must be sound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_kept_or_told_lost_and_clients_work_again_after_each_failover() {
    let violations = failovers(false, rounds(2, 20)).await;
    let nonsense = |found: &&Violation| matches!(found, Violation::Nonsense { .. });
    assert_eq!(violations.iter().find(nonsense), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_strict_mode_no_two_hold_at_once_across_failovers() {
    assert_eq!(failovers(true, rounds(1, 20)).await, []);
}
