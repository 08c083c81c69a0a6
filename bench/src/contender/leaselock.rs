//! leaselock with its defaults, but for what the name says.

use leaselock::counter::Counter;
use leaselock::election::Election;
use leaselock::limiter::{Limiter, Rate};
use leaselock::multilock::MultiLock;
use leaselock::once::Once;
use leaselock::{Client, Mutex, RwLock, Semaphore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::want::{Draw, fresh, names};
use super::{Contender, Hold, Kind, Lock, Setup, Turn, Want, held, text};
use crate::clock::now_ns;

pub struct Leaselock {
    client: Client,
    /// What a quorum does not have.
    one: Option<Client>,
    fencing: bool,
}

impl Contender for Leaselock {
    type Lock = LeaselockLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let (client, one) = match setup.urls.as_slice() {
            [url] => {
                let client = Client::open(url).map_err(text)?;
                (client.clone(), Some(client))
            }
            // The servers have just been started, and no client had a lease on them before.
            urls => {
                let quorum = Client::builder().urls(urls).durable_nodes().open();
                (quorum.map_err(text)?, None)
            }
        };
        let fencing = setup.kind != Kind::LeaselockUnfenced;
        Ok(Leaselock {
            client,
            one,
            fencing,
        })
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
        LeaselockLock {
            wish: Wish::Mutex(mutex),
            queued_ns,
        }
    }

    fn wanting(&self, name: &str, want: Want) -> Option<LeaselockLock> {
        if want == Want::Mutex {
            return Some(self.lock(name));
        }
        let one = self.one.as_ref()?;
        let wish = match want {
            Want::Mutex => return None, // returned above
            Want::Read => Wish::Read(one.rwlock(name)),
            Want::Write => Wish::Write(one.rwlock(name)),
            Want::Permits { take, of } => Wish::Permits(one.semaphore(name, of), take),
            Want::Several { names: count } => {
                let mut names = names(name, count);
                let first = one.mutex(names.remove(0));
                Wish::Several(first.along_with(names))
            }
            Want::Transfer { of } => Wish::Transfer(one.clone(), names(name, of), Draw::new()),
            Want::Lead => Wish::Lead(one.election(name).value("a leader")),
            Want::Rate(rate) => {
                let period = Duration::from_secs(rate.seconds.into());
                let rate = Rate::new(rate.permits, period).burst(rate.burst);
                Wish::Rate(one.limiter(name, rate))
            }
            Want::Count => Wish::Count(one.counter(name)),
            Want::Run => Wish::Run(one.clone(), name.to_owned()),
            Want::Told => Wish::Told(one.once(name)),
        };
        let queued_ns = Arc::default();
        Some(LeaselockLock { wish, queued_ns })
    }
}

pub struct LeaselockLock {
    wish: Wish,
    queued_ns: Arc<AtomicU64>,
}

enum Wish {
    Mutex(Mutex),
    Read(RwLock),
    Write(RwLock),
    Permits(Semaphore, u32),
    Several(MultiLock),
    Transfer(Client, Vec<String>, Draw),
    Lead(Election),
    Rate(Limiter),
    Count(Counter),
    Run(Client, String),
    Told(Once),
}

/// The result of work that takes no time.
async fn run(once: &Once) -> Result<Turn, String> {
    let ran = once.run(async |_| Ok::<_, String>("done")).await;
    ran.map(|_| Turn::ended(0)).map_err(text)
}

/// Waits for a grant, keeps it for a while and gives it back.
macro_rules! turn {
    ($grant:expr, $hold:expr) => {{
        let granted = $grant.await.map_err(text)?;
        let turn = held($hold.clone()).await;
        granted.release().await.map_err(text)?;
        turn
    }};
}

impl Lock for LeaselockLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        self.queued_ns.store(0, Ordering::Relaxed);
        let turn = match &mut self.wish {
            Wish::Mutex(mutex) => turn!(mutex.acquire(), hold),
            Wish::Read(lock) => turn!(lock.read(), hold),
            Wish::Write(lock) => turn!(lock.write(), hold),
            Wish::Permits(semaphore, take) => turn!(semaphore.acquire_many(*take), hold),
            Wish::Several(names) => turn!(names.acquire(), hold),
            Wish::Transfer(client, names, draw) => {
                let (from, to) = draw.two_of(names.len());
                let both = client.mutex(&names[from]).along_with([&names[to]]);
                let mark = 1 << from | 1 << to;
                let turn = turn!(both.acquire(), hold);
                Turn { mark, ..turn }
            }
            Wish::Lead(election) => {
                let leadership = election.campaign().await.map_err(text)?;
                let mark = leadership.term().get();
                let turn = held(hold.clone()).await;
                leadership.release().await.map_err(text)?;
                Turn { mark, ..turn }
            }
            Wish::Rate(limiter) => {
                let decision = limiter.try_acquire().await.map_err(text)?;
                Turn::ended(u64::from(decision.is_allowed()))
            }
            Wish::Count(counter) => {
                counter.incr().await.map_err(text)?;
                Turn::ended(0)
            }
            Wish::Run(client, name) => run(&client.once(fresh(name))).await?,
            Wish::Told(once) => run(once).await?,
        };
        let queued_ns = self.queued_ns.load(Ordering::Relaxed);
        Ok(Turn { queued_ns, ..turn })
    }
}
