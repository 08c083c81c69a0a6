//! Writers, readers and permits of one name through a bad network: what is held at the same time, by the holders' own
//! clocks.
//!
//! A conflict is two leases that both say at one moment that they are held, and do not fit beside each other. Requests
//! are cut off, held back and delivered late or twice.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use leaselock::lease::{Mode, Upgradable};
use leaselock::{AcquireError, Client, Lease, LeaseView};
use testkit::{Cut, Fault, Proxy, Server, Way, clock};
use tokio::task::JoinSet;

use crate::rounds;

const CLIENTS: usize = 8;
const PERMITS: u32 = 4;
const TTL: Duration = Duration::from_millis(400);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Read,
    /// Reads, and may become a writer.
    Upgradable,
    Permits(u32),
}

/// The leases that their holders use.
#[derive(Default)]
struct Ledger {
    used: Vec<(u64, Kind, LeaseView)>,
    conflicts: Vec<String>,
}

impl Ledger {
    fn enter(&mut self, id: u64, kind: Kind, lease: LeaseView) {
        let others: Vec<_> = self
            .used
            .iter()
            .filter(|(.., view)| view.is_held())
            .collect();
        // Last, so that all of them were held before this moment and this one is still.
        if !lease.is_held() {
            return;
        }
        let kinds: Vec<Kind> = others.iter().map(|(_, kind, _)| *kind).collect();
        let fits = match kind {
            Kind::Write => kinds.is_empty(),
            Kind::Read => {
                let reads = |other: &Kind| matches!(other, Kind::Read | Kind::Upgradable);
                kinds.iter().all(reads)
            }
            Kind::Upgradable => kinds.iter().all(|other| *other == Kind::Read),
            Kind::Permits(count) => {
                let weight = |other: &Kind| match other {
                    Kind::Permits(count) => *count,
                    Kind::Write | Kind::Read | Kind::Upgradable => PERMITS + 1,
                };
                count + kinds.iter().map(weight).sum::<u32>() <= PERMITS
            }
        };
        if !fits {
            self.conflicts.push(format!("{kind:?} beside {kinds:?}"));
        }
        self.used.push((id, kind, lease));
    }

    fn leave(&mut self, id: u64) {
        self.used.retain(|(used, ..)| *used != id);
    }
}

const WAIT: Duration = Duration::from_secs(2);

async fn acquire(client: &Client, kind: Kind) -> Result<Lease<()>, AcquireError> {
    match kind {
        Kind::Upgradable => panic!("acquired by the task that upgrades it"),
        Kind::Write => {
            let mutex = client.mutex("job").ttl(TTL);
            mutex.acquire_within(WAIT).await.map(Lease::from)
        }
        Kind::Read => {
            let lock = client.rwlock("job").ttl(TTL);
            lock.read_within(WAIT).await.map(Lease::from)
        }
        Kind::Permits(count) => {
            let pool = client.semaphore("job", PERMITS).ttl(TTL);
            pool.acquire_many_within(count, WAIT).await.map(Lease::from)
        }
    }
}

async fn works(
    client: Client,
    rng: Rng,
    ledger: Arc<Mutex<Ledger>>,
    done: Arc<AtomicU64>,
    end: Duration,
) {
    let mut worker = Worker { ledger, done, rng };
    while clock::now() < end {
        let kind = match worker.rng.u64(..7) {
            0 => Kind::Write,
            1 | 2 => Kind::Read,
            3 | 4 => Kind::Upgradable,
            count => Kind::Permits(u32::try_from(count - 4).unwrap()),
        };
        if kind == Kind::Upgradable {
            let lock = client.rwlock("job").ttl(TTL);
            if let Ok(up) = lock.upgradable_read_within(WAIT).await {
                worker.goes_up_and_down(&client, up).await;
            }
            continue;
        }
        if kind == Kind::Write && worker.rng.bool() {
            let mutex = client.mutex("job").ttl(TTL);
            if let Ok(lease) = mutex.acquire_within(WAIT).await {
                worker.uses(kind, lease.view()).await;
                worker.goes_down(&client, lease).await;
            }
            continue;
        }
        let Ok(lease) = acquire(&client, kind).await else {
            continue; // busy, or the network is bad
        };
        worker.uses(kind, lease.view()).await;
        worker.ends(lease).await;
    }
}

struct Worker {
    ledger: Arc<Mutex<Ledger>>,
    done: Arc<AtomicU64>,
    rng: Rng,
}

impl Worker {
    fn enters(&self, kind: Kind, lease: impl Into<LeaseView>) -> u64 {
        let id = self.done.fetch_add(1, Ordering::SeqCst);
        self.ledger.lock().unwrap().enter(id, kind, lease.into());
        id
    }

    fn leaves(&self, id: u64) {
        self.ledger.lock().unwrap().leave(id);
    }

