//! leaselock with its defaults, but for what the name says.

use leaselock::{AnyClient, Client, Mutex, Quorum};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Contender, Hold, Kind, Lock, Setup, Turn, held, text};
use crate::clock::now_ns;

pub struct Leaselock {
    client: AnyClient,
    fencing: bool,
}

impl Contender for Leaselock {
    type Lock = LeaselockLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let client = match setup.urls.as_slice() {
            [url] => Client::connect(url).map(AnyClient::from),
            // The servers have just been started, and nobody had a lease on them before.
            urls => Quorum::builder(urls)
                .delayed_restart(false)
                .build()
                .map(AnyClient::from),
        };
        let client = client.map_err(text)?;
        let fencing = setup.kind != Kind::LeaselockUnfenced;
        Ok(Leaselock { client, fencing })
    }

    fn lock(&self, name: &str) -> LeaselockLock {
        let queued_ns = Arc::new(AtomicU64::new(0));
        let first_poll = queued_ns.clone();
        // Called at every poll; the first one counts.
        let stamp = move |_: &leaselock::options::Waiting| {
            first_poll
                .compare_exchange(0, now_ns(), Ordering::Relaxed, Ordering::Relaxed)
                .ok();
        };
        let mutex = self.client.mutex(name);
        let mutex = mutex.fencing(self.fencing).on_wait(stamp);
        LeaselockLock { mutex, queued_ns }
    }
}

pub struct LeaselockLock {
    mutex: Mutex,
    queued_ns: Arc<AtomicU64>,
}

impl Lock for LeaselockLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        self.queued_ns.store(0, Ordering::Relaxed);
        let lease = self.mutex.acquire().await.map_err(text)?;
        let turn = held(hold.clone()).await;
        lease.release().await.map_err(text)?;
        let queued_ns = self.queued_ns.load(Ordering::Relaxed);
        Ok(Turn { queued_ns, ..turn })
    }
}
