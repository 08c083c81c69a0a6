//! Ticks of a schedule: between hosts whose clocks differ, processes that crash, and when requests or replies are lost.

mod faults;
mod hosts;
mod schedule;

use std::time::{Duration, SystemTime};

use leaselock::cron::{Claim, Cron, CronRun, TickState};
use leaselock::options::OnCrash;
use leaselock::{Client, Lease};
use testkit::Server;

pub(crate) use self::faults::obeys;
use crate::support::{LONG, calls, eventually, introduced, pttl, soon, waiter};

const HOUR_MS: i64 = 60 * 60 * 1000;
const DAY_MS: i64 = 24 * HOUR_MS;

async fn server_time(cron: &Cron) -> SystemTime {
    cron.state().await.unwrap().now
}

async fn run(cron: &Cron, tick: SystemTime) -> Lease<CronRun> {
    match soon(cron.claim(tick)).await.unwrap() {
        Claim::Run(run) => run,
        other => panic!("{other:?}"),
    }
}

async fn is_over(cron: &Cron, tick: SystemTime) -> bool {
    matches!(soon(cron.claim(tick)).await.unwrap(), Claim::Over)
}

async fn latest(cron: &Cron) -> Option<TickState> {
    cron.state().await.unwrap().state
}

#[tokio::test]
async fn a_tick_costs_two_commands_and_each_other_host_one() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let cron = client.cron("job").ttl(LONG);
    let tick = server_time(&cron).await;
    run(&cron, tick).await.finish().await.unwrap();
    introduced(&server, &client).await;
    let tick = server_time(&cron).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    run(&cron, tick).await.finish().await.unwrap();
    assert_eq!(calls(&server, "evalsha"), 2);
    assert!(is_over(&cron, tick).await);
    assert_eq!(calls(&server, "evalsha"), 3);
}

#[tokio::test]
async fn a_tick_is_remembered_for_more_than_a_year() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let cron = client.cron("job").ttl(LONG);
    let left = || pttl(&server, "{job}:ll:cron");
    let run = run(&cron, server_time(&cron).await).await;
    assert!(left() > 366 * DAY_MS, "{}", left());
    run.finish().await.unwrap();
    assert!(left() > 366 * DAY_MS, "{}", left());
    assert_eq!(pttl(&server, "job"), -2);
    let lease = client.mutex("other").acquire().await.unwrap();
    let other = client.cron("other");
    let told = other.claim(server_time(&other).await).await.unwrap();
    assert!(matches!(told, Claim::Overlap { .. }), "{told:?}");
    assert!(pttl(&server, "{other}:ll:cron") > 366 * DAY_MS);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn ticks_of_an_hour_that_comes_again_are_over() {
    let server = Server::builder().shifted_clock().start();
    let client = Client::open(&server.url()).unwrap();
    let cron = client.cron("job").ttl(LONG * 60 * 3);
    let tick = server_time(&cron).await;
    run(&cron, tick).await.finish().await.unwrap();
    server.set_clock_offset_ms(-HOUR_MS);
    let again = server_time(&cron).await;
    assert!(again < tick);
    assert!(is_over(&cron, again).await);
    assert!(is_over(&cron, tick).await, "although it is not due now");
    let told = cron.claim(tick + LONG).await.unwrap();
    assert!(matches!(told, Claim::Early { .. }), "{told:?}");
}

#[tokio::test]
async fn ticks_that_were_claimed_while_the_clock_was_days_ahead_end_no_schedule() {
    let server = Server::builder().shifted_clock().start();
    let client = Client::open(&server.url()).unwrap();
    let cron = client.cron("job").ttl(LONG);
    server.set_clock_offset_ms(400 * DAY_MS);
    let wrong = server_time(&cron).await;
    run(&cron, wrong).await.finish().await.unwrap();
    let lease = client.mutex("job").acquire().await.unwrap();
    let told = cron.claim(wrong + Duration::from_micros(1)).await.unwrap();
    assert!(matches!(told, Claim::Overlap { .. }), "{told:?}");
    lease.release().await.unwrap();
    server.set_clock_offset_ms(0);
    let state = cron.state().await.unwrap();
    assert_eq!((state.latest, state.skipped), (None, None));
    let now = server_time(&cron).await;
    run(&cron, now).await.finish().await.unwrap();
    assert!(is_over(&cron, now).await);
}

/// All its scripts ask at the gate, or hand over only behind an open one.
#[tokio::test]
async fn in_strict_mode_a_tick_begins_behind_an_open_gate_only_and_ends_behind_a_closed_one() {
    let server = Server::start();
    let builder = Client::builder().url(&server.url()).strict(LONG);
    let client = builder.open().unwrap();
    client.init_strict().await.unwrap();
    let cron = client.cron("job").on_crash(OnCrash::Again);
    let tick = server_time(&cron).await;
    run(&cron, tick).await.cancel().await.unwrap();
    assert_eq!(latest(&cron).await, None);
    drop(run(&cron, tick).await);
    eventually("it has crashed", async || {
        latest(&cron).await == Some(TickState::Crashed)
    })
    .await;
    let second = run(&cron, tick).await;
    assert_eq!(second.attempt(), 2);
    let queue = waiter(&client, "job", LONG);
    crate::support::until_queued(&client, "job", 1).await;
    // As after a restart with the data: the gate is that of another server.
    let gate = format!("0123456789abcdef 0 {}", LONG.as_millis());
    let closes = || server.cli(&["SET", "ll:gate", &gate]);
    closes();
    second.finish().await.unwrap();
    assert_eq!(pttl(&server, "job"), -2, "no one was granted");
    assert_eq!(latest(&cron).await, Some(TickState::Done));
    queue.abort();
    crate::support::until_queued(&client, "job", 0).await;
    // Nothing is claimed while the gate is closed. The wait is as long as the tick may be late.
    closes();
    let closed = tokio::spawn({
        let other = client.cron("other");
        async move { other.claim(tick).await }
    });
    eventually("it has asked at the gate", async || {
        server.cli(&["GET", "ll:gate"]).text() != Some(&*gate)
    })
    .await;
    assert!(!closed.is_finished());
    let other = client.cron("other");
    assert_eq!(latest(&other).await, None);
    closed.abort();
}
