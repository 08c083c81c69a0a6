//! Ticks of a schedule, while the hosts that run them are killed, or frozen past their leases, at every point between the
//! request of a claim and the reply to the end.
//!
//! In each round a process claims the first tick of many names, some for each point, and is struck when all of them are
//! there. Requests and replies that were held back arrive before or after others have asked. Every second name has a second
//! tick, which the others run meanwhile.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use leaselock::{Claim, Client, Cron, CronError, CronRun, Overlap, TickState};
use testkit::process::Signal;
use testkit::{Child, Fault, Proxy, Server, TempDir, Way, clock, tempdir};
use tokio::task::JoinSet;

use self::notes::{judged, lines, note, noted, until_told};
use crate::rounds;

mod notes;

/// How far a host is when it is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// Its claim has left and has not arrived.
    Claims,
    /// The tick is its own, and it does not know.
    Claimed,
    /// The job runs, and stops when its lease is lost.
    Runs,
    /// The job runs, and does not look at its lease.
    RunsOn,
    /// The job has ended. That has left and has not arrived.
    Finishes,
    /// The end is recorded, and it does not know.
    Finished,
    /// It knows.
    Told,
}

const POINTS: [Point; 7] = [
    Point::Claims,
    Point::Claimed,
    Point::Runs,
    Point::RunsOn,
    Point::Finishes,
    Point::Finished,
    Point::Told,
];
/// At each point in each round.
const NAMES: usize = 8;
/// The lease of a host that was struck ends after it. The others have the usual one, which no slow machine ends.
const TTL: Duration = Duration::from_millis(300);
const DAY: Duration = Duration::from_secs(24 * 3600);
const PATIENCE: Duration = Duration::from_secs(30);

impl Point {
    /// On the way to the server, to the client, or nowhere.
    fn held(self) -> Option<Way> {
        match self {
            Point::Claims | Point::Finishes => Some(Way::ToServer),
            Point::Claimed | Point::Finished => Some(Way::ToClient),
            Point::Runs | Point::RunsOn | Point::Told => None,
        }
    }

    /// What a job at this point waits for, after the first things that were held back.
    fn ends_with(self) -> Option<&'static str> {
        match self {
            Point::Runs | Point::RunsOn => Some("go on"),
            Point::Finishes | Point::Finished => Some("finish"),
            Point::Claims | Point::Claimed | Point::Told => None,
        }
    }

    fn is_held_at_its_end(self) -> bool {
        self.ends_with() == Some("finish")
    }
}

fn name(round: &str, point: Point, number: usize) -> String {
    format!("{round}/{point:?}/{number}")
}

fn names(round: &str) -> impl Iterator<Item = (usize, String)> {
    let all = POINTS
        .into_iter()
        .flat_map(|point| (0..NAMES).map(move |number| (number, point)));
    all.map(|(number, point)| (number, name(round, point, number)))
}

/// How many ticks a name has.
fn ticks(number: usize) -> u32 {
    if number.is_multiple_of(2) { 1 } else { 2 }
}

fn tick(number: u32) -> Duration {
    Duration::from_secs(number.into())
}

fn cron(client: &Client, name: &str, again: bool) -> Cron {
    // A tick waits for the lease of a host that was struck. It is not left out.
    let cron = client.cron(name).late(DAY).overlap(Overlap::Wait);
    cron.again(again)
}

/// What a child does with the first tick of each name. The URL of each point is that of its proxy.
pub(crate) async fn works(folder: &Path, round: &str, again: bool, start_s: u64, urls: &[&str]) {
    let first = SystemTime::UNIX_EPOCH + Duration::from_secs(start_s) + tick(1);
    let mut tasks = JoinSet::new();
    for (point, url) in POINTS.into_iter().zip(urls) {
        let client = Client::connect(url).unwrap();
        client.cron("warm").state().await.unwrap(); // connects
        for number in 0..NAMES {
            let name = name(round, point, number);
            let cron = cron(&client, &name, again).ttl(TTL);
            let folder = folder.to_owned();
            tasks.spawn(async move {
                until_told(&folder, "begin").await;
                note(&folder, "at the point", &name);
                match cron.claim(first).await {
                    Ok(Claim::Run(run)) => runs(run, point, &folder).await,
                    Ok(Claim::Over | Claim::Running { .. }) | Err(CronError::Acquire(_)) => {}
                    other => panic!("{name}: {other:?}"),
                }
                note(&folder, "ended", &name);
            });
        }
    }
    note(folder, "connected", "");
    tasks.join_all().await;
}

