//! The layer that limits how often.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::StatusCode;
use leaselock::Client;
use leaselock::clock::Clock;
use leaselock::limiter::{Limiter, Rate};
use leaselock_tower::{LimiterLayer, LimiterService, OnError};
use tower_layer::Layer;
use tower_service::Service;

use super::{Backend, field, out_of_reach, request, send};
use crate::support::{eventually, millis, soon};

const SECOND: Duration = Duration::from_secs(1);

/// A store whose time stands still until the test moves it.
fn standing_still() -> (Client, Clock) {
    let clock = Clock::manual();
    let builder = Client::builder().url("mem:").clock(clock.clone());
    (builder.open().unwrap(), clock)
}

fn behind(limiter: Limiter) -> (LimiterService<Backend>, Backend) {
    let backend = Backend::default();
    let layer = LimiterLayer::new(limiter).unwrap();
    (layer.layer(backend.clone()), backend)
}

#[tokio::test]
async fn an_answer_says_how_many_are_left_and_a_refusal_when_to_come_again() {
    let (client, clock) = standing_still();
    let limiter = client.limiter("secret-name", Rate::new(2, 10 * SECOND));
    let (mut service, backend) = behind(limiter);
    for (wait_ms, status, limit, retry_after) in [
        (0, 200, "\"10s\";r=1;t=5", ""),
        (0, 200, "\"10s\";r=0;t=10", ""),
        (0, 429, "\"10s\";r=0;t=5", "5"),
        (4_001, 429, "\"10s\";r=0;t=1", "1"), // 0.999 s is not to be rounded down
        (999, 200, "\"10s\";r=0;t=10", ""),
    ] {
        clock.advance(millis(wait_ms));
        let answer = send(&mut service, request("/", &[])).await;
        let headers = answer.headers();
        assert_eq!(answer.status(), status, "{wait_ms}");
        assert_eq!(field(headers, "ratelimit"), limit, "{wait_ms}");
        assert_eq!(field(headers, "ratelimit-policy"), "\"10s\";q=2;w=10");
        assert_eq!(field(headers, "retry-after"), retry_after, "{wait_ms}");
        let served = if status == 200 { "the service" } else { "" };
        assert_eq!(answer.body(), served);
        assert!(!format!("{answer:?}").contains("secret-name"), "{answer:?}");
    }
    assert_eq!(backend.requests(), 3);
}

/// Two in a tenth of a second, and three in ten seconds.
#[tokio::test]
async fn of_several_rates_the_one_that_decides_is_named() {
    let (client, clock) = standing_still();
    let limiter = client.limiter("api", Rate::new(2, millis(100)));
    let (mut service, _) = behind(limiter.and(Rate::new(3, 10 * SECOND)));
    for (wait_ms, limit) in [
        (0, "\"0.1s\";r=1;t=1"),
        (0, "\"0.1s\";r=0;t=1"),
        (0, "\"0.1s\";r=0;t=1"), // refused, for 50 ms
        (100, "\"10s\";r=0;t=10"),
        (100, "\"10s\";r=0;t=4"), // refused
    ] {
        clock.advance(millis(wait_ms));
        let answer = send(&mut service, request("/", &[])).await;
        assert_eq!(field(answer.headers(), "ratelimit"), limit);
        let policies = "\"0.1s\";q=20;w=1, \"10s\";q=3;w=10";
        assert_eq!(field(answer.headers(), "ratelimit-policy"), policies);
    }
}

#[tokio::test]
async fn each_key_has_a_limit_of_its_own_and_a_request_without_a_key_has_none() {
    let (client, _) = standing_still();
    let layer = LimiterLayer::keyed(move |request| {
        let user = request.headers.get("x-user")?.to_str().ok()?;
        Some(client.limiter(format!("user:{user}"), Rate::per_second(1)))
    });
    let mut service = layer.layer(Backend::default());
    for (headers, status) in [
        (&[("x-user", "ann")][..], 200),
        (&[("x-user", "ann")], 429),
        (&[("x-user", "bob")], 200),
        (&[], 200),
        (&[], 200),
    ] {
        let answer = send(&mut service, request("/", headers)).await;
        assert_eq!(answer.status(), status, "{headers:?}");
        let has_field = answer.headers().contains_key("ratelimit");
        assert_eq!(has_field, !headers.is_empty(), "{headers:?}");
    }
}

/// What the service or a layer within says about other limits stays beside it.
#[tokio::test]
async fn the_fields_of_the_service_stay() {
    let (client, _) = standing_still();
    let (mut service, _) = behind(client.limiter("api", Rate::per_second(5)));
    let own = [("ratelimit", "\"daily\";r=7;t=60")];
    let answer = send(&mut service, request("/", &own)).await;
    let both = "\"daily\";r=7;t=60, \"1s\";r=4;t=1";
    assert_eq!(field(answer.headers(), "ratelimit"), both);
}

#[tokio::test]
async fn a_request_costs_what_the_program_says() {
    let (client, _) = standing_still();
    let limiter = client.limiter("api", Rate::per_second(10));
    let layer = LimiterLayer::new(limiter).unwrap();
    let layer = layer.cost(|request| request.uri.path()[1..].parse().unwrap());
    let mut service = layer.layer(Backend::default());
    for (path, status, limit) in [
        ("/7", 200, "\"1s\";r=3;t=1"),
        ("/4", 429, "\"1s\";r=0;t=1"),
        ("/3", 200, "\"1s\";r=0;t=1"),
        ("/0", 200, ""),
        ("/11", 400, ""), // more than a burst: never
    ] {
        let answer = send(&mut service, request(path, &[])).await;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(field(answer.headers(), "ratelimit"), limit, "{path}");
    }
}

