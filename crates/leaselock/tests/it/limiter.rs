//! The limiter on a server: many clients, what a wait costs, and a clock that goes back.

use std::sync::Arc;
use std::time::Duration;

use leaselock::limiter::{LimiterError, Rate, RateDecision};
use leaselock::{Client, ErrorKind};
use testkit::{Server, Value};
use tokio::task::JoinSet;

use crate::support::{calls, eventually, millis, soon};

const SECOND: Duration = Duration::from_secs(1);

/// The server's `TIME` in microseconds.
fn time_us(server: &Server) -> u64 {
    let time = server.cli(&["TIME"]);
    let part = |at: usize| -> u64 { time.list().unwrap()[at].text().unwrap().parse().unwrap() };
    part(0) * 1_000_000 + part(1)
}

/// By the server's clock, and at each moment: the time is read after the permit, so there is never less of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_clients_that_want_more_than_the_rate_get_the_rate_and_the_burst_and_no_more() {
    const CLIENTS: u64 = 4;
    const EACH: u64 = 150;
    const RATE: u32 = 500;
    const BURST: u32 = 30;
    let server = Arc::new(Server::start());
    let start_us = time_us(&server);
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let client = Client::open(&server.url()).unwrap();
        let limiter = client.limiter("api", Rate::per_second(RATE).burst(BURST));
        let server = Arc::clone(&server);
        tasks.spawn(async move {
            let mut acted = Vec::new();
            while acted.len() < usize::try_from(EACH).unwrap() {
                // Those who try and those who wait, in turn.
                match acted.len() % 2 {
                    0 => soon(limiter.acquire()).await.unwrap(),
                    _ if limiter.try_acquire().await.unwrap().is_allowed() => {}
                    _ => soon(limiter.acquire_within(SECOND)).await.unwrap(),
                }
                let server = Arc::clone(&server);
                let now = tokio::task::spawn_blocking(move || time_us(&server));
                acted.push(now.await.unwrap());
            }
            acted
        });
    }
    let mut acted: Vec<u64> = Vec::new();
    while let Some(task) = soon(tasks.join_next()).await {
        acted.extend(task.unwrap());
    }
    acted.sort_unstable();
    assert_eq!(acted.len(), usize::try_from(CLIENTS * EACH).unwrap());
    for (count, at_us) in (1..).zip(acted) {
        let paid_us = (count - u64::min(count, u64::from(BURST))) * 1_000_000 / u64::from(RATE);
        assert!(
            at_us - start_us >= paid_us,
            "{count} after {} us",
            at_us - start_us
        );
    }
}

/// A wait is one request. One that is given up in the middle costs those behind it nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_act_in_the_order_of_arrival_with_one_request_each() {
    const WAITERS: i64 = 8;
    let server = Server::start();
    let clients = [0, 1].map(|_| Client::open(&server.url()).unwrap());
    for client in &clients {
        let other = client.limiter("other", Rate::per_second(1));
        other.acquire().await.ok(); // sends the script
    }
    server.cli(&["CONFIG", "RESETSTAT"]);
    let (acts, mut order) = tokio::sync::mpsc::unbounded_channel();
    let api = |waiter: i64| {
        let client = &clients[usize::from(waiter % 2 == 0)];
        client.limiter("api", Rate::per_second(8).burst(1))
    };
    api(0).acquire().await.unwrap();
    let mut waiters = Vec::new();
    for waiter in 0..WAITERS {
        let (limiter, acts) = (api(waiter), acts.clone());
        let before = calls(&server, "zadd");
        waiters.push(tokio::spawn(async move {
            limiter.acquire().await.unwrap();
            acts.send(waiter).unwrap();
        }));
        eventually("it has reserved", async || calls(&server, "zadd") > before).await;
    }
    drop(acts);
    let requests = || calls(&server, "evalsha") + calls(&server, "eval");
    assert_eq!(requests(), 1 + usize::try_from(WAITERS).unwrap());
    waiters[6].abort();
    let mut seen = Vec::new();
    while let Some(waiter) = soon(order.recv()).await {
        seen.push(waiter);
    }
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 7]);
}

