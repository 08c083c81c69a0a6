//! How soon the next leader leads, and a thousand failovers of elections in strict mode.

use std::collections::BTreeSet;
use std::time::Duration;

use leaselock::Client;
use testkit::history::{self, What};
use testkit::{Recorder, Server, clock, wait_until};

use crate::figures::Figures;
use crate::place::Place;
use crate::rounds;

const LONG: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest ttl of the strict clients: so long no leader follows a failover.
const LONGEST: Duration = Duration::from_secs(1);
/// The failovers of one name.
const CHAIN: usize = 20;
/// Chains mostly wait.
const AT_ONCE: usize = 16;

/// What one kind of lock took in each round.
#[derive(Default)]
struct HandOver {
    /// From the beginning of the release until the next holder's code runs.
    next: Figures,
    /// From then until a follower knows.
    followers: Figures,
}

async fn until_queued(client: &Client, name: &str) {
    while client.inspect(name).await.unwrap().queue.is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await; // between two reads of the queue
    }
}

async fn of_a_mutex(one: &Client, two: &Client, times: &mut HandOver) {
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let next = two.mutex("job").ttl(LONG);
    let next = tokio::spawn(async move { (next.acquire().await.unwrap(), clock::now()) });
    until_queued(one, "job").await;
    let began = clock::now();
    lease.release().await.unwrap();
    let (lease, at) = next.await.unwrap();
    times.next.add(at - began);
    lease.release().await.unwrap();
}

async fn of_an_election(one: &Client, two: &Client, three: &Client, times: &mut HandOver) {
    let election = |client: &Client| client.election("scheduler").ttl(LONG).value("me");
    let leading = election(one).campaign().await.unwrap();
    leading.proclaimed().await.unwrap();
    let mut observer = three.election("scheduler").observe();
    observer.changed().await.unwrap();
    let next = election(two);
    let next = tokio::spawn(async move { (next.campaign().await.unwrap(), clock::now()) });
    until_queued(one, "scheduler").await;
    let before = leading.term();
    let follows = tokio::spawn(async move {
        while observer
            .current()
            .is_none_or(|leader| leader.term == before)
        {
            observer.changed().await.unwrap();
        }
        clock::now()
    });
    let began = clock::now();
    leading.release().await.unwrap();
    let (leading, at) = next.await.unwrap();
    assert!(leading.term() > before);
    times.next.add(at - began);
    times
        .followers
        .add(follows.await.unwrap().saturating_sub(at));
    leading.release().await.unwrap();
}

/// The same, alternating, beside the hand-over of a mutex.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_leader_works_about_as_soon_as_the_next_holder_of_a_mutex() {
    for place in [Place::server(), Place::folder()] {
        let connect = || Client::open(&place.urls()).unwrap();
        let [one, two, three] = [connect(), connect(), connect()];
        let (mut mutex, mut election) = (HandOver::default(), HandOver::default());
        let mut round_trips = Figures::default();
        for _ in 0..rounds(10, 200) {
            of_a_mutex(&one, &two, &mut mutex).await;
            of_an_election(&one, &two, &three, &mut election).await;
            let election = three.election("scheduler");
            round_trips.time(election.leader()).await.unwrap();
        }
        let factor = election.next.median().as_secs_f64() / mutex.next.median().as_secs_f64();
        println!(
            "{place:8} the next holder of a mutex works after {}, the next leader after {} ({factor:.2}); followers know \
             {} later; a read takes {round_trips}",
            mutex.next, election.next, election.followers
        );
    }
}

/// The servers of one name, one after the other.
struct Chain {
    name: String,
    server: Server,
    recorder: Recorder,
}

impl Chain {
    fn client(&self) -> Client {
        let builder = Client::builder().url(&self.server.url());
        builder.strict(LONGEST).open().unwrap()
    }

    /// Leads until it is told that it does not. Waits for the end of the quarantine.
    async fn leads(&self, client: &Client, renews: bool) {
        let attempt = self.recorder.invoke(&self.name);
        let election = client.election(&*self.name).ttl(LONGEST).renewal(renews);
        let leading = election.campaign_within(PATIENCE).await.unwrap();
        let (term, now) = (leading.term().get(), clock::now());
        attempt.granted(term, now + leading.remaining());
        tokio::spawn(async move {
            leading.lost().await;
            attempt.lost();
        });
    }

    /// The server comes back without its data.
    async fn restarts(&mut self, renews: bool) {
        let client = self.client();
        self.leads(&client, renews).await;
        self.server.restart();
    }

    /// A replica that lacks the leader is promoted.
    async fn fails_over(&mut self, renews: bool) {
        let client = self.client();
        let replica = Server::builder().replica_of(&self.server).start();
        let mark = self
            .server
            .cli(&["INCR", "mark"])
            .integer()
            .unwrap()
            .to_string();
        wait_until(PATIENCE, "the replica is in step", || {
            replica.cli(&["GET", "mark"]).text() == Some(&*mark)
        });
        let frozen = replica.pause();
        self.server.cli(&["CLIENT", "KILL", "TYPE", "replica"]);
        self.leads(&client, renews).await;
        self.server.kill();
        drop(frozen);
        replica.promote();
        self.server = replica;
    }

    async fn runs(mut self, length: usize) {
        self.client().init_strict().await.unwrap();
        for step in 0..length {
            let renews = step % 4 < 2;
            match step % 2 {
                0 => self.restarts(renews).await,
                _ => self.fails_over(renews).await,
            }
        }
        self.leads(&self.client(), false).await;
    }
}

#[test]
fn in_strict_mode_leaders_of_many_failovers_never_overlap_and_no_term_comes_twice() {
    let chains = rounds(1, 50);
    let length = if chains == 1 { 2 } else { CHAIN };
    let folder = testkit::tempdir().unwrap();
    let path = folder.path().join("history");
    let recorder = Recorder::append(&path).unwrap();
    let numbers: Vec<usize> = (0..chains).collect();
    for some in numbers.chunks(AT_ONCE) {
        let start = |number: &usize| {
            let chain = Chain {
                name: format!("scheduler {number}"),
                server: Server::start(),
                recorder: recorder.clone(),
            };
            // Servers are started and stopped by calls that block.
            std::thread::spawn(move || {
                let mut runtime = tokio::runtime::Builder::new_multi_thread();
                let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
                runtime.block_on(chain.runs(length));
            })
        };
        let running: Vec<_> = some.iter().map(start).collect();
        running.into_iter().for_each(|one| one.join().unwrap());
    }
    let events = history::read(&path).unwrap();
    let summary = history::check(&events).unwrap_or_else(|violations| panic!("{violations:?}"));
    assert_eq!(summary.grants, chains * (length + 1));
    let term = |event: &history::Event| match event.what {
        What::Granted { fence, .. } => Some((event.name.clone(), fence)),
        _ => None,
    };
    let terms: BTreeSet<_> = events.iter().filter_map(term).collect();
    assert_eq!(terms.len(), summary.grants);
    println!(
        "{} failovers of {chains} elections: {summary:?}",
        chains * length
    );
}
