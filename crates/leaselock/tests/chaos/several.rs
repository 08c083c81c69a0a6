//! Processes that take several names at once, in any order, while some give up, are dropped or are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use leaselock::{AcquireError, Client};
use testkit::history::{self, Attempt, Event, What};
use testkit::{Child, Recorder, clock};

use crate::child::from_now;
use crate::place::{Place, connect};
use crate::rounds;

const PROCESSES: usize = 4;
const WORKERS: u64 = 2;
const NAMES: u64 = 8;
/// A wait that lasts longer is in a circle.
const PATIENCE: Duration = Duration::from_secs(40);
const LONG: Duration = Duration::from_secs(60);
/// What a killed process held is free again after this.
const SHORT: Duration = Duration::from_secs(2);

/// One process.
pub(crate) async fn works(urls: &str, path: &Path, seed: u64, ttl: Duration, until: Duration) {
    let recorder = Recorder::append(path).unwrap();
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let (client, recorder) = (connect(urls), recorder.clone());
            let mut rng = Rng::with_seed(seed * 100 + number);
            tokio::spawn(async move {
                while clock::now() < until {
                    takes_some(&client, &recorder, &mut rng, ttl).await;
                }
                client.close().await;
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
}

async fn takes_some(client: &Client, recorder: &Recorder, rng: &mut Rng, ttl: Duration) {
    let mut names: Vec<String> = (0..NAMES).map(|number| format!("name-{number}")).collect();
    rng.shuffle(&mut names);
    names.truncate(rng.usize(2..=5));
    let attempts: Vec<Attempt> = names.iter().map(|name| recorder.invoke(name)).collect();
    let mutex = client.mutex(names[0].as_str()).ttl(ttl);
    let lock = mutex.along_with(names[1..].iter().map(String::as_str));
    let limit = Duration::from_millis(1) + Duration::from_millis(rng.u64(..40));
    let outcome = match rng.u64(..8) {
        0 => Some(lock.acquire_within(limit).await),
        1 => tokio::time::timeout(limit, lock.acquire()).await.ok(), // dropped
        _ => Some(lock.acquire_within(PATIENCE).await),
    };
    let lease = match outcome {
        Some(Ok(lease)) => lease,
        Some(Err(AcquireError::TimedOut { waited, name, .. })) => {
            assert!(waited < PATIENCE, "`{name}` was never free");
            return attempts.iter().for_each(Attempt::failed);
        }
        // On a machine that is busy for longer than a request may take, or than a short lease lasts.
        Some(Err(
            AcquireError::LostWhileWaiting { .. }
            | AcquireError::Unknown { .. }
            | AcquireError::Store { .. }
            | AcquireError::NoQuorum { .. },
        ))
        | None => return attempts.iter().for_each(Attempt::failed),
        Some(Err(error)) => panic!("{error}"),
    };
    for (name, fence) in lease.fences() {
        let at = names
            .iter()
            .position(|asked| asked == name.as_str())
            .unwrap();
        let now = clock::now();
        attempts[at].granted(fence.unwrap().get(), now + lease.remaining());
    }
    tokio::time::sleep(Duration::from_millis(rng.u64(..2))).await; // the work
    attempts.iter().for_each(Attempt::release);
    match rng.u64(..8) {
        0 => drop(lease),
        _ => drop(lease.release().await), // a short lease may be lost on a busy machine
    }
}

/// The holds of a killed process end with it, in a folder also for others.
fn with_deaths(mut events: Vec<Event>, killed: &BTreeMap<u32, Duration>) -> Vec<Event> {
    let has_ended = |event: &&Event| matches!(event.what, What::Release | What::Lost);
    let ended: BTreeSet<_> = events
        .iter()
        .filter(has_ended)
        .map(|event| event.id)
        .collect();
    let deaths: Vec<Event> = events
        .iter()
        .filter(|event| matches!(event.what, What::Granted { .. }) && !ended.contains(&event.id))
        .filter_map(|event| {
            Some(Event {
                at: (*killed.get(&event.id.process)?).max(event.at),
                what: What::Lost,
                ..event.clone()
            })
        })
        .collect();
    events.extend(deaths);
    events
}

/// All names are free at once after the processes have ended, unless one of them was killed.
fn nobody_waits_for_ever(place: &Place, kills: bool, time: Duration) {
    let folder = testkit::tempdir().unwrap();
    let path = folder.path().join("history");
    let (urls, at, until) = (place.urls(), path.display().to_string(), from_now(time));
    let ttl = if kills { SHORT } else { LONG }.as_millis().to_string();
    let mut seed = 0_u64;
    let mut start = || {
        seed += 1;
        let words = [&urls, &at, &seed.to_string(), &ttl, &until];
        Child::start("takes several names", &words.map(String::as_str))
    };
    let end = clock::now() + time;
    let mut processes: Vec<Child> = (0..PROCESSES).map(|_| start()).collect();
    let (mut rng, mut killed) = (Rng::with_seed(time.as_secs()), BTreeMap::new());
    while kills && clock::now() + SHORT / 2 < end {
        // Between two kills they get on with it.
        std::thread::sleep(SHORT / 4 + Duration::from_millis(rng.u64(..1_000)));
        let victim = rng.usize(..PROCESSES);
        killed.insert(processes[victim].id(), clock::now());
        processes[victim].kill();
        processes[victim] = start();
    }
    processes.into_iter().for_each(Child::ends_well);
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let client = connect(&urls);
        let names: Vec<String> = (0..NAMES).map(|number| format!("name-{number}")).collect();
        let all = client
            .mutex(names[0].as_str())
            .along_with(names[1..].iter().map(String::as_str));
        let lease = all.acquire_within(LONG / 4).await.unwrap(); // no lease of theirs ends by itself in that time
        lease.release().await.unwrap();
    });
    let events = with_deaths(history::read(&path).unwrap(), &killed);
    let summary = history::check(&events).unwrap_or_else(|violations| {
        let shown: Vec<String> = violations.iter().take(5).map(ToString::to_string).collect();
        panic!("{place}: {} violations: {shown:#?}", violations.len())
    });
    println!("{place:8} {} processes killed: {summary:?}", killed.len());
    assert_eq!(summary.names, usize::try_from(NAMES).unwrap(), "{place}");
    assert!(summary.contended > 0, "{place}");
}

#[test]
fn processes_that_take_any_names_in_any_order_never_wait_for_ever_and_leave_nothing_held() {
    let seconds = |few, long| Duration::from_secs(rounds(few, long) as u64);
    let places: [fn() -> Place; 4] = [Place::server, Place::folder, Place::cluster, Place::quorum];
    for place in places {
        let place = place();
        for kills in [false, true] {
            if kills && rounds(0, 1) == 0 && !matches!(place, Place::Server(_)) {
                continue;
            }
            nobody_waits_for_ever(&place, kills, seconds(2, 60));
        }
    }
}