/// It has no entry for each permit.
#[tokio::test]
async fn the_state_of_a_rate_is_small_however_many_permits_there_are() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let day = 24 * 3600 * SECOND;
    for (limit, period, burst) in [
        (1, 30 * day, 1),
        (10_000, SECOND, 10_000),
        (1_000_000, SECOND, 4_000_000_000),
        (999_983, day, 52_124), // the largest numbers that are computed exactly
    ] {
        let limiter = client.limiter("api", Rate::new(limit, period).burst(burst));
        limiter.acquire_many(burst).await.unwrap();
        let state = server.cli(&["MEMORY", "USAGE", "{api}:ll:limiter"]);
        assert!(state.integer().unwrap() <= 200, "{limit}: {state:?}");
        server.cli(&["DEL", "{api}:ll:limiter"]);
    }
}

/// Without its own clock a limiter would wait until the server's has caught up.
#[tokio::test]
async fn when_the_servers_clock_goes_back_permits_come_as_before() {
    let server = Server::builder().shifted_clock().start();
    let client = Client::open(&server.url()).unwrap();
    let limiter = client.limiter("api", Rate::per_second(20).burst(1));
    for offset_ms in [0, -3_600_000, -3_600_500, -86_400_000] {
        server.set_clock_offset_ms(offset_ms);
        for _ in 0..3 {
            soon(limiter.acquire_within(SECOND)).await.unwrap();
        }
        let RateDecision::Limited { retry_after } = limiter.try_acquire().await.unwrap() else {
            continue; // the machine was slow
        };
        assert!(retry_after <= millis(50), "{retry_after:?}");
    }
}

/// A reply that is lost counts as used. The reservation of a wait is the same when it is asked for again.
#[tokio::test]
async fn a_wait_whose_reply_is_lost_has_one_reservation() {
    let server = Server::start();
    let proxy = testkit::Proxy::to(server.port());
    let client = Client::open(&proxy.url()).unwrap();
    let limiter = client.limiter("api", Rate::per_hour(1).burst(1));
    limiter.acquire().await.unwrap();
    let (bytes, how) = (0, testkit::Cut::Reset);
    proxy.set(
        testkit::Way::ToClient,
        testkit::Fault::CutAfter { bytes, how },
    );
    let waits = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire().await }
    });
    let reserved = || server.cli(&["ZCARD", "{api}:ll:reserved"]).integer();
    eventually("it has asked again", async || {
        calls(&server, "zscore") >= 2 && reserved() == Some(1)
    })
    .await;
    waits.abort();
    eventually("it is given back", async || reserved() == Some(0)).await;
    let RateDecision::Limited { retry_after } = limiter.try_acquire().await.unwrap() else {
        panic!("one permit in an hour")
    };
    assert!(retry_after <= 3600 * SECOND, "{retry_after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_a_client_waits_until_its_reservations_are_given_back() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let limiter = client.limiter("api", Rate::per_hour(1).burst(1));
    limiter.acquire().await.unwrap();
    let waits = tokio::spawn(async move { limiter.acquire().await });
    let reserved = || server.cli(&["ZCARD", "{api}:ll:reserved"]).integer();
    eventually("it has reserved", async || reserved() == Some(1)).await;
    waits.abort();
    drop(waits.await);
    let closed = client.close().await;
    assert_eq!((closed.released, closed.unconfirmed), (1, 0));
    assert_eq!(reserved(), Some(0));
}

/// What lies there is no limiter of ours: it is refused, and stays as it is.
#[tokio::test]
async fn another_value_under_the_key_is_refused_and_left_alone() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let key = "{api}:ll:limiter";
    for (kind, write) in [
        (ErrorKind::Corrupt, &["SET", key, "something"][..]),
        (ErrorKind::WrongType, &["HSET", key, "some", "thing"][..]),
    ] {
        server.cli(&["DEL", key]);
        server.cli(write);
        let limiter = client.limiter("api", Rate::per_second(1));
        for refused in [
            limiter.try_acquire().await.map(drop),
            limiter.acquire().await,
        ] {
            let LimiterError::Store { source, .. } = refused.unwrap_err() else {
                panic!("{kind:?}")
            };
            assert_eq!(source.kind(), kind, "{source}");
        }
        assert_eq!(server.cli(&["DEL", key]), Value::Integer(1));
    }
}