async fn runs(run: CronRun, point: Point, folder: &Path) {
    let line = format!("{} 1 {}", run.name(), run.fence());
    note(folder, "begun", &line);
    note(folder, "runs", run.name().as_str());
    if let Some(what) = point.ends_with() {
        tokio::select! {
            _ = run.lost(), if point != Point::RunsOn => return, // the job is stopped
            () = until_told(folder, what) => {}
        }
    }
    note(folder, "worked", &line);
    match run.finish().await {
        Ok(()) => note(folder, "confirmed", &line),
        Err(CronError::Stale { .. }) => note(folder, "stale", &line),
        Err(error) => assert!(matches!(error, CronError::NotConfirmed { .. }), "{error}"),
    }
}

/// How a round goes.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// A tick whose run did not finish is run again.
    again: bool,
    /// Frozen past its leases, and not killed.
    freezes: bool,
    /// What was held back arrives only after others have asked.
    heals_late: bool,
}

struct Stage {
    round: Round,
    name: String,
    folder: TempDir,
    client: Client,
    /// Before all ticks.
    start: SystemTime,
    proxies: Vec<Proxy>,
}

impl Stage {
    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn hold(&self, at_its_end: bool) {
        for (point, proxy) in POINTS.into_iter().zip(&self.proxies) {
            if let Some(way) = point.held()
                && point.is_held_at_its_end() == at_its_end
            {
                proxy.set(way, Fault::Hold);
            }
        }
    }

    fn heal(&self) {
        self.proxies.iter().for_each(Proxy::heal);
    }

    async fn until(&self, what: &str, mut condition: impl AsyncFnMut() -> bool) {
        let end = clock::now() + PATIENCE;
        while !condition().await {
            assert!(clock::now() < end, "{:?}: {what}", self.round);
            tokio::time::sleep(Duration::from_millis(2)).await; // between two reads of the condition
        }
    }

    /// Whether all names of this point are noted there. A run that lost its lease on a slow machine has ended.
    fn all_noted(&self, point: Point, file: &str) -> bool {
        let there: BTreeSet<String> = [file, "ended"]
            .iter()
            .flat_map(|file| lines(self.folder(), file))
            .collect();
        let mut names = (0..NAMES).map(|number| name(&self.name, point, number));
        names.all(|name| there.contains(&name))
    }

    /// Whether the first tick of all names of this point has begun, or has been recorded as done.
    async fn all_recorded(&self, point: Point, is_done: bool) -> bool {
        let ended: BTreeSet<String> = lines(self.folder(), "ended").into_iter().collect();
        for number in 0..NAMES {
            let name = name(&self.name, point, number);
            let latest = self.client.cron(&name).state().await.unwrap().latest;
            let is_there = latest.is_some_and(|tick| !is_done || tick.state == TickState::Done);
            if !is_there && !ended.contains(&name) {
                return false;
            }
        }
        true
    }

    /// The child is at every point.
    async fn reaches_all_points(&self) {
        let connected = async || !lines(self.folder(), "connected").is_empty();
        self.until("it connects", connected).await;
        self.hold(false);
        note(self.folder(), "begin", "");
        self.until("it works", async || {
            let working = POINTS
                .into_iter()
                .filter(|point| point.ends_with().is_some());
            { working }.all(|point| self.all_noted(point, "runs"))
                && self.all_noted(Point::Claims, "at the point")
                && self.all_noted(Point::Told, "ended")
                && self.all_recorded(Point::Claimed, false).await
        })
        .await;
        self.hold(true);
        note(self.folder(), "finish", "");
        self.until("its end is recorded", async || {
            self.all_recorded(Point::Finished, true).await
        })
        .await;
    }