    async fn works(&mut self) {
        let pause = Duration::from_millis(self.rng.u64(..4));
        if self.rng.u64(..200) == 0 {
            tokio::time::sleep(TTL + TTL).await; // the work takes long: renewals go through the network too
        } else {
            tokio::time::sleep(pause).await; // the work
        }
    }

    async fn uses(&mut self, kind: Kind, lease: impl Into<LeaseView>) {
        let id = self.enters(kind, lease);
        self.works().await;
        self.leaves(id);
    }

    async fn ends<M: Mode>(&mut self, lease: Lease<M>) {
        match self.rng.u64(..4) {
            0 => drop(lease),
            _ => drop(lease.release().await),
        }
    }

    /// It reads while it waits, so no other client may write then.
    async fn goes_up_and_down(&mut self, client: &Client, up: Lease<Upgradable>) {
        let id = self.enters(Kind::Upgradable, up.view());
        self.works().await;
        let limit = Duration::from_millis(self.rng.u64(..100));
        let upgraded = match self.rng.u64(..3) {
            0 => up.try_upgrade().await,
            1 => up.upgrade_within(limit).await,
            _ => {
                // The wait may be dropped, at any moment.
                let upgrade = tokio::time::timeout(limit, up.upgrade());
                let Ok(upgraded) = upgrade.await else {
                    return self.leaves(id);
                };
                upgraded
            }
        };
        match upgraded {
            Ok(lease) => {
                self.uses(Kind::Write, lease.view()).await;
                self.leaves(id);
                self.goes_down(client, lease).await;
            }
            Err(kept) => {
                self.works().await;
                self.leaves(id);
                self.ends(kept.lease).await;
            }
        }
    }

    /// It writes no more when it asks, and reads once it is granted.
    async fn goes_down(&mut self, client: &Client, lease: Lease) {
        let lock = client.rwlock("job").ttl(TTL);
        if self.rng.bool() {
            if let Ok(reading) = lock.downgrade(lease).await {
                self.uses(Kind::Read, reading.view()).await;
                self.ends(reading).await;
            }
        } else if let Ok(up) = lock.downgrade_to_upgradable(lease).await {
            self.uses(Kind::Upgradable, up.view()).await;
            if let Ok(reading) = up.downgrade().await {
                self.uses(Kind::Read, reading.view()).await;
            }
        }
    }
}

async fn spoils(proxies: Arc<Vec<Proxy>>, mut rng: Rng, end: Duration) {
    while clock::now() < end {
        let at = rng.usize(..CLIENTS);
        let way = [Way::ToServer, Way::ToClient][rng.usize(..2)];
        let proxy = &proxies[at];
        match rng.u64(..7) {
            0 => proxy.cut(Cut::Reset),
            1 => proxy.cut(Cut::Close),
            2 => proxy.set(way, Fault::Hold),
            3 => proxy.set(way, Fault::Delay(Duration::from_millis(rng.u64(..30)))),
            4 => proxy.set(Way::ToServer, Fault::Duplicate),
            5 => proxy.set(way, Fault::HalfOpen),
            _ => proxy.heal(),
        }
        tokio::time::sleep(Duration::from_millis(rng.u64(..60))).await; // how long it is so
        if rng.u64(..8) > 0 {
            proxy.heal();
            tokio::time::sleep(Duration::from_millis(rng.u64(..120))).await; // how long all is well
        }
    }
    proxies.iter().for_each(Proxy::heal);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_does_not_fit_is_held_at_the_same_time() {
    for round in 0..rounds(1, 20) {
        let server = Server::start();
        let proxies: Vec<_> = (0..CLIENTS).map(|_| Proxy::to(server.port())).collect();
        let proxies = Arc::new(proxies);
        let (ledger, done) = (Arc::<Mutex<Ledger>>::default(), Arc::<AtomicU64>::default());
        let end = clock::now() + Duration::from_secs(6);
        let seed = round as u64 + 1;
        let mut tasks = JoinSet::new();
        for (number, proxy) in (100..).zip(proxies.iter()) {
            let client = Client::open(&proxy.url()).unwrap();
            let rng = Rng::with_seed(seed * 1_000 + number);
            tasks.spawn(works(
                client,
                rng,
                Arc::clone(&ledger),
                Arc::clone(&done),
                end,
            ));
        }
        tasks.spawn(spoils(Arc::clone(&proxies), Rng::with_seed(seed), end));
        tasks.join_all().await;
        let conflicts = std::mem::take(&mut ledger.lock().unwrap().conflicts);
        assert_eq!(conflicts, [""; 0], "round {round}");
        let done = done.load(Ordering::SeqCst);
        assert!(done > 0);
        println!("round {round}: {done} leases of {CLIENTS} clients, no conflict");
        // Nothing stays behind: what was cut off ends by its ttl, or is cleaned up before.
        let client = Client::open(&server.url()).unwrap();
        let last = client
            .mutex("job")
            .acquire_within(Duration::from_secs(20))
            .await
            .unwrap();
        last.release().await.unwrap();
    }
}
