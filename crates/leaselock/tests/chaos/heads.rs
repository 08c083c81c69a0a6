//! How long a lock lies idle behind waiters that are frozen: from the release to the next grant.

use std::time::Duration;

use leaselock::{Client, Mutex};
use testkit::{Child, Server, TempDir, clock, tempdir};
use tokio::task::JoinSet;

use crate::figures::Figures;
use crate::rounds;

const TTLS: [u64; 3] = [10, 30, 3_600];
/// Three heads would have to be frozen.
const MOST: Duration = Duration::from_secs(60);

/// What a process does that is to be frozen.
pub(crate) async fn waits(ttl_seconds: u64, urls: &[&str]) {
    let mutex = mutex(urls).ttl(Duration::from_secs(ttl_seconds));
    drop(mutex.acquire().await);
}

fn mutex(urls: &[&str]) -> Mutex {
    let client = match urls {
        [url] => Client::open(url),
        urls => {
            let hour = Duration::from_secs(3_600);
            let quorum = Client::builder()
                .urls(urls.iter().copied())
                .longest_ttl(hour);
            quorum.durable_nodes().open()
        }
    };
    client.unwrap().mutex("job")
}

fn waiter(store: &Store, ttl_seconds: u64) -> Child {
    let ttl = ttl_seconds.to_string();
    let words = [[ttl.as_str()].as_slice(), &store.urls()].concat();
    Child::start("waits behind a holder", &words)
}

struct Store {
    urls: Vec<String>,
    servers: Vec<Server>,
    _folder: Option<TempDir>,
}

impl Store {
    fn start(kind: &str) -> Store {
        let count = match kind {
            "redis" => 1,
            "quorum" => 3,
            _ => 0,
        };
        let servers: Vec<Server> = (0..count).map(|_| Server::start()).collect();
        let folder = servers.is_empty().then(|| tempdir().unwrap());
        let path = folder
            .iter()
            .map(|dir| format!("file://{}/locks", dir.path().display()));
        Store {
            urls: servers.iter().map(Server::url).chain(path).collect(),
            servers,
            _folder: folder,
        }
    }

    fn urls(&self) -> Vec<&str> {
        self.urls.iter().map(String::as_str).collect()
    }

    fn mutex(&self) -> Mutex {
        mutex(&self.urls())
    }

    /// Every server has the lease. A node of a quorum that has no vote of the holder votes for a waiter instead.
    async fn is_held(&self) {
        let has = |server: &Server| server.cli(&["EXISTS", "job"]).integer() == Some(1);
        while !self.servers.iter().all(has) {
            tokio::time::sleep(Duration::from_millis(10)).await; // between two checks
        }
    }

    /// So many wait for the lock, and can be told.
    async fn are_waiting(&self, count: usize) {
        let wanted = i64::try_from(count).unwrap();
        for _ in 0..2_000 {
            tokio::time::sleep(Duration::from_millis(10)).await; // between two checks
            let is_there = match &self.servers[..] {
                [] => {
                    Client::open(&self.urls[0])
                        .unwrap()
                        .inspect("job")
                        .await
                        .unwrap()
                        .queue
                        .len()
                        == count
                }
                [one] => one.cli(&["ZCARD", "{job}:ll:queue"]).integer() == Some(wanted),
                all => all.iter().all(|server| {
                    let asked = server.cli(&["ZCARD", "{job}:ll:callers"]).integer();
                    let heard = server.cli(&["PUBSUB", "CHANNELS", "*"]);
                    asked == Some(wanted) && heard.list().is_some_and(|all| all.len() == count)
                }),
            };
            if is_there {
                return;
            }
        }
        panic!("{count} do not wait");
    }
}

/// From the release until the waiter behind so many frozen ones has its lease, which it asked for at a time that has
/// nothing to do with the release.
async fn idle(kind: &str, frozen: usize, ttl: u64, round: usize) -> Duration {
    let store = Store::start(kind);
    let ttl_of = |mutex: Mutex| mutex.ttl(Duration::from_secs(ttl));
    let lease = ttl_of(store.mutex()).acquire().await.unwrap();
    store.is_held().await;
    let mut heads = Vec::new();
    for count in 1..=frozen {
        heads.push(waiter(&store, ttl));
        store.are_waiting(count).await;
    }
    let next = ttl_of(store.mutex());
    let next = tokio::spawn(async move { next.acquire().await });
    store.are_waiting(frozen + 1).await;
    let phase = u64::try_from(round).unwrap() * 1_300 + 500;
    tokio::time::sleep(Duration::from_millis(phase)).await; // the polls so far had their own time
    heads.iter().for_each(Child::stop);
    let released = clock::now();
    lease.release().await.unwrap();
    let lease = tokio::time::timeout(MOST, next)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let idle = clock::now() - released;
    drop(heads);
    drop(lease);
    idle
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_heads_cost_five_seconds_each() {
    let rounds = rounds(1, 4);
    for frozen in [1, 2] {
        for kind in ["redis", "quorum", "folder"] {
            let mut all = Vec::new();
            // One after the other: more processes at once would be a load that nothing can be measured under.
            for round in 0..rounds {
                let mut tasks = JoinSet::new();
                for ttl in TTLS {
                    tasks.spawn(async move { (ttl, idle(kind, frozen, ttl, round).await) });
                }
                all.extend(tasks.join_all().await);
            }
            for ttl in TTLS {
                let mut idle = Figures::default();
                let those = all.iter().filter(|one| one.0 == ttl);
                those.for_each(|one| idle.add(one.1));
                println!("{kind}, {frozen} frozen, ttl {ttl} s: {idle}");
                let bound = Duration::from_secs(8) * u32::try_from(frozen).unwrap();
                assert!(idle.worst() < bound, "{idle}");
            }
        }
    }
}
