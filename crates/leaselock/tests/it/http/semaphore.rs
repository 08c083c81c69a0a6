//! The layer that limits how many at a time, and both layers together.

use std::time::Duration;

use http::{Response, StatusCode};
use leaselock::limiter::Rate;
use leaselock::{Client, Semaphore};
use leaselock_tower::{LimiterLayer, OnError, SemaphoreLayer, SemaphoreService};
use tokio::task::JoinHandle;
use tower_layer::Layer;

use super::{Backend, out_of_reach, request, send};
use crate::support::{PATIENCE, eventually, soon, until_queued};

fn memory() -> Client {
    Client::open("mem:").unwrap()
}

async fn used(client: &Client, name: &str) -> u32 {
    let seen = client.inspect(name).await.unwrap();
    seen.permits.map_or(0, |permits| permits.used)
}

/// A request that runs until the service may answer it.
async fn slow(
    service: &SemaphoreService<Backend>,
    backend: &Backend,
) -> JoinHandle<Response<String>> {
    let mut service = service.clone();
    let running = backend.running();
    let slow = tokio::spawn(async move { send(&mut service, request("/slow", &[])).await });
    eventually("it runs", async || backend.running() > running).await;
    slow
}

fn around(backend: &Backend, slots: Semaphore) -> SemaphoreService<Backend> {
    SemaphoreLayer::new(slots).unwrap().layer(backend.clone())
}

#[tokio::test]
async fn so_many_requests_run_at_a_time_and_the_next_one_is_refused() {
    let (client, backend) = (memory(), Backend::default());
    let mut service = around(&backend, client.semaphore("slots", 2));
    let [first, second] = [
        slow(&service, &backend).await,
        slow(&service, &backend).await,
    ];
    let refused = send(&mut service, request("/", &[])).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((refused.body().as_str(), backend.requests()), ("", 2));
    for answer in [first, second] {
        backend.answers_a_slow_one();
        let answer = soon(answer).await.unwrap();
        assert_eq!(
            (answer.status(), answer.body().as_str()),
            (StatusCode::OK, "the service")
        );
    }
    eventually("the permits are back", async || {
        used(&client, "slots").await == 0
    })
    .await;
    assert_eq!(send(&mut service, request("/", &[])).await.status(), 200);
}

#[tokio::test]
async fn each_key_has_its_own_permits_and_a_request_without_a_key_needs_none() {
    let (client, backend) = (memory(), Backend::default());
    let layer = SemaphoreLayer::keyed(move |request| {
        let user = request.headers.get("x-user")?.to_str().ok()?;
        Some(client.semaphore(user, 1))
    });
    let mut service = layer.on_error(OnError::Admit).layer(backend.clone());
    let anns = [("x-user", "ann")];
    let mut first = service.clone();
    let first = tokio::spawn(async move { send(&mut first, request("/slow", &anns)).await });
    eventually("it runs", async || backend.running() == 1).await;
    for (headers, status) in [
        (&anns[..], 429),
        (&[("x-user", "bob")], 200),
        (&[], 200),
        (&[("x-user", "")], 400), // never let through
    ] {
        let answer = send(&mut service, request("/", headers)).await;
        assert_eq!(answer.status(), status, "{headers:?}");
    }
    backend.answers_a_slow_one();
    assert_eq!(soon(first).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_that_waits_runs_when_a_permit_comes_back() {
    let (client, backend) = (memory(), Backend::default());
    let layer = SemaphoreLayer::new(client.semaphore("slots", 1)).unwrap();
    let service = layer.wait(PATIENCE).layer(backend.clone());
    let first = slow(&service, &backend).await;
    let mut next = service.clone();
    let next = tokio::spawn(async move { send(&mut next, request("/", &[])).await });
    until_queued(&client, "slots", 1).await;
    assert_eq!(backend.requests(), 1);
    backend.answers_a_slow_one();
    assert_eq!(soon(first).await.unwrap().status(), StatusCode::OK);
    assert_eq!(soon(next).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn the_permit_of_a_client_that_went_away_comes_back() {
    let (client, backend) = (memory(), Backend::default());
    let service = around(&backend, client.semaphore("slots", 1));
    let gone = slow(&service, &backend).await;
    gone.abort();
    eventually("its permit is back", async || {
        used(&client, "slots").await == 0
    })
    .await;
    assert_eq!(backend.running(), 0);
}

#[tokio::test]
async fn a_store_out_of_reach_refuses_or_admits_as_the_program_says() {
    for wait in [Duration::ZERO, Duration::from_millis(50)] {
        for (on_error, status) in [(OnError::default(), 503), (OnError::Admit, 200)] {
            let slots = out_of_reach().semaphore("secret-name", 1);
            let layer = SemaphoreLayer::new(slots).unwrap();
            let layer = layer.wait(wait).on_error(on_error);
            let mut service = layer.layer(Backend::default());
            let answer = send(&mut service, request("/", &[])).await;
            assert_eq!(answer.status(), status, "{wait:?}");
            assert!(answer.headers().is_empty(), "{answer:?}");
        }
    }
}

/// The permit first: a request that gets none uses up nothing of the rate.
#[tokio::test]
async fn with_both_layers_a_request_without_a_permit_costs_no_rate_and_one_without_a_rate_no_permit()
 {
    let (client, backend) = (memory(), Backend::default());
    let rate = client.limiter("api", Rate::per_hour(2));
    let limited = LimiterLayer::new(rate).unwrap().layer(backend.clone());
    let slots = SemaphoreLayer::new(client.semaphore("slots", 1)).unwrap();
    let mut service = slots.layer(limited);

    let mut first = service.clone();
    let first = tokio::spawn(async move { send(&mut first, request("/slow", &[])).await });
    eventually("it runs", async || backend.running() == 1).await;
    let refused = send(&mut service, request("/", &[])).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    backend.answers_a_slow_one();
    let first = soon(first).await.unwrap();
    assert!(
        first.headers()["ratelimit"]
            .to_str()
            .unwrap()
            .contains("r=1")
    );

    for status in [200, 429] {
        eventually("the permit is back", async || {
            used(&client, "slots").await == 0
        })
        .await;
        assert_eq!(send(&mut service, request("/", &[])).await.status(), status);
    }
    eventually("the permit is back", async || {
        used(&client, "slots").await == 0
    })
    .await;
}
