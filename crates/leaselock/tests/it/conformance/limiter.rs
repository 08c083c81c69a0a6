//! The rate limiter.

use std::time::Duration;

use leaselock::Client;
use leaselock::limiter::{Limiter, LimiterError, Rate, RateDecision};
use testkit::clock;
use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::support::{eventually, millis, soon};

const HOUR: Duration = Duration::from_secs(3600);

async fn pair(engine: &Engine) -> [Client; 2] {
    [
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
    ]
}

/// One permit in an hour, so that none is paid for while a test runs.
fn slow(client: &Client, burst: u32) -> Limiter {
    client.limiter("api", Rate::per_hour(1).burst(burst))
}

async fn retry_after(limiter: &Limiter, cost: u32) -> Duration {
    match limiter.try_acquire_many(cost).await.unwrap() {
        RateDecision::Limited { retry_after } => retry_after,
        allowed @ RateDecision::Allowed { .. } => panic!("{allowed:?}"),
    }
}

pub(super) async fn all_clients_together_use_the_burst_and_no_more(engine: &Engine) {
    let [one, two] = pair(engine).await.map(|client| slow(&client, 4));
    for (limiter, cost, left) in [(&one, 1, 3), (&two, 2, 1)] {
        let allowed = limiter.try_acquire_many(cost).await.unwrap();
        assert_eq!(allowed, RateDecision::Allowed { left });
    }
    assert!(retry_after(&two, 2).await <= HOUR);
    one.acquire().await.unwrap();
    for limiter in [&one, &two] {
        let [first, third] = [retry_after(limiter, 1).await, retry_after(limiter, 3).await];
        assert!(first <= HOUR && third > 2 * HOUR && third <= 3 * HOUR);
    }
    // A second rate counts too, and so does that of another name.
    let both = one.clone().and(Rate::new(1, HOUR / 2));
    assert!(retry_after(&both, 1).await > HOUR / 2);
    let client = engine.client_of_one_store().await;
    let other = client
        .limiter("other", Rate::per_hour(1000))
        .and(Rate::new(2, HOUR / 2));
    let allowed = other.try_acquire().await.unwrap();
    assert_eq!(allowed, RateDecision::Allowed { left: 1 });
}

/// Two clients with many tasks: as long as there are permits to wait for, they come at the rate and not sooner.
pub(super) async fn those_who_wait_act_at_the_rate_and_not_sooner(engine: &Engine) {
    const TASKS: u32 = 12;
    const BURST: u32 = 2;
    let [one, two] = pair(engine).await;
    let start = clock::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let client = if task % 2 == 0 { &one } else { &two };
        let limiter = client.limiter("api", Rate::new(40, millis(1000)).burst(BURST));
        tasks.spawn(async move {
            limiter.acquire().await.unwrap();
            clock::now()
        });
    }
    let mut acted: Vec<Duration> = Vec::new();
    while let Some(at) = soon(tasks.join_next()).await {
        acted.push(at.unwrap() - start);
    }
    acted.sort_unstable();
    for (index, at) in (1..).zip(acted) {
        assert!(
            at >= millis(25) * (index - u32::min(index, BURST)),
            "{index}: {at:?}"
        );
    }
}

pub(super) async fn a_wait_that_would_take_too_long_is_refused_at_once_and_reserves_nothing(
    engine: &Engine,
) {
    let [one, two] = pair(engine).await.map(|client| slow(&client, 1));
    soon(one.acquire_within(millis(0))).await.unwrap();
    let before = retry_after(&two, 1).await;
    for limit in [millis(0), HOUR / 2] {
        let refused = soon(two.acquire_within(limit)).await.unwrap_err();
        let LimiterError::TimedOut { retry_after, .. } = refused else {
            panic!("{refused}")
        };
        assert!(retry_after <= before && retry_after > HOUR / 2);
    }
    assert!(retry_after(&one, 1).await <= before);
}

pub(super) async fn a_wait_that_is_dropped_gives_back_what_it_has_reserved(engine: &Engine) {
    let [one, two] = pair(engine).await.map(|client| slow(&client, 1));
    one.acquire().await.unwrap();
    let [first, second] = [&one, &two].map(|limiter| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire().await })
    });
    eventually("both have reserved", async || {
        retry_after(&two, 1).await > 2 * HOUR
    })
    .await;
    for waits in [first, second] {
        waits.abort();
        drop(waits.await);
    }
    eventually("nothing is left of them", async || {
        retry_after(&two, 1).await <= HOUR
    })
    .await;
}

pub(super) async fn what_a_limiter_cannot_allow_is_refused_and_nothing_is_sent(engine: &Engine) {
    let client = engine.client_of_one_store().await;
    let limiter = client.limiter("api", Rate::per_hour(10).burst(5));
    let with = |rate| client.limiter("api", rate);
    for (refused, right) in [
        (
            limiter.try_acquire_many(0).await.map(drop),
            "1 to 5 permits",
        ),
        (limiter.acquire_many(6).await, "1 to 5 permits"),
        (
            limiter
                .clone()
                .and(Rate::new(2, HOUR * 2))
                .acquire_many(3)
                .await,
            "1 to 2",
        ),
        (
            with(Rate::per_hour(1).burst(0)).acquire().await,
            "at least 1 permit",
        ),
        (with(Rate::per_hour(0)).acquire().await, "at least 1"),
        (with(Rate::new(1, millis(0))).acquire().await, "1 ms to"),
        (
            client.limiter("", Rate::per_hour(1)).acquire().await,
            "one byte",
        ),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, LimiterError::Invalid(_)), "{refused}");
        assert!(refused.to_string().contains(right), "{refused}");
    }
    let allowed = limiter.try_acquire_many(5).await.unwrap();
    assert_eq!(allowed, RateDecision::Allowed { left: 0 });
    if engine.lists {
        assert_eq!(client.list("*").await.unwrap().len(), 0); // it is no lock
    }
    let free = client.mutex("api").try_acquire().await.unwrap();
    free.unwrap().release().await.unwrap();
}