    /// Other hosts claim all ticks, until each is over for them.
    async fn others_ask(&self) {
        let mut tasks = JoinSet::new();
        for (number, name) in names(&self.name) {
            let (again, start) = (self.round.again, self.start);
            let (cron, folder) = (cron(&self.client, &name, again), self.folder().to_owned());
            tasks.spawn(async move {
                for number in 1..=ticks(number) {
                    while let Some(rest) = asks(&cron, start, number, &folder).await {
                        if !again {
                            break;
                        }
                        tokio::time::sleep(rest).await; // until the lease is over
                    }
                }
            });
        }
        tasks.join_all().await;
    }

    /// How many runs there were.
    async fn plays(self) -> [usize; 2] {
        let again = self.round.again.to_string();
        let folder = self.folder().display().to_string();
        let start = self.start.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let start = start.as_secs().to_string();
        let urls: Vec<String> = self.proxies.iter().map(Proxy::url).collect();
        let mut words = vec![&*folder, &*self.name, &*again, &*start];
        words.extend(urls.iter().map(String::as_str));
        let mut child = Child::start("runs ticks", &words);
        self.reaches_all_points().await;
        if self.round.freezes {
            child.stop();
        } else {
            child.kill();
        }
        if !self.round.heals_late {
            self.heal();
        }
        self.others_ask().await;
        self.heal();
        note(self.folder(), "go on", "");
        if self.round.freezes {
            child.signal(Signal::CONT);
            child.ends_well();
        }
        self.others_ask().await;
        self.is_as_promised().await;
        ["begun", "stale"].map(|file| lines(self.folder(), file).len())
    }

    async fn is_as_promised(&self) {
        let noted = noted(self.folder());
        for (number, name) in names(&self.name) {
            let context = format!("{name} {:?}", self.round);
            judged(&noted, &name, 1, self.round.again, &context);
            if ticks(number) == 2 {
                let second = judged(&noted, &name, 2, self.round.again, &context);
                assert_eq!(second, [1, 1, 1], "{context}: the second tick");
            }
            let latest = self.client.cron(&name).state().await.unwrap().latest;
            let latest = latest.unwrap_or_else(|| panic!("{context}: no tick has begun"));
            assert_eq!(latest.tick, self.start + tick(ticks(number)), "{context}");
            if self.round.again || ticks(number) == 2 {
                assert_eq!(latest.state, TickState::Done, "{context}");
            }
        }
    }
}

/// Claims a tick, and runs it if it may. How long it is to wait, if the tick is not over.
async fn asks(cron: &Cron, start: SystemTime, number: u32, folder: &Path) -> Option<Duration> {
    match cron.claim(start + tick(number)).await.unwrap() {
        Claim::Run(run) => {
            let line = format!("{} {number} {}", run.name(), run.fence());
            note(folder, "begun", &line);
            note(folder, "worked", &line);
            run.finish().await.unwrap();
            note(folder, "confirmed", &line);
            None
        }
        Claim::Over => None,
        Claim::Running { rest } => Some(rest),
        other => panic!("{:?}: {other:?}", cron.name()),
    }
}

async fn strikes(again: bool) {
    let server = Server::start();
    let client = Client::connect(&server.url()).unwrap();
    let now = client.cron("warm").state().await.unwrap().now;
    let now_s = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(now_s - 3600);
    let (mut struck, mut runs, mut stale) = (0, 0, 0);
    for number in 0..rounds(1, 45) {
        for (freezes, heals_late) in [(false, false), (false, true), (true, false), (true, true)] {
            let stage = Stage {
                round: Round {
                    again,
                    freezes,
                    heals_late,
                },
                name: format!("{number}-{freezes}-{heals_late}"),
                folder: tempdir().unwrap(),
                client: client.clone(),
                start,
                proxies: POINTS.map(|_| Proxy::to(server.port())).into(),
            };
            let [begun, late] = stage.plays().await;
            struck += POINTS.len() * NAMES;
            runs += begun;
            stale += late;
        }
    }
    println!(
        "again {again}: {struck} ticks struck, {runs} runs with second ticks, {stale} ends refused as stale"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_begins_at_most_once_wherever_its_host_is_killed_or_frozen() {
    strikes(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_that_comes_again_is_run_to_its_end_and_confirmed_once_wherever_its_host_is_killed_or_frozen()
 {
    strikes(true).await;
}
