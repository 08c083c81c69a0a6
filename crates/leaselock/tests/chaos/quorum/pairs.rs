//! Whichever two of five nodes are gone: what a lock then costs, beside what it costs when all are there.

use std::time::Duration;

use leaselock::{Client, ClientBuilder};
use testkit::server::Paused;
use testkit::{Proxy, Server, Way, clock};

use super::{PATIENCE, soon};
use crate::figures::Figures;
use crate::rounds;

const NODES: usize = 5;
/// A lease that does not end by itself while the test checks it.
const TTL: Duration = Duration::from_secs(60);
/// What a quorum has that was not told otherwise; the figures are those of such a one.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);
/// Longer than any test here waits: a client that waits for a node that is gone is found out.
const FOR_EVER: Duration = Duration::from_secs(30);
const _: () = assert!(FOR_EVER.as_secs() > PATIENCE.as_secs());

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// No server listens on its port.
    Killed,
    /// It takes connections and requests, and answers nothing.
    Frozen,
    /// Nothing arrives there and nothing comes back, not even the end of a connection.
    CutOff,
}

/// Five nodes; behind a proxy each, where they are to be cut off.
struct Stage {
    fault: Fault,
    servers: Vec<Server>,
    proxies: Vec<Proxy>,
}

impl Stage {
    fn set(fault: Fault) -> Stage {
        let servers: Vec<Server> = (0..NODES).map(|_| Server::start()).collect();
        let behind: &[Server] = if fault == Fault::CutOff {
            &servers
        } else {
            &[]
        };
        let proxies = behind
            .iter()
            .map(|server| Proxy::to(server.port()))
            .collect();
        Stage {
            fault,
            servers,
            proxies,
        }
    }

    /// These servers are young, and keep what they know as far as this scenario goes.
    fn builder(&self) -> ClientBuilder {
        let urls: Vec<String> = if self.fault == Fault::CutOff {
            self.proxies.iter().map(Proxy::url).collect()
        } else {
            self.servers.iter().map(Server::url).collect()
        };
        Client::builder().urls(urls).durable_nodes()
    }

    /// Waits for a node that is gone until it is found out.
    fn patient(&self) -> Client {
        let builder = self.builder().node_timeout(FOR_EVER);
        builder.request_timeout(FOR_EVER).open().unwrap()
    }

    fn strike(&self, node: usize) -> Option<Paused<'_>> {
        match self.fault {
            Fault::Killed => self.servers[node].kill(),
            Fault::Frozen => return Some(self.servers[node].pause()),
            Fault::CutOff => self.proxies[node].set(Way::Both, testkit::Fault::HalfOpen),
        }
        None
    }

    fn heal(&self, node: usize) {
        match self.fault {
            Fault::Killed => self.servers[node].restart(),
            Fault::Frozen => self.servers[node].resume(),
            Fault::CutOff => self.proxies[node].heal(),
        }
    }

    /// Takes a lock until every node has voted, so that each is connected and knows the scripts.
    async fn warm(&self, quorum: &Client, name: &str) {
        let holds = |server: &Server| server.cli(&["EXISTS", name]).integer() == Some(1);
        let end = clock::now() + PATIENCE;
        loop {
            let lease = soon(quorum.mutex(name).ttl(TTL).acquire()).await.unwrap();
            soon(lease.extend(TTL)).await.unwrap();
            let all = self.servers.iter().all(holds);
            soon(lease.release()).await.unwrap();
            if all {
                return;
            }
            assert!(clock::now() < end, "not all nodes vote");
        }
    }
}

/// What each step of a lock took.
#[derive(Default)]
struct Life {
    acquire: Figures,
    extend: Figures,
    release: Figures,
}

impl Life {
    async fn lives(&mut self, quorum: &Client, name: &str, times: usize) {
        let mutex = quorum.mutex(name).ttl(TTL);
        for _ in 0..times {
            let lease = self.acquire.time(soon(mutex.acquire())).await.unwrap();
            self.extend.time(soon(lease.extend(TTL))).await.unwrap();
            assert!(lease.is_held());
            self.release.time(soon(lease.release())).await.unwrap();
        }
    }

    fn add_all(&mut self, other: &Life) {
        self.acquire.add_all(&other.acquire);
        self.extend.add_all(&other.extend);
        self.release.add_all(&other.release);
    }

    fn steps(&self) -> [(&str, &Figures); 3] {
        [
            ("acquire", &self.acquire),
            ("extend", &self.extend),
            ("release", &self.release),
        ]
    }

    fn row(&self, what: &str) -> String {
        let Life {
            acquire,
            extend,
            release,
        } = self;
        format!("{what:<18} {acquire:<30} {extend:<30} {release:<30}")
    }
}

fn pairs() -> impl Iterator<Item = [usize; 2]> {
    (0..NODES).flat_map(|one| (one + 1..NODES).map(move |two| [one, two]))
}

/// Every step is done without the two by a client that was there before, and by one that comes when they are gone.
async fn each_pair_in_turn(fault: Fault, times: usize) {
    let stage = Stage::set(fault);
    let (mut healthy, mut gone) = (Life::default(), Life::default());
    let mut slowest = Duration::ZERO;
    println!(
        "{:<18} {:<30} {:<30} {:<30}",
        "", "acquire", "extend", "release"
    );
    for pair in pairs() {
        let name = format!("job-{pair:?}");
        let (usual, patient) = (stage.builder().open().unwrap(), stage.patient());
        stage.warm(&usual, &name).await;
        stage.warm(&patient, &name).await;
        healthy.lives(&usual, &name, times).await;

        let frozen = pair.map(|node| stage.strike(node));
        let mut now = Life::default();
        now.lives(&usual, &name, times).await;
        // Who had waited for one of the two would wait for it still.
        Life::default().lives(&patient, &name, 1).await;
        let mut fresh = Life::default();
        fresh.lives(&stage.patient(), &name, 1).await;
        slowest = slowest.max(fresh.acquire.worst());
        drop(frozen);
        pair.into_iter().for_each(|node| stage.heal(node));

        println!("{}", now.row(&format!("{fault:?} {pair:?}")));
        gone.add_all(&now);
    }
    println!("{}", healthy.row("all there"));
    println!("{}", gone.row(&format!("{fault:?}, any two")));
    for ((step, healthy), (_, gone)) in healthy.steps().into_iter().zip(gone.steps()) {
        let bound = 2 * healthy.median() + NODE_TIMEOUT;
        let percent = (100 * gone.worst().as_micros()).div_ceil(bound.as_micros());
        println!(
            "{fault:?}: {step} {:.1?} at worst, which is {percent} % of {bound:.1?}: twice {:.1?} and one node time-out",
            gone.worst(),
            healthy.median()
        );
    }
    println!("{fault:?}: the first lock of a client that came afterwards {slowest:.1?} at worst\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_pair_of_five_is_killed_frozen_or_cut_off_nobody_waits_for_it() {
    let times = rounds(1, 10);
    for fault in [Fault::Killed, Fault::Frozen, Fault::CutOff] {
        each_pair_in_turn(fault, times).await;
    }
}
