//! What a task does: anything, at random.

use std::future::Future;
use std::time::Duration;

use fastrand::Rng;
use leaselock::inspect::BreakOptions;
use leaselock::lease::{Mode, Upgradable};
use leaselock::{Client, Lease, Mutex, RwLock, Semaphore};

/// Of strict mode.
pub(super) const LONGEST: Duration = Duration::from_millis(1_500);
const TTLS_MS: [u64; 8] = [30, 200, 300, 400, 400, 600, 600, 1_500];

pub(super) struct Work {
    client: Client,
    names: u64,
    rng: Rng,
}

/// The same options for each kind: some leases are short, and end by themselves.
macro_rules! with_options {
    ($work:ident, $lock:expr) => {{
        let ttl = TTLS_MS[$work.rng.usize(..8)];
        let priority = [0, 0, 0, 0, 1, -1][$work.rng.usize(..6)];
        $lock
            .ttl(Duration::from_millis(ttl))
            .renewal(ttl > 100 && $work.rng.u64(..4) > 0)
            .priority(priority)
            .fencing($work.rng.u64(..8) > 0)
    }};
}

impl Work {
    pub(super) fn new(client: Client, names: u64, rng: Rng) -> Work {
        Work { client, names, rng }
    }

    /// What is refused, lost or too late is part of it.
    pub(super) async fn goes_on(mut self) {
        loop {
            match self.rng.u64(..100) {
                0..24 => self.alone().await,
                24..40 => self.reads().await,
                40..60 => self.goes_up_and_down().await,
                60..80 => self.permits().await,
                80..86 => self.several().await,
                86..90 => self.owns().await,
                90..96 => self.own_name().await,
                96..99 => self.operates().await,
                _ => tokio::time::sleep(Duration::from_millis(self.rng.u64(..5))).await, // others go on
            }
        }
    }

    fn name(&mut self) -> String {
        format!("w{}", self.rng.u64(..self.names))
    }

    fn mutex(&mut self) -> Mutex {
        let name = self.name();
        let mutex = self.client.mutex(name);
        with_options!(self, mutex)
    }

    fn rwlock(&mut self) -> RwLock {
        let name = self.name();
        let lock = self.client.rwlock(name);
        with_options!(self, lock)
    }

    fn pool(&mut self) -> Semaphore {
        // Now and then a worker believes in another number.
        let permits = if self.rng.u64(..12) == 0 { 3 } else { 5 };
        let name = self.name();
        let pool = self.client.semaphore(name, permits);
        with_options!(self, pool)
    }

    /// How long a wait is, mostly; the shortest is none.
    fn limit(&mut self) -> Duration {
        let most = [1, 40, 300, 300, 3_000][self.rng.usize(..5)];
        Duration::from_millis(self.rng.u64(..most))
    }

    /// Waits so long, and now and then is dropped before.
    async fn waits<T, E>(&mut self, acquisition: impl Future<Output = Result<T, E>>) -> Option<T> {
        let limit = if self.rng.u64(..5) == 0 {
            Duration::from_millis(self.rng.u64(..30))
        } else {
            Duration::from_secs(5)
        };
        tokio::time::timeout(limit, acquisition).await.ok()?.ok()
    }

    /// The work under a lock; now and then it is longer than the lease.
    async fn holds(&mut self) {
        match self.rng.u64(..1_000) {
            0 => tokio::time::sleep(LONGEST + LONGEST / 4).await, // longer than each ttl
            1..5 => tokio::time::sleep(Duration::from_millis(self.rng.u64(..60))).await, // the work
            5..120 => tokio::time::sleep(Duration::from_millis(self.rng.u64(..3))).await, // the work
            _ => tokio::task::yield_now().await,
        }
    }

    async fn ends<M: Mode>(&mut self, lease: Lease<M>) {
        if self.rng.u64(..6) == 0 {
            drop(lease.extend(Duration::from_millis(400)).await);
        }
        if self.rng.u64(..6) == 0 {
            drop(lease);
        } else {
            drop(lease.release().await);
        }
    }

    async fn uses<M: Mode>(&mut self, lease: Lease<M>) {
        self.holds().await;
        self.ends(lease).await;
    }

