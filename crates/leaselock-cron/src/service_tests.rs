//! Services in memory, whose time moves when a test says so.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leaselock::clock::Clock;
use leaselock::cron::{Claim, Cron, CronError, CronRun, CronState, Overlap, TickState};
use leaselock::inspect::BreakOptions;
use leaselock::options::OnCrash;
use leaselock::{Client, Lease};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::plan::CatchUp;
use crate::schedule::Schedule;
use crate::service::TickView;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// Far longer than any test lets a run last.
const TTL: Duration = Duration::from_secs(24 * 3600);

/// What was run, and by which attempt.
type Log = Arc<Mutex<Vec<(SystemTime, u32)>>>;

/// A store, its time, and what was run there.
struct World {
    clock: Clock,
    client: Client,
    cron: Cron,
    schedule: Schedule,
    log: Log,
    /// A body ends when it gets a permit.
    ends: Arc<Semaphore>,
}

/// A service that runs.
struct Service {
    task: JoinHandle<Result<(), CronError>>,
    stop: oneshot::Sender<()>,
}

impl World {
    fn new(expression: &str) -> World {
        let clock = Clock::manual();
        let client = Client::builder().url("mem:").clock(clock.clone());
        let client = client.open().unwrap();
        World {
            clock,
            cron: client.cron("job").ttl(TTL).start_within(HOUR),
            client,
            schedule: expression.parse().unwrap(),
            log: Log::default(),
            ends: Arc::new(Semaphore::new(0)),
        }
    }

    fn ends_at_once(self) -> World {
        self.ends.add_permits(Semaphore::MAX_PERMITS);
        self
    }

    fn serve(&self, catch_up: CatchUp) -> Service {
        self.serve_as(self.cron.clone(), catch_up, Ok(()))
    }

    fn serve_as(&self, cron: Cron, catch_up: CatchUp, outcome: Result<(), String>) -> Service {
        let (log, ends, schedule) = (
            Arc::clone(&self.log),
            Arc::clone(&self.ends),
            self.schedule.clone(),
        );
        let (stop, stopped) = oneshot::channel();
        let body = move |run: TickView| {
            log.lock().unwrap().push((run.tick(), run.attempt()));
            let (ends, outcome) = (Arc::clone(&ends), outcome.clone());
            async move {
                ends.acquire().await.unwrap().forget();
                outcome
            }
        };
        let task = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            let runs = schedule.runs(cron).catch_up(catch_up);
            runs.run_until(stopped, body).await
        });
        Service { task, stop }
    }

    /// Lets time pass, a step at a time, until something is the case.
    async fn until(&self, step: Duration, what: &str, mut is_so: impl AsyncFnMut(&World) -> bool) {
        for _ in 0..30_000 {
            if is_so(self).await {
                return;
            }
            self.clock.advance(step);
            tokio::time::sleep(Duration::from_millis(1)).await; // the tasks and the client's thread have their turn
        }
        panic!("never: {what}");
    }

    async fn until_runs(&self, count: usize) {
        let what = format!("{count} runs");
        let is_so = async |world: &World| world.log.lock().unwrap().len() >= count;
        self.until(Duration::from_secs(1), &what, is_so).await;
    }

    /// The same while time stands still.
    async fn until_ran(&self, count: usize) {
        let is_so = async |world: &World| world.ran().len() >= count;
        self.until(Duration::ZERO, "the runs", is_so).await;
    }

    /// Lets the latest tick be one that has run; the schedule has one in each period.
    async fn has_run(&self, period: Duration) -> SystemTime {
        let now = self.state().await.now;
        let tick = self.schedule.after(now - period).next().unwrap();
        let cron = self.cron.clone().start_within(period * 2);
        let Claim::Run(run) = cron.claim(tick).await.unwrap() else {
            panic!("nobody else is there")
        };
        run.finish().await.unwrap();
        tick
    }

    /// Another host begins the tick that comes next.
    async fn claims_the_next_tick(&self) -> (SystemTime, Lease<CronRun>) {
        let now = self.state().await.now;
        let tick = self.schedule.after(now).next().unwrap();
        self.clock.advance(MINUTE);
        match self.cron.claim(tick).await.unwrap() {
            Claim::Run(run) => (tick, run),
            other => panic!("nobody else is there: {other:?}"),
        }
    }

    async fn jump_to(&self, time: SystemTime) {
        let now = self.state().await.now;
        self.clock.advance(time.duration_since(now).unwrap());
    }

    fn ran(&self) -> Vec<SystemTime> {
        let log = self.log.lock().unwrap();
        log.iter().map(|(tick, _)| *tick).collect()
    }

    async fn state(&self) -> CronState {
        self.cron.state().await.unwrap()
    }

    /// Ticks one after the other, from the first that was run.
    fn in_a_row(&self, count: usize) -> Vec<SystemTime> {
        let first = self.ran()[0];
        let ticks = self.schedule.after(first - Duration::from_secs(1));
        ticks.take(count).collect()
    }
}

