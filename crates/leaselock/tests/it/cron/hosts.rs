//! Several hosts that share a schedule.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leaselock::clock::Clock;
use leaselock::cron::{Claim, Cron, CronRun, Overlap, TickState};
use leaselock::options::OnCrash;
use leaselock::{Client, Lease};
use leaselock_cron::Schedule;
use testkit::Server;
use tokio::task::JoinSet;

use super::{latest, server_time};
use crate::support::{LONG, eventually};

const HOSTS: usize = 5;
const TICKS: u32 = 1_000;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const BERLIN: &str = "Europe/Berlin";
/// The time between two ticks.
const INTERVAL: Duration = Duration::from_secs(10);
/// What a run takes, and what its lease lasts: both together less than the interval.
const TAKES: Duration = Duration::from_secs(3);
const TTL: Duration = Duration::from_secs(6);

/// Each goes through the ticks in order, as fast as it can, while the server forgets the scripts now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_a_thousand_ticks_is_run_by_exactly_one_of_five_clients() {
    let server = Server::start();
    let runs = Arc::new(Mutex::new(vec![0; TICKS as usize]));
    let mut hosts = JoinSet::new();
    let first = {
        let client = Client::open(&server.url()).unwrap();
        server_time(&client.cron("job")).await - TICKS * SECOND
    };
    for _ in 0..HOSTS {
        let (client, runs) = (Client::open(&server.url()).unwrap(), Arc::clone(&runs));
        hosts.spawn(async move {
            let cron = client.cron("job").ttl(LONG).start_within(LONG * 60);
            let cron = cron.overlap(Overlap::Wait); // no tick leaves the next one out
            for number in 0..TICKS {
                match cron.claim(first + number * SECOND).await.unwrap() {
                    Claim::Run(run) => {
                        runs.lock().unwrap()[number as usize] += 1;
                        run.finish().await.unwrap();
                    }
                    Claim::Over | Claim::Running { .. } => {}
                    other => panic!("{number}: {other:?}"),
                }
            }
        });
    }
    loop {
        tokio::select! {
            ended = hosts.join_next() => match ended {
                Some(ended) => ended.unwrap(),
                None => break,
            },
            () = tokio::time::sleep(Duration::from_millis(50)) => { // any moment will do
                server.cli(&["SCRIPT", "FLUSH"]);
            }
        }
    }
    let runs = runs.lock().unwrap();
    assert!(runs.iter().all(|count| *count == 1), "{runs:?}");
}

/// A host that asks when its own clock says that a tick is due.
struct Host {
    cron: Cron,
    /// How far its clock is ahead, in seconds.
    ahead_s: i64,
    next: usize,
    /// When it asks, by the store's clock.
    asks_at: SystemTime,
    running: Option<(Lease<CronRun>, SystemTime)>,
}

impl Host {
    /// True if its own clock says that the tick is due.
    fn thinks_it_due(&self, now: SystemTime, due: SystemTime) -> bool {
        match u64::try_from(self.ahead_s) {
            Ok(ahead_s) => now + Duration::from_secs(ahead_s) >= due,
            Err(_) => now - Duration::from_secs(self.ahead_s.unsigned_abs()) >= due,
        }
    }
}

/// What became of each tick: how many runs have begun and finished.
type Counts = BTreeMap<usize, (usize, usize)>;

