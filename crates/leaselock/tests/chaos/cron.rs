//! Ticks of a schedule, while the hosts that run them are killed, or frozen past their leases, at every point between the
//! request of a claim and the reply to the end.
//!
//! In each round a process claims the first tick of many names, some for each point, and is struck when all of them are
//! there. Requests and replies that were held back arrive before or after others have asked. Every second name has a second
//! tick, which the others run meanwhile.

use std::path::Path;
use std::time::{Duration, SystemTime};

use leaselock::cron::{Claim, Cron, CronError, CronRun, Overlap, TickState};
use leaselock::options::OnCrash;
use leaselock::{Client, Lease};
use testkit::notes::{lines, note};
use testkit::{Server, Way};
use tokio::task::JoinSet;

use self::notes::{judged, noted};
use crate::failing_process::{FailingProcess, Failure, until_told};
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
    /// The job runs, and does not check its lease.
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
    let cron = client.cron(name).start_within(DAY).overlap(Overlap::Wait);
    match again {
        true => cron.on_crash(OnCrash::Again),
        false => cron,
    }
}

/// What a child does with the first tick of each name. The URL of each point is that of its proxy.
pub(crate) async fn works(folder: &Path, round: &str, again: bool, start_s: u64, urls: &[&str]) {
    let first = SystemTime::UNIX_EPOCH + Duration::from_secs(start_s) + tick(1);
    let mut tasks = JoinSet::new();
    for (point, url) in POINTS.into_iter().zip(urls) {
        let client = Client::open(url).unwrap();
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
    until_told(folder, "go on").await; // on a slow machine all may have ended before the process is struck
}

async fn runs(run: Lease<CronRun>, point: Point, folder: &Path) {
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

/// One process and its names.
struct Round {
    process: FailingProcess,
    name: String,
    client: Client,
    /// Before all ticks.
    start: SystemTime,
    /// A tick whose run did not finish is run again.
    again: bool,
}

impl Round {
    fn folder(&self) -> &Path {
        self.process.folder()
    }

    fn hold(&self, at_its_end: bool) {
        let now = |point: &Point| point.is_held_at_its_end() == at_its_end;
        let ways = POINTS.map(|point| point.held().filter(|_| now(&point)));
        self.process.hold(ways);
    }

    /// Whether all names of this point are noted there.
    fn all_noted(&self, point: Point, file: &str) -> bool {
        let noted = self.process.noted(file);
        let mut names = (0..NAMES).map(|number| name(&self.name, point, number));
        names.all(|name| noted.contains(&name))
    }

    /// Whether the first tick of all names of this point has begun, or has been recorded as done.
    async fn all_recorded(&self, point: Point, is_done: bool) -> bool {
        let ended = self.process.noted("ended");
        for number in 0..NAMES {
            let name = name(&self.name, point, number);
            let state = self.client.cron(&name).state().await.unwrap().state;
            let is_there = state.is_some_and(|state| !is_done || state == TickState::Done);
            if !is_there && !ended.contains(&name) {
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
        let recorded = async || self.all_recorded(Point::Finished, true).await;
        self.process.until("its end is recorded", recorded).await;
    }

    /// Other hosts claim all ticks, until each is over for them.
    async fn others_ask(&self) {
        let mut tasks = JoinSet::new();
        for (number, name) in names(&self.name) {
            let (again, start) = (self.again, self.start);
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
        let again = self.again.to_string();
        let folder = self.folder().display().to_string();
        let start = self.start.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let start = start.as_secs().to_string();
        let words = [&*folder, &*self.name, &*again, &*start];
        let child = self.process.start("runs ticks", &words);
        self.reaches_all_points().await;
        self.process
            .fails(child, async || self.others_ask().await)
            .await;
        self.is_as_promised().await;
        ["begun", "stale"].map(|file| lines(self.folder(), file).len())
    }

    async fn is_as_promised(&self) {
        let noted = noted(self.folder());
        for (number, name) in names(&self.name) {
            let context = format!("{name}, again {}", self.again);
            judged(&noted, &name, 1, self.again, &context);
            if ticks(number) == 2 {
                let second = judged(&noted, &name, 2, self.again, &context);
                assert_eq!(second, [1, 1, 1], "{context}: the second tick");
            }
            let known = self.client.cron(&name).state().await.unwrap();
            let last = self.start + tick(ticks(number));
            assert_eq!(known.latest, Some(last), "{context}");
            if self.again || ticks(number) == 2 {
                assert_eq!(known.state, Some(TickState::Done), "{context}");
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
    let client = Client::open(&server.url()).unwrap();
    let now = client.cron("warm").state().await.unwrap().now;
    let now_s = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(now_s - 3600);
    let (mut struck, mut runs, mut stale) = (0, 0, 0);
    for number in 0..rounds(1, 45) {
        for failure in Failure::all() {
            let round = Round {
                process: FailingProcess::at(&server, POINTS.len(), failure),
                name: format!("{number}-{}", failure.word()),
                client: client.clone(),
                start,
                again,
            };
            let [begun, late] = round.plays().await;
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
