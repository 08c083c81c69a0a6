//! Work that runs once, while its processes are killed, or frozen past their leases, at every point between the first
//! request and the last reply.
//!
//! In each round a process begins work under many keys, some for each point, and is struck when all of them are there.
//! Requests and replies that were held back arrive before or after others have run. Then each process that is there, or
//! comes back, asks for the results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use leaselock::Client;
use leaselock::once::{Once, OnceError, OnceStart, OnceState};
use leaselock::options::OnCrash;
use testkit::notes::{lines, note};
use testkit::{Server, Way};
use tokio::task::JoinSet;

use crate::failing_process::{FailingProcess, Failure, until_told};
use crate::rounds;

/// How far a run is when its process is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// Its first request has left and has not arrived.
    Asked,
    /// It has begun, and does not know.
    Begun,
    /// It does the work, and stops when it loses the lease.
    Works,
    /// It does the work, and stores its result late.
    WorksOn,
    /// Its result has left and has not arrived.
    Finished,
    /// Its result is stored, and it does not know.
    Stored,
    /// It has told its result.
    Told,
}

const POINTS: [Point; 7] = [
    Point::Asked,
    Point::Begun,
    Point::Works,
    Point::WorksOn,
    Point::Finished,
    Point::Stored,
    Point::Told,
];
/// At each point in each round.
const KEYS: usize = 8;
/// The lease of a process that was struck ends after it. One that asks later has the usual one, which no slow machine ends.
const TTL: Duration = Duration::from_millis(300);

impl Point {
    /// On the way to the server, to the client, or nowhere.
    fn held(self) -> Option<Way> {
        match self {
            Point::Asked | Point::Finished => Some(Way::ToServer),
            Point::Begun | Point::Stored => Some(Way::ToClient),
            Point::Works | Point::WorksOn | Point::Told => None,
        }
    }

    /// Whether what is held back is the result.
    fn is_behind_the_work(self) -> bool {
        matches!(self, Point::Finished | Point::Stored)
    }
}

fn key(round: &str, point: Point, number: usize) -> String {
    format!("{round}/{point:?}/{number}")
}

fn keys(round: &str) -> Vec<String> {
    let all = POINTS
        .iter()
        .flat_map(|point| (0..KEYS).map(|number| (*point, number)));
    all.map(|(point, number)| key(round, point, number))
        .collect()
}

fn once(client: &Client, key: &str, on_crash: OnCrash) -> Once {
    client.once(key).on_crash(on_crash)
}

/// What a child does with all keys of a round. The URL of each point is that of its proxy.
pub(crate) async fn works(folder: &Path, round: &str, refuses: bool, urls: &[&str]) {
    let on_crash = if refuses {
        OnCrash::Refuse
    } else {
        OnCrash::Again
    };
    let mut tasks = JoinSet::new();
    for (point, url) in POINTS.into_iter().zip(urls) {
        let client = Client::open(url).unwrap();
        client.once("warm").state().await.unwrap(); // connects
        for number in 0..KEYS {
            let key = key(round, point, number);
            let once = once(&client, &key, on_crash).ttl(TTL);
            let folder = folder.to_owned();
            tasks.spawn(async move { works_on(&once, &key, point, &folder).await });
        }
    }
    note(folder, "connected", "");
    tasks.join_all().await;
    until_told(folder, "go on").await; // on a slow machine all may have ended before the process is struck
}

async fn works_on(once: &Once, key: &str, point: Point, folder: &Path) {
    until_told(folder, "begin").await;
    note(folder, "at the point", key);
    let told = match point {
        Point::WorksOn => finishes_late(once, key, folder).await,
        _ => {
            let ran = once.run(|run| work(run.fence().get(), key, point, folder));
            ran.await.map(|result| result.value)
        }
    };
    // An error tells no result: the lease was lost, or the run was replaced.
    match told {
        Ok(value) => note(
            folder,
            "told",
            &format!("{key} {}", String::from_utf8(value).unwrap()),
        ),
        Err(error) => assert!(!matches!(error, OnceError::Mismatch { .. }), "{error}"),
    }
    note(folder, "ended", key);
}

async fn work(fence: u64, key: &str, point: Point, folder: &Path) -> Result<Vec<u8>, String> {
    note(folder, "runs", key);
    note(folder, "works", key);
    match point {
        Point::Works => until_told(folder, "go on").await,
        Point::Finished | Point::Stored => until_told(folder, "finish").await,
        _ => {}
    }
    Ok(format!("of-the-first-{fence}").into_bytes())
}

/// It does not check its lease.
async fn finishes_late(once: &Once, key: &str, folder: &Path) -> Result<Vec<u8>, OnceError> {
    let run = match once.begin().await? {
        OnceStart::Done(result) => return Ok(result.value),
        OnceStart::Run(run) => run,
    };
    note(folder, "runs", key);
    note(folder, "works", key);
    until_told(folder, "go on").await;
    let value = format!("of-the-first-{}", run.view().fence());
    run.finish(Ok(value.into_bytes()))
        .await
        .map(|result| result.value)
}

/// One process and its keys.
struct Round {
    process: FailingProcess,
    name: String,
    client: Client,
    on_crash: OnCrash,
}