    async fn alone(&mut self) {
        let (mutex, limit) = (self.mutex(), self.limit());
        let lease = self.waits(mutex.acquire_within(limit)).await;
        let Some(lease) = lease else { return };
        self.holds().await;
        if self.rng.u64(..3) == 0 {
            self.goes_down(lease).await;
        } else {
            self.ends(lease).await;
        }
    }

    async fn reads(&mut self) {
        let (lock, limit) = (self.rwlock(), self.limit());
        if let Some(reading) = self.waits(lock.read_within(limit)).await {
            self.uses(reading).await;
        }
    }

    async fn goes_up_and_down(&mut self) {
        let (lock, limit) = (self.rwlock(), self.limit());
        let Some(up) = self.waits(lock.upgradable_read_within(limit)).await else {
            return;
        };
        self.holds().await;
        let limit = Duration::from_millis(self.rng.u64(..60));
        let upgraded = match self.rng.u64(..4) {
            0 => return self.ends(up).await,
            1 => up.try_upgrade().await,
            2 => up.upgrade_within(limit).await,
            // The wait may be dropped, at any moment.
            _ => match tokio::time::timeout(limit, up.upgrade()).await {
                Ok(upgraded) => upgraded,
                Err(_) => return,
            },
        };
        match upgraded {
            Ok(lease) => {
                self.holds().await;
                self.goes_down(lease).await;
            }
            Err(kept) => self.reads_on(kept.lease).await,
        }
    }

    async fn reads_on(&mut self, up: Lease<Upgradable>) {
        self.holds().await;
        if self.rng.bool() {
            self.ends(up).await;
        } else if let Ok(reading) = up.downgrade().await {
            self.uses(reading).await;
        }
    }

    async fn goes_down(&mut self, lease: Lease) {
        let lock = self.client.rwlock(lease.name().to_string());
        let lock = with_options!(self, lock);
        if self.rng.bool() {
            if let Ok(reading) = lock.downgrade(lease).await {
                self.uses(reading).await;
            }
        } else if let Ok(up) = lock.downgrade_to_upgradable(lease).await {
            self.reads_on(up).await;
        }
    }

    async fn permits(&mut self) {
        let (pool, limit) = (self.pool(), self.limit());
        let count = 1 + self.rng.u32(..5);
        if let Some(permit) = self.waits(pool.acquire_many_within(count, limit)).await {
            self.uses(permit).await;
        }
    }

    /// One name that all want, and others: what is free is granted by one request.
    async fn several(&mut self) {
        let (mutex, limit) = (self.mutex(), self.limit());
        let free = |rng: &mut Rng| format!("free-{}", rng.u64(..40));
        let lock = if self.rng.bool() {
            let first = free(&mut self.rng);
            let first = self.client.mutex(first).ttl(LONGEST);
            first.along_with([format!("{}-too", free(&mut self.rng))])
        } else {
            mutex.along_with([self.name(), free(&mut self.rng)])
        };
        if let Some(lease) = self.waits(lock.acquire_within(limit)).await {
            self.holds().await;
            drop(lease.release().await);
        }
    }

    /// An owner that holds one name and wants another, as many others do: circles are found and broken.
    async fn owns(&mut self) {
        let me = self.client.owner("a task");
        let (first, second) = (self.mutex().owner(&me), self.rwlock().owner(&me));
        let limit = self.limit();
        let Some(outer) = self.waits(first.acquire_within(limit)).await else {
            return;
        };
        if let Some(inner) = self.waits(second.read_within(limit)).await {
            self.uses(inner).await;
        }
        self.ends(outer).await;
    }

    /// A name that few want, so that tasks at the same time are served by one request.
    async fn own_name(&mut self) {
        for _ in 0..4 {
            let name = format!("free-{}", self.rng.u64(..400));
            let mutex = self.client.mutex(name).ttl(Duration::from_millis(400));
            if let Ok(Some(lease)) = mutex.try_acquire().await {
                drop(lease.release().await);
            }
        }
    }

    async fn operates(&mut self) {
        let pool = self.pool();
        match self.rng.u64(..3) {
            0 => drop(pool.set_permits(4).await),
            1 => drop(pool.unset_permits().await),
            _ => {
                let name = self.name();
                let mut terms = BreakOptions::default();
                if self.rng.bool() {
                    terms = terms.now();
                }
                drop(self.client.break_lease(&name, terms).await);
            }
        }
    }
}