#[tokio::test]
async fn a_limiter_that_nothing_can_use_is_refused_when_the_layer_is_made() {
    let (client, _) = standing_still();
    for limiter in [
        client.limiter("api", Rate::per_second(0)),
        client.limiter("two\nlines", Rate::per_second(1)),
    ] {
        assert!(LimiterLayer::new(limiter).is_err());
    }
}

/// A client that sends a key that no limiter can have must not get past the limit.
#[tokio::test]
async fn a_key_that_is_out_of_range_is_never_let_through() {
    let (client, _) = standing_still();
    let layer = LimiterLayer::keyed(move |request| {
        Some(client.limiter(request.uri.path().repeat(1000), Rate::per_second(1)))
    });
    let backend = Backend::default();
    let mut service = layer.on_error(OnError::Admit).layer(backend.clone());
    let answer = send(&mut service, request("/long", &[])).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert_eq!(backend.requests(), 0);
}

#[tokio::test]
async fn a_store_out_of_reach_refuses_or_admits_as_the_program_says_and_tells_nothing() {
    for wait in [Duration::ZERO, SECOND] {
        for (on_error, status) in [(None, 503), (Some(OnError::Admit), 200)] {
            let limiter = out_of_reach().limiter("secret-name", Rate::per_second(1));
            let mut layer = LimiterLayer::new(limiter).unwrap().wait(wait);
            if let Some(on_error) = on_error {
                layer = layer.on_error(on_error);
            }
            let mut service = layer.layer(Backend::default());
            let answer = send(&mut service, request("/", &[])).await;
            assert_eq!(answer.status(), status);
            assert!(answer.headers().is_empty(), "{answer:?}");
            let body = if status == 200 { "the service" } else { "" };
            assert_eq!(answer.body(), body);
        }
    }
}

/// A request that waits for its moment, and one with another key behind it.
#[tokio::test]
async fn a_request_that_waits_keeps_no_other_one_waiting() {
    let (client, clock) = standing_still();
    let limiter_of = {
        let client = client.clone();
        move |key: &str| client.limiter(key, Rate::per_second(1))
    };
    let one = limiter_of("/one");
    let layer = LimiterLayer::keyed(move |request| Some(limiter_of(request.uri.path())));
    let mut service = layer.wait(SECOND).layer(Backend::default());
    assert_eq!(send(&mut service, request("/one", &[])).await.status(), 200);
    let mut waiting = service.clone();
    let waits = tokio::spawn(async move { send(&mut waiting, request("/one", &[])).await });
    eventually("it has reserved", async || {
        one.try_acquire().await.unwrap().retry_after() > SECOND
    })
    .await;
    assert_eq!(send(&mut service, request("/two", &[])).await.status(), 200);
    // Its moment would be in two seconds.
    let refused = send(&mut service, request("/one", &[])).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(refused.headers(), "retry-after"), "2");
    clock.advance(SECOND);
    let waited = soon(waits).await.unwrap();
    assert_eq!(waited.status(), StatusCode::OK);
    assert_eq!(field(waited.headers(), "ratelimit"), "\"1s\";r=0;t=1");
}

#[tokio::test]
async fn the_moment_of_a_client_that_went_away_is_given_back() {
    let (client, _) = standing_still();
    let limiter = client.limiter("api", Rate::per_second(1));
    let layer = LimiterLayer::new(limiter.clone()).unwrap();
    let mut service = layer.wait(SECOND).layer(Backend::default());
    assert_eq!(send(&mut service, request("/", &[])).await.status(), 200);
    let waits = tokio::spawn(async move { send(&mut service, request("/", &[])).await });
    let retry_after = async || limiter.try_acquire().await.unwrap().retry_after();
    eventually("it has reserved", async || retry_after().await > SECOND).await;
    waits.abort();
    eventually("it is given back", async || retry_after().await == SECOND).await;
}

/// Says no to every question whether it is ready.
#[derive(Clone)]
struct Busy;

impl Service<http::Request<()>> for Busy {
    type Response = http::Response<String>;
    type Error = std::convert::Infallible;
    type Future = super::Reply;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Pending
    }

    fn call(&mut self, _: http::Request<()>) -> super::Reply {
        unreachable!("it is never ready")
    }
}

#[test]
fn the_layer_is_ready_when_its_service_is() {
    let limiter = standing_still().0.limiter("api", Rate::per_second(1));
    let mut busy = LimiterLayer::new(limiter).unwrap().layer(Busy);
    let context = &mut Context::from_waker(Waker::noop());
    assert!(busy.poll_ready(context).is_pending());
}

trait RetryAfter {
    fn retry_after(self) -> Duration;
}

impl RetryAfter for leaselock::limiter::RateDecision {
    fn retry_after(self) -> Duration {
        match self {
            leaselock::limiter::RateDecision::Limited { retry_after } => retry_after,
            leaselock::limiter::RateDecision::Allowed { .. } => Duration::ZERO,
        }
    }
}