impl Round {
    fn folder(&self) -> &Path {
        self.process.folder()
    }

    fn hold(&self, behind_the_work: bool) {
        let now = |point: &Point| point.is_behind_the_work() == behind_the_work;
        let ways = POINTS.map(|point| point.held().filter(|_| now(&point)));
        self.process.hold(ways);
    }

    /// Whether all keys of this point are noted there.
    fn all_noted(&self, point: Point, file: &str) -> bool {
        let noted = self.process.noted(file);
        let mut keys = (0..KEYS).map(|number| key(&self.name, point, number));
        keys.all(|key| noted.contains(&key))
    }

    /// Whether the server has a record of all keys of this point, with a result or not.
    async fn all_recorded(&self, point: Point, is_done: bool) -> bool {
        let ended = self.process.noted("ended");
        for number in 0..KEYS {
            let key = key(&self.name, point, number);
            let state = self.client.once(&key).state().await.unwrap();
            let is_there = match state {
                OnceState::Absent => false,
                OnceState::Done(_) => true,
                _ => !is_done,
            };
            if !is_there && !ended.contains(&key) {
                return false;
            }
        }
        true
    }

    /// The child is at every point.
    async fn reaches_all_points(&self) {
        let connected = async || !lines(self.folder(), "connected").is_empty();
        self.process.until("it connects", connected).await;
        self.hold(false);
        note(self.folder(), "begin", "");
        self.process
            .until("it works", async || {
                let behind = [Point::Works, Point::WorksOn, Point::Finished, Point::Stored];
                behind
                    .into_iter()
                    .all(|point| self.all_noted(point, "works"))
                    && self.all_noted(Point::Asked, "at the point")
                    && self.all_noted(Point::Told, "ended")
                    && self.all_recorded(Point::Begun, false).await
            })
            .await;
        self.hold(true);
        note(self.folder(), "finish", "");
        let stored = async || self.all_recorded(Point::Stored, true).await;
        self.process.until("its result is stored", stored).await;
    }

    /// Other tasks ask for the result of each key; a run here is the second one.
    async fn others_ask(&self) {
        let mut tasks = JoinSet::new();
        for key in keys(&self.name) {
            let on_crash = self.on_crash;
            let once = once(&self.client, &key, on_crash);
            let folder = self.folder().to_owned();
            tasks.spawn(async move {
                let ran = once.run(|run| {
                    note(&folder, "runs", &key);
                    let value = format!("of-another-{}", run.fence());
                    std::future::ready(Ok::<_, String>(value))
                });
                match ran.await {
                    Ok(result) => {
                        let value = String::from_utf8(result.value).unwrap();
                        note(&folder, "told", &format!("{key} {value}"));
                    }
                    Err(OnceError::Crashed { .. }) => assert_eq!(on_crash, OnCrash::Refuse),
                    Err(error) => panic!("{key}: {error}"),
                }
            });
        }
        tasks.join_all().await;
    }

    async fn plays(self) -> usize {
        let refuses = (self.on_crash == OnCrash::Refuse).to_string();
        let folder = self.folder().display().to_string();
        let words = [&*folder, &*self.name, &*refuses];
        let child = self.process.start("runs work once", &words);
        self.reaches_all_points().await;
        self.process
            .fails(child, async || self.others_ask().await)
            .await;
        self.judged()
    }

    /// All who were told a result were told the same one, and the work was done as often as was asked for.
    fn judged(&self) -> usize {
        let mut told = BTreeMap::<String, BTreeSet<String>>::new();
        for line in lines(self.folder(), "told") {
            let (key, value) = line.split_once(' ').unwrap();
            told.entry(key.to_owned())
                .or_default()
                .insert(value.to_owned());
        }
        let mut runs = BTreeMap::<String, usize>::new();
        for key in lines(self.folder(), "runs") {
            *runs.entry(key).or_default() += 1;
        }
        for key in keys(&self.name) {
            let results = told.get(&key).map_or(0, BTreeSet::len);
            let ran = runs.get(&key).copied().unwrap_or(0);
            let context = format!(
                "{key} {:?}: {ran} runs, told {:?}",
                self.on_crash,
                told.get(&key)
            );
            match self.on_crash {
                OnCrash::Refuse => assert!(results <= 1 && ran <= 1, "{context}"),
                _ => assert!(results == 1 && ran >= 1, "{context}"),
            }
        }
        runs.values().sum()
    }
}

async fn strikes(on_crash: OnCrash) {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let (mut keys, mut runs) = (0, 0);
    for number in 0..rounds(1, 45) {
        for failure in Failure::all() {
            let round = Round {
                process: FailingProcess::at(&server, POINTS.len(), failure),
                name: format!("{number}-{}", failure.word()),
                client: client.clone(),
                on_crash,
            };
            runs += round.plays().await;
            keys += POINTS.len() * KEYS;
        }
    }
    println!("{on_crash:?}: {keys} keys, {runs} runs, never two results");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_work_is_done_at_most_once_wherever_its_process_is_killed_or_frozen() {
    strikes(OnCrash::Refuse).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_work_is_done_at_least_once_and_has_one_result_wherever_its_process_is_killed_or_frozen()
 {
    strikes(OnCrash::Again).await;
}