/// Five hosts whose clocks are up to five minutes off, and that crash now and then. `ticks_after` returns the ticks in
/// order; up to shortly before the first one the time passes at once.
async fn on_hosts(
    url: &str,
    again: OnCrash,
    crashes_of_100: usize,
    ticks_after: impl Fn(SystemTime) -> Vec<SystemTime>,
) -> Counts {
    let clock = Clock::manual();
    let client = || Client::builder().url(url).clock(clock.clone()).open();
    let watch = client().unwrap().cron("job");
    let start = server_time(&watch).await;
    let ticks = ticks_after(start);
    let mut rng = fastrand::Rng::with_seed(ticks.len() as u64);
    let until_first = ticks[0].duration_since(start).unwrap() - INTERVAL;
    clock.advance(until_first);
    let start = start + until_first;
    let mut hosts: Vec<Host> = [0, 300, -300, 7, -120]
        .into_iter()
        .map(|ahead_s| Host {
            cron: client().unwrap().cron("job").ttl(TTL).on_crash(again),
            ahead_s,
            next: 0,
            asks_at: start,
            running: None,
        })
        .collect();
    let (mut counts, mut now) = (Counts::new(), start);
    while hosts.iter().any(|host| host.next < ticks.len()) {
        for host in &mut hosts {
            if let Some((run, ends_at)) = host.running.take() {
                if now < ends_at {
                    host.running = Some((run, ends_at));
                } else if rng.usize(..100) < crashes_of_100 {
                    drop(run);
                    eventually("it has crashed", async || {
                        latest(&watch).await == Some(TickState::Crashed)
                    })
                    .await;
                } else {
                    counts.entry(host.next).or_default().1 += 1;
                    run.finish().await.unwrap();
                    host.next += 1;
                }
                continue;
            }
            let Some(&tick) = ticks.get(host.next) else {
                continue;
            };
            if now < host.asks_at || !host.thinks_it_due(now, tick) {
                continue;
            }
            match host.cron.claim(tick).await.unwrap() {
                Claim::Run(run) => {
                    assert!(now >= tick, "before its time");
                    assert_eq!(run.tick(), tick);
                    counts.entry(host.next).or_default().0 += 1;
                    host.running = Some((run, now + TAKES));
                }
                Claim::Early { wait } => {
                    assert_eq!(now + wait, tick);
                    host.asks_at = tick;
                }
                Claim::Running { rest } if again == OnCrash::Again => host.asks_at = now + rest,
                Claim::Over | Claim::Running { .. } | Claim::Missed { .. } => host.next += 1,
                other => panic!("a run ends before the next tick: {other:?}"),
            }
        }
        clock.advance(SECOND);
        now += SECOND;
    }
    assert_eq!(server_time(&watch).await, now);
    counts
}

/// So many ticks, one each interval.
fn every_interval(count: u32) -> impl Fn(SystemTime) -> Vec<SystemTime> {
    move |start| {
        (1..=count)
            .map(|number| start + number * INTERVAL)
            .collect()
    }
}

fn each_once(ticks: u32) -> Counts {
    (0..ticks as usize).map(|tick| (tick, (1, 1))).collect()
}

#[tokio::test]
async fn ticks_of_hosts_with_clocks_minutes_apart_begin_once_each_and_in_time() {
    let counts = on_hosts("mem:hosts", OnCrash::Refuse, 0, every_interval(TICKS)).await;
    assert_eq!(counts, each_once(TICKS));
}

/// Noon before the next change of Berlin's clocks that makes the day so many hours long.
fn noon_before_a_day_of(hours: u32, start: SystemTime) -> SystemTime {
    let noon: Schedule = "0 12 * * *".parse().unwrap();
    let noons: Vec<SystemTime> = noon.tz(BERLIN).unwrap().after(start).take(400).collect();
    let mut days = noons.windows(2);
    let day = days.find(|day| day[1].duration_since(day[0]).unwrap() == hours * HOUR);
    day.expect("the clocks change twice a year")[0]
}

#[tokio::test]
async fn ticks_of_hosts_with_clocks_minutes_apart_begin_once_each_where_the_hour_changes() {
    let cases = [
        // The day has no 2:30: its tick comes when the clock goes forward.
        (23, "30 2 * * *", 1),
        (23, "*/10 * * * *", 6 * 23),
        // The day has 2:30 twice: its tick comes with the first one.
        (25, "30 2 * * *", 1),
        (25, "*/10 * * * *", 6 * 25),
    ];
    for (hours, expression, expected) in cases {
        let schedule: Schedule = expression.parse().unwrap();
        let schedule = schedule.tz(BERLIN).unwrap();
        let ticks_after = |start| {
            let noon = noon_before_a_day_of(hours, start);
            let ticks = schedule.after(noon);
            ticks
                .take_while(|tick| *tick <= noon + hours * HOUR)
                .collect()
        };
        let url = format!("mem:changing-{hours}-{expected}");
        let counts = on_hosts(&url, OnCrash::Refuse, 0, ticks_after).await;
        assert_eq!(counts, each_once(expected), "{expression}");
    }
}

#[tokio::test]
async fn ticks_of_hosts_that_crash_begin_once_each() {
    let counts = on_hosts("mem:crashing", OnCrash::Refuse, 20, every_interval(150)).await;
    let begun: Counts = (0..150).map(|tick| (tick, (1, counts[&tick].1))).collect();
    assert_eq!(counts, begun);
    let finished = counts.values().filter(|(_, finished)| *finished == 1);
    assert!(finished.count() < 150, "some crashed");
}

#[tokio::test]
async fn ticks_of_hosts_that_crash_are_run_again_until_one_run_of_each_has_finished() {
    let counts = on_hosts("mem:repairing", OnCrash::Again, 20, every_interval(150)).await;
    let once_done: Counts = (0..150).map(|tick| (tick, (counts[&tick].0, 1))).collect();
    assert_eq!(counts, once_done);
    assert!(counts.values().any(|(begun, _)| *begun > 1), "some crashed");
}
