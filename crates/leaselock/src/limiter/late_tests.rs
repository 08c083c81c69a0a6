//! Callers that wake up later than the moment that they reserved.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use super::calls::LimiterError;
use super::handle::RateDecision;
use super::rate::Rate;
use crate::base::clock::Clock;
use crate::client::Client;

/// How long the limiter would make the next caller wait, after a wait of a second that woke up so late.
async fn retry_after_a_wait_that_is_late_by(late: Duration) -> Duration {
    const SECOND: Duration = Duration::from_secs(1);
    let clock = Clock::manual();
    let builder = Client::builder().url("mem:").clock(clock.clone());
    let client = builder.open().unwrap();
    let limiter = client.limiter("api", Rate::per_second(1).burst(1));
    limiter.acquire().await.unwrap();
    let waits = limiter.clone();
    let waits = tokio::spawn(async move { waits.acquire().await });
    for _ in 0..100 {
        tokio::task::yield_now().await; // nothing but that task runs on this thread: it sleeps then
    }
    clock.advance(SECOND + late);
    waits.await.unwrap().unwrap();
    match limiter.try_acquire().await.unwrap() {
        RateDecision::Limited { retry_after } => retry_after,
        RateDecision::Allowed { .. } => Duration::ZERO,
    }
}

/// A process that was frozen would act together with those whose moment it is by then.
#[tokio::test]
async fn a_caller_that_wakes_up_later_than_a_burst_takes_asks_again() {
    for (late_ms, retry_after_ms) in [
        (0, 1000),
        (400, 600),
        (1000, 0),
        (1001, 1000),
        (60_000, 1000),
    ] {
        let late = Duration::from_millis(late_ms);
        let retry_after = retry_after_a_wait_that_is_late_by(late).await;
        assert_eq!(
            retry_after,
            Duration::from_millis(retry_after_ms),
            "{late:?}"
        );
    }
}

/// Its own first request has used the permits, so `TimedOut` would say that nothing was used.
#[cfg(feature = "redis")]
#[tokio::test]
async fn a_request_that_is_limited_by_its_own_first_one_whose_reply_was_lost_may_count_as_used() {
    use testkit::{Cut, Fault, Proxy, Server, Way};
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let client = Client::open(&proxy.url()).unwrap();
    let limiter = |name: &str| client.limiter(name, Rate::per_minute(1));
    limiter("warm").acquire().await.unwrap();
    let how = Cut::Reset;
    proxy.set(Way::ToClient, Fault::CutAfter { bytes: 0, how });
    let told = limiter("api").acquire_within(Duration::from_secs(1)).await;
    let told = told.unwrap_err();
    assert!(matches!(told, LimiterError::Store { .. }), "{told:?}");
    let next = limiter("api").try_acquire().await.unwrap();
    assert!(!next.is_allowed(), "it counts as used");
}
