//! Votes that are split as badly as they can be, with many who want the same lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leaselock::{Client, Lease, Mutex};
use testkit::{Fault, Proxy, Server, Way, clock, wait_until};
use tokio::task::JoinSet;

use super::{PATIENCE, soon};
use crate::figures::Figures;
use crate::rounds;

const CONTENDERS: usize = 20;
/// A vote that does not end by itself meanwhile.
const TTL: Duration = Duration::from_secs(60);

/// Which of the first contenders have which nodes; nodes that no contender has are frozen.
struct Split {
    name: &'static str,
    nodes: usize,
    shares: &'static [&'static [usize]],
}

const SPLITS: [Split; 2] = [
    Split {
        name: "1-1-1",
        nodes: 3,
        shares: &[&[0], &[1], &[2]],
    },
    Split {
        name: "2-2",
        nodes: 5,
        shares: &[&[0, 1], &[2, 3]],
    },
];

/// The first contenders reach each node through a proxy of their own, so that a vote can be kept from it for a moment.
struct Stage {
    split: &'static Split,
    servers: Vec<Server>,
    /// By contender and node.
    proxies: Vec<Vec<Proxy>>,
    quorums: Vec<Client>,
}

impl Stage {
    async fn set(split: &'static Split) -> Stage {
        let servers: Vec<Server> = (0..split.nodes).map(|_| Server::start()).collect();
        let to_each = || {
            servers
                .iter()
                .map(|server| Proxy::to(server.port()))
                .collect()
        };
        let proxies: Vec<Vec<Proxy>> = split.shares.iter().map(|_| to_each()).collect();
        let quorum = |contender: usize| {
            let urls: Vec<String> = match proxies.get(contender) {
                Some(proxies) => proxies.iter().map(Proxy::url).collect(),
                None => servers.iter().map(Server::url).collect(),
            };
            Client::builder().urls(urls).durable_nodes().open().unwrap()
        };
        let quorums: Vec<Client> = (0..CONTENDERS).map(quorum).collect();
        for quorum in &quorums {
            let warm = soon(quorum.mutex("warm").acquire()).await.unwrap();
            warm.release().await.unwrap();
        }
        Stage {
            split,
            servers,
            proxies,
            quorums,
        }
    }

    /// Votes of a contender reach its share alone until this is over.
    fn hold_back(&self) {
        for (proxies, share) in self.proxies.iter().zip(self.split.shares) {
            let others = proxies
                .iter()
                .enumerate()
                .filter(|(node, _)| !share.contains(node));
            others.for_each(|(_, proxy)| proxy.set(Way::ToServer, Fault::Hold));
        }
    }

    fn let_through(&self) {
        self.proxies.iter().flatten().for_each(Proxy::heal);
    }

    /// Who has the vote of each node that is there; a secret of theirs.
    fn votes(&self, name: &str) -> Option<Vec<String>> {
        let shared = self.split.shares.iter().copied().flatten();
        let vote = |node: &usize| Some(self.servers[*node].cli(&["GET", name]).text()?.to_owned());
        shared.map(vote).collect()
    }

    /// Every node has voted, and each share is in a hand of its own.
    fn is_split(&self, name: &str) -> bool {
        let Some(mut votes) = self.votes(name) else {
            return false;
        };
        votes.sort_unstable();
        votes.dedup();
        votes.len() == self.split.shares.len()
    }
}

/// Contenders for one lock.
struct Contest {
    tasks: JoinSet<(usize, Lease)>,
    /// Rounds in vain, by contender.
    lost: Arc<[AtomicUsize]>,
}

impl Contest {
    fn new() -> Contest {
        let lost = (0..CONTENDERS).map(|_| AtomicUsize::new(0)).collect();
        Contest {
            tasks: JoinSet::new(),
            lost,
        }
    }

    fn joins(&mut self, contender: usize, mutex: Mutex) {
        let lost = Arc::clone(&self.lost);
        let mutex = mutex.ttl(TTL).on_wait(move |_| {
            lost[contender].fetch_add(1, Ordering::SeqCst);
        });
        self.tasks
            .spawn(async move { (contender, mutex.acquire().await.unwrap()) });
    }

    fn lost_rounds(&self) -> usize {
        self.lost
            .iter()
            .map(|lost| lost.load(Ordering::SeqCst))
            .sum()
    }
}

/// The rounds that the winner made, the split one among them, those that all made from when all could vote, and how long
/// that took.
async fn one_wins(stage: &Stage, name: &str) -> (usize, usize, Duration) {
    let mut contest = Contest::new();
    let mutex = |contender: usize| stage.quorums[contender].mutex(name);
    let first = stage.split.shares.len();
    stage.hold_back();
    (0..first).for_each(|contender| contest.joins(contender, mutex(contender)));
    wait_until(PATIENCE, "the votes are split", || stage.is_split(name));
    (first..CONTENDERS).for_each(|contender| contest.joins(contender, mutex(contender)));
    let before = contest.lost_rounds();
    stage.let_through();
    let begin = clock::now();
    let (winner, lease) = soon(contest.tasks.join_next()).await.unwrap().unwrap();
    let took = clock::now() - begin;
    let rounds = contest.lost[winner].load(Ordering::SeqCst) + 1;
    let of_all = contest.lost_rounds() - before + 1;
    assert!(lease.is_held());
    assert!(
        contest.tasks.try_join_next().is_none(),
        "a second one has it too"
    );
    contest.tasks.shutdown().await;
    soon(lease.release()).await.unwrap();
    (rounds, of_all, took)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_on_split_votes_end_with_one_winner() {
    let times = rounds(1, 10);
    for split in &SPLITS {
        let stage = Stage::set(split).await;
        let shared: usize = split.shares.iter().map(|share| share.len()).sum();
        let _frozen: Vec<_> = stage.servers[shared..].iter().map(Server::pause).collect();
        let (mut rounds, mut of_all, mut took) = (Vec::new(), Vec::new(), Figures::default());
        for time in 0..times {
            let contest = one_wins(&stage, &format!("job-{time}")).await;
            rounds.push(contest.0);
            of_all.push(contest.1);
            took.add(contest.2);
        }
        rounds.sort_unstable();
        of_all.sort_unstable();
        println!(
            "{CONTENDERS} contenders on votes that are split {}: the winner made {rounds:?} rounds, all together \
             {of_all:?}; {took} to the lease",
            split.name
        );
    }
}