impl Service {
    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn of_three_hosts_one_runs_each_tick_at_its_time() {
    let world = World::new("* * * * *").ends_at_once();
    let began = world.state().await.now;
    let hosts = [CatchUp::None, CatchUp::Latest, CatchUp::All].map(|mode| world.serve(mode));
    world.until_runs(5).await;
    let now = world.state().await.now;
    for host in hosts {
        host.stop().await;
    }
    let ran = world.ran();
    assert_eq!(ran, world.in_a_row(ran.len()), "each once and in order");
    assert!(
        ran[0] > began && ran[0] <= began + MINUTE,
        "nothing of the past"
    );
    assert!(ran[4] <= now, "none before its time");
}

#[tokio::test]
async fn a_service_that_was_away_leaves_missed_ticks_out_or_runs_the_latest_or_all() {
    for (catch_up, expected) in [(CatchUp::None, 0), (CatchUp::Latest, 1), (CatchUp::All, 9)] {
        let mut world = World::new("0 * * * *").ends_at_once();
        let tick = world.has_run(HOUR).await;
        world.cron = world.cron.start_within(MINUTE);
        world.jump_to(tick + HOUR * 9 + MINUTE * 30).await;
        let service = world.serve(catch_up);
        world.until_ran(expected).await;
        world.jump_to(tick + HOUR * 10 + MINUTE / 2).await;
        world.until_ran(expected + 1).await;
        service.stop().await;
        let mut ticks: Vec<SystemTime> = world.schedule.after(tick).take(10).collect();
        ticks.drain(..9 - expected);
        assert_eq!(world.ran(), ticks, "{catch_up:?}");
    }
}

#[tokio::test]
async fn a_tick_that_no_host_was_up_for_is_counted_by_the_one_that_comes_back() {
    let mut world = World::new("0 * * * *").ends_at_once();
    let tick = world.has_run(HOUR).await;
    world.cron = world.cron.start_within(MINUTE);
    world.jump_to(tick + HOUR + MINUTE * 30).await;
    let service = world.serve(CatchUp::None);
    world.jump_to(tick + HOUR * 2 + MINUTE / 2).await;
    world.until_ran(1).await;
    service.stop().await;
    let mut metrics = String::new();
    world.client.stats().prometheus(&mut metrics);
    let missed = "leaselock_ticks_total{outcome=\"missed\"} 1\n";
    assert!(metrics.contains(missed), "{metrics}");
}

#[tokio::test]
async fn a_missed_tick_that_runs_late_leaves_the_lateness_of_the_schedule_to_be_read() {
    let mut world = World::new("0 * * * *").ends_at_once();
    let tick = world.has_run(HOUR).await;
    world.cron = world.cron.start_within(MINUTE);
    world.jump_to(tick + HOUR * 2 + MINUTE * 30).await;
    let service = world.serve(CatchUp::Latest);
    world.until_ran(1).await;
    service.stop().await;
    let schedule = world.state().await.schedule;
    assert_eq!(schedule, Some((MINUTE, "UTC 0 * * * *".to_owned())));
}

#[tokio::test]
async fn a_tick_in_the_morning_is_run_by_a_host_that_slept_all_night() {
    let world = World::new("30 2 * * *").ends_at_once();
    let last_night = world.has_run(HOUR * 24).await;
    let service = world.serve(CatchUp::None);
    tokio::time::sleep(Duration::from_millis(20)).await; // the service goes to sleep, or starts after the jump
    let tick = world.schedule.after(last_night).next().unwrap();
    world.jump_to(tick + MINUTE * 10).await;
    world.until_ran(1).await;
    service.stop().await;
    assert_eq!(world.ran(), [tick]);
}

#[tokio::test]
async fn ticks_that_come_during_a_run_are_left_out_and_recorded() {
    let world = World::new("* * * * *");
    let service = world.serve(CatchUp::All);
    world.until_runs(1).await;
    let ticks: Vec<SystemTime> = world.schedule.after(world.ran()[0]).take(4).collect();
    let third_skipped = async |world: &World| world.state().await.skipped >= Some(ticks[2]);
    world
        .until(Duration::from_secs(1), "three left out", third_skipped)
        .await;
    let skipped = world.state().await.skipped.unwrap();
    world.ends.add_permits(Semaphore::MAX_PERMITS / 2);
    world.until_runs(2).await;
    service.stop().await;
    assert!(world.ran()[1] > skipped, "none of those that were left out");
}

#[tokio::test]
async fn ticks_that_come_during_a_run_wait_for_its_end() {
    let mut world = World::new("* * * * *");
    world.cron = world.cron.overlap(Overlap::Wait);
    let services = [world.serve(CatchUp::None), world.serve(CatchUp::None)];
    world.until_runs(1).await;
    world.clock.advance(MINUTE * 3);
    world.ends.add_permits(Semaphore::MAX_PERMITS / 2);
    world.until_runs(4).await;
    for service in services {
        service.stop().await;
    }
    let ran = world.ran();
    assert_eq!(ran, world.in_a_row(ran.len()));
}

#[tokio::test]
async fn a_body_that_fails_has_run_and_the_next_tick_comes() {
    let world = World::new("* * * * *").ends_at_once();
    let cron = world.cron.clone().on_crash(OnCrash::Again);
    let service = world.serve_as(cron, CatchUp::All, Err("no paper".to_owned()));
    world.until_runs(2).await;
    service.stop().await;
    let ran = world.ran();
    assert_eq!(ran, world.in_a_row(ran.len()));
    assert_eq!(world.state().await.state, Some(TickState::Done));
}

#[tokio::test]
async fn a_service_that_stops_waits_for_its_run() {
    let world = World::new("* * * * *");
    let service = world.serve(CatchUp::None);
    world.until_runs(1).await;
    service.stop.send(()).unwrap();
    world.clock.advance(MINUTE * 5);
    let known = world.state().await;
    assert_eq!(known.state, Some(TickState::Running));
    assert!(!service.task.is_finished());
    world.ends.add_permits(1);
    service.task.await.unwrap().unwrap();
    assert_eq!(world.ran(), [known.latest.unwrap()]);
    assert_eq!(world.state().await.state, Some(TickState::Done));
}

#[tokio::test]
async fn a_run_that_crashed_is_followed_by_another_only_if_it_is_to_come_again() {
    for again in [OnCrash::Refuse, OnCrash::Again] {
        let mut world = World::new("* * * * *").ends_at_once();
        world.cron = world.cron.on_crash(again);
        let (tick, crashes) = world.claims_the_next_tick().await;
        let service = world.serve(CatchUp::None);
        tokio::time::sleep(Duration::from_millis(20)).await; // the service may see the run before it crashes, or after
        drop(crashes);
        world.until_runs(1).await;
        service.stop().await;
        let second = world.schedule.after(tick).next().unwrap();
        let expected = if again == OnCrash::Again {
            (tick, 2)
        } else {
            (second, 1)
        };
        assert_eq!(world.log.lock().unwrap()[0], expected, "{again:?}");
    }
}

#[tokio::test]
async fn a_tick_that_was_given_back_is_run_by_a_host_that_found_it_running() {
    let world = World::new("* * * * *").ends_at_once();
    let (tick, gives_back) = world.claims_the_next_tick().await;
    let service = world.serve(CatchUp::None);
    tokio::time::sleep(Duration::from_millis(20)).await; // the service may find it running, or given back
    gives_back.cancel().await.unwrap();
    world.until_runs(1).await;
    service.stop().await;
    assert_eq!(world.log.lock().unwrap()[0], (tick, 1));
}

#[tokio::test]
async fn a_tick_that_crashed_comes_again_although_later_ones_were_left_out() {
    let mut world = World::new("* * * * *").ends_at_once();
    world.cron = world.cron.on_crash(OnCrash::Again);
    let (tick, crashes) = world.claims_the_next_tick().await;
    world.clock.advance(MINUTE);
    let second = world.schedule.after(tick).next().unwrap();
    let left_out = world.cron.claim(second).await.unwrap();
    assert!(matches!(left_out, Claim::Overlap { .. }), "{left_out:?}");
    drop(crashes);
    let service = world.serve(CatchUp::None);
    world.until_runs(2).await;
    service.stop().await;
    let third = world.schedule.after(second).next().unwrap();
    assert_eq!(world.log.lock().unwrap()[..2], [(tick, 2), (third, 1)]);
}

#[tokio::test]
async fn a_service_that_loses_its_run_runs_the_tick_again_if_it_is_to_come_again() {
    for again in [OnCrash::Refuse, OnCrash::Again] {
        let mut world = World::new("*/2 * * * *");
        world.cron = world.cron.on_crash(again).ttl(MINUTE / 2); // the next renewal comes long before the next tick
        let service = world.serve(CatchUp::None);
        world.until_runs(1).await;
        let tick = world.ran()[0];
        let broken = world
            .client
            .break_lease("job", BreakOptions::default().now());
        broken.await.unwrap();
        let ran_twice = async |world: &World| world.ran().len() >= 2;
        let step = Duration::from_millis(200);
        world.until(step, "the next run", ran_twice).await;
        world.ends.add_permits(2);
        service.stop().await;
        let second = world.schedule.after(tick).next().unwrap();
        let expected = if again == OnCrash::Again {
            (tick, 2)
        } else {
            (second, 1)
        };
        assert_eq!(world.log.lock().unwrap()[1], expected, "{again:?}");
    }
}

#[tokio::test]
async fn a_host_that_asks_for_the_next_tick_gets_the_one_that_crashed_if_it_is_to_come_again() {
    for (again, overlap) in [
        (OnCrash::Again, Overlap::Skip),
        (OnCrash::Again, Overlap::Wait),
        (OnCrash::Refuse, Overlap::Wait),
    ] {
        let mut world = World::new("* * * * *");
        world.cron = world.cron.on_crash(again).overlap(overlap);
        let before = world.has_run(MINUTE).await;
        let ticks: Vec<SystemTime> = world.schedule.after(before).take(2).collect();
        world.jump_to(ticks[1]).await;
        let mut runs = world.schedule.runs(world.cron.clone());
        let first = runs.next().await.unwrap();
        assert_eq!((first.tick(), first.attempt()), (ticks[0], 1));
        drop(first);
        let has_crashed =
            async |world: &World| world.state().await.state == Some(TickState::Crashed);
        world.until(Duration::ZERO, "a crash", has_crashed).await;
        let next = runs.next().await.unwrap();
        let expected = if again == OnCrash::Again {
            (ticks[0], 2)
        } else {
            (ticks[1], 1)
        };
        assert_eq!((next.tick(), next.attempt()), expected, "{overlap:?}");
        if again == OnCrash::Again {
            next.finish().await.unwrap();
            let last = runs.next().await.unwrap();
            assert_eq!((last.tick(), last.attempt()), (ticks[1], 1));
        }
    }
}

#[tokio::test]
async fn a_host_that_waits_for_a_far_tick_sees_in_time_that_the_one_before_it_crashed() {
    let mut world = World::new("0 * * * *");
    world.cron = world.cron.on_crash(OnCrash::Again).start_within(MINUTE);
    let before = world.has_run(HOUR).await;
    let tick = world.schedule.after(before).next().unwrap();
    world.jump_to(tick).await;
    let mut runs = world.schedule.runs(world.cron.clone());
    let crashes = runs.next().await.unwrap();
    let next = tokio::spawn(async move {
        let next = runs.next().await.unwrap();
        (next.tick(), next.attempt())
    });
    tokio::time::sleep(Duration::from_millis(20)).await; // it may ask before the crash, or after
    drop(crashes);
    let has_begun = async |_: &World| next.is_finished();
    world
        .until(Duration::from_secs(1), "the next run", has_begun)
        .await;
    assert_eq!(next.await.unwrap(), (tick, 2));
}

/// At the first start of a schedule the ticks that were due before a host asked are none of its own.
#[tokio::test]
async fn a_host_that_began_after_a_tick_runs_it_if_it_crashes_and_is_to_come_again() {
    let mut world = World::new("0 * * * *").ends_at_once();
    world.cron = world.cron.on_crash(OnCrash::Again).start_within(HOUR * 2);
    let now = world.state().await.now;
    let tick = world.schedule.after(now - HOUR).next().unwrap();
    let service = world.serve(CatchUp::None);
    tokio::time::sleep(Duration::from_millis(20)).await; // the service may ask before the run begins, or after
    let Claim::Run(crashes) = world.cron.claim(tick).await.unwrap() else {
        panic!("nobody else is there")
    };
    drop(crashes);
    world.until_runs(1).await;
    service.stop().await;
    assert_eq!(world.log.lock().unwrap()[0], (tick, 2));
}

#[tokio::test]
async fn what_no_schedule_can_have_ends_the_service() {
    let world = World::new("* * * * *");
    for (late, said) in [
        (HOUR * 24 * 367, "at most 366 days late"),
        (Duration::from_millis(999), "at least 1 s"),
    ] {
        let wrong = world.cron.clone().start_within(late);
        let service = world.serve_as(wrong, CatchUp::None, Ok(()));
        let error = service.task.await.unwrap().unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_told_and_ends_no_service() {
    let clock = Clock::manual();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    drop(listener); // no server listens there
    let client = Client::builder().url(&url).clock(clock.clone());
    let cron = client.open().unwrap().cron("job");
    let told = Arc::new(Mutex::new(Vec::new()));
    let errors = Arc::clone(&told);
    let schedule: Schedule = "* * * * *".parse().unwrap();
    let runs = schedule.runs(cron);
    let mut runs = runs.on_error(move |error| errors.lock().unwrap().push(error.to_string()));
    let next = tokio::spawn(async move { runs.next().await.map(drop) });
    // A request gives up after two seconds.
    for _ in 0..10_000 {
        if !told.lock().unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await; // between two checks
    }
    assert_eq!(told.lock().unwrap().len(), 1);
    clock.advance(HOUR);
    assert!(!next.is_finished());
    next.abort();
}
