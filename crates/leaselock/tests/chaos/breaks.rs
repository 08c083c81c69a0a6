//! Leases that an operator breaks under load. A witness knows who works, and until when its lease lasts: no worker begins
//! before the one before it has stopped, or its lease has ended. Freed at once, a lock has two that work.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaselock::clock::Clock;
use leaselock::error::BreakError;
use leaselock::inspect::BreakOptions;
use leaselock::{Client, Fence, LeaseView, LostReason, Wait};
use testkit::{Server, clock};

use crate::figures::Figures;
use crate::rounds;

const NAMES: usize = 4;
const WORKERS: usize = 4;
const TTL: Duration = Duration::from_millis(600);
/// Most leases are broken before their work is done.
const WORK: Duration = Duration::from_secs(1);
/// The one of so many that never releases, as a frozen process.
const SILENT: usize = 3;

/// What the witness knows of one name.
#[derive(Debug, Default)]
struct Witness {
    /// With the id of its client.
    present: Option<(String, LeaseView)>,
    /// Of each fencing token, why its lease was lost; `None`: its work was done.
    ended: HashMap<Fence, Option<LostReason>>,
    overlaps: usize,
    told: Figures,
    served: Figures,
    broken_at: Option<Duration>,
}

impl Witness {
    fn begins(&mut self, client: &str, lease: LeaseView) {
        let before = self.present.replace((client.to_owned(), lease));
        let lasts = before.is_some_and(|(_, other)| Clock::boot().now() < other.deadline());
        self.overlaps += usize::from(lasts);
        if let Some(at) = self.broken_at.take() {
            self.served.add(clock::now() - at);
        }
    }

    fn stops(&mut self, fence: Fence, why: Option<LostReason>) {
        self.ended.insert(fence, why);
        if let Some(at) = self.broken_at.filter(|_| why == Some(LostReason::Broken)) {
            self.told.add(clock::now() - at);
        }
        self.present
            .take_if(|(_, lease)| lease.fence() == Some(fence));
    }
}

struct Site {
    name: String,
    over: AtomicBool,
    witness: Mutex<Witness>,
}

impl Site {
    async fn works(self: Arc<Self>, client: Client, is_silent: bool) {
        let mutex = client.mutex(&self.name).ttl(TTL).wait(Wait::Forever);
        while !self.over.load(Ordering::SeqCst) {
            let lease = mutex.acquire().await.unwrap();
            let (fence, view) = (lease.fence().unwrap(), lease.view());
            self.witness
                .lock()
                .unwrap()
                .begins(client.id(), view.into());
            let work = lease.lost().within(WORK);
            let lost = work.await.map(|lost| lost.reason);
            self.witness.lock().unwrap().stops(fence, lost);
            match lost {
                Some(_) if is_silent => std::mem::forget(lease),
                _ => drop(lease.release().await), // or it has ended
            }
        }
    }

    /// Breaks so many grants, each once, and returns those that the witness knew.
    async fn breaks(&self, client: &Client, count: usize, terms: BreakOptions) -> Vec<Fence> {
        let (mut broken, mut done) = (Vec::new(), 0);
        while done < count {
            // At any moment of a lease.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..30))).await;
            let seen = client.inspect(&self.name).await.unwrap();
            let Some(holder) = seen.state.exclusive().filter(|holder| !holder.broken) else {
                continue;
            };
            let at = clock::now();
            let seen = terms.clone().only(holder.fence.unwrap());
            match client.break_lease(&self.name, seen).await {
                Ok(outcome) => {
                    done += 1;
                    let mut witness = self.witness.lock().unwrap();
                    let whose = outcome.process.unwrap().client;
                    let present = witness.present.as_ref();
                    let Some((_, lease)) = present.filter(|(client, _)| *client == whose) else {
                        continue; // it has not begun, or has ended meanwhile
                    };
                    broken.push(lease.fence().unwrap());
                    witness.broken_at = Some(at);
                }
                Err(BreakError::Mismatch { .. } | BreakError::NotHeld { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        broken
    }
}

/// How many worked while the lease of the one before them lasted.
async fn overlaps(terms: BreakOptions, breaks: usize) -> usize {
    let server = Server::start();
    let client = || Client::open(&server.url()).unwrap();
    let (mut overlaps, mut told, mut served) = (0, Figures::default(), Figures::default());
    let mut sites = Vec::new();
    for number in 0..NAMES {
        let site = Arc::new(Site {
            name: format!("job-{number}"),
            over: AtomicBool::new(false),
            witness: Mutex::default(),
        });
        let works = |worker| tokio::spawn(Arc::clone(&site).works(client(), worker % SILENT == 2));
        let workers: Vec<_> = (0..WORKERS).map(works).collect();
        let (operator, operates) = (client(), Arc::clone(&site));
        let its = terms.clone();
        let broken = async move {
            operates
                .breaks(&operator, breaks.div_ceil(NAMES), its)
                .await
        };
        sites.push((site, workers, tokio::spawn(broken)));
    }
    let mut done = Vec::new();
    for (site, workers, broken) in sites {
        done.push((Arc::clone(&site), workers, broken.await.unwrap()));
        site.over.store(true, Ordering::SeqCst);
    }
    for (site, workers, broken) in done {
        for worker in workers {
            worker.await.unwrap();
        }
        let witness = site.witness.lock().unwrap();
        for fence in &broken {
            let ended = witness.ended.get(fence);
            let is_told = matches!(ended, Some(None | Some(LostReason::Broken)));
            // Of a lock that was freed at once, the next one's lease says so.
            let is_gone = matches!(
                ended,
                Some(Some(LostReason::TakenOver | LostReason::KeyMissing))
            );
            assert!(is_told || terms.at_once && is_gone, "{fence}: {ended:?}");
        }
        overlaps += witness.overlaps;
        told.add_all(&witness.told);
        served.add_all(&witness.served);
    }
    println!(
        "{terms:?}: {breaks} breaks, {overlaps} overlaps; told after {:?} (median), {:?} at most; \
        the next served after {:?}, {:?} at most",
        told.median(),
        told.worst(),
        served.median(),
        served.worst()
    );
    overlaps
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_broken_ends_before_the_next_begins_and_its_holder_is_told() {
    assert_eq!(
        overlaps(BreakOptions::default(), rounds(80, 1_000)).await,
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_freed_at_once_has_two_that_work() {
    let seen = overlaps(BreakOptions::default().now(), rounds(80, 1_000)).await;
    assert!(seen > 0);
}
