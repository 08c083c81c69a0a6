//! The layer for HTTP services, around a service that keeps a number.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use http::request::Parts;
use http::{Request, Response, StatusCode};
use leaselock::{Name, Sequencer};
use leaselock_tower::{FENCE_SEEN, FenceLayer, FenceService, FenceStats, SEQUENCER};
use tokio::sync::Notify;
use tower_layer::Layer as _;
use tower_service::Service;

use super::{Late, NAME, Resource, refuses_whoever_is_late, rounds, shown};

/// `GET` reads the number, `PUT` writes it. `/slow` writes when it is told to.
#[derive(Clone, Default)]
struct Balance {
    value: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
    may_write: Arc<Notify>,
    shown: Arc<Mutex<Option<Sequencer>>>,
}

type Reply = Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

impl Service<Request<String>> for Balance {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Reply;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Reply {
        let this = self.clone();
        Box::pin(async move {
            this.requests.fetch_add(1, Ordering::Relaxed);
            *this.shown.lock().unwrap() = request.extensions().get().cloned();
            if request.uri().path() == "/slow" {
                this.may_write.notified().await;
            }
            if request.method() == "PUT" {
                let value = request.body().parse().unwrap();
                this.value.store(value, Ordering::Relaxed);
            }
            let value = this.value.load(Ordering::Relaxed);
            Ok(Response::new(value.to_string()))
        })
    }
}

type Guarded = FenceService<fn(&Parts) -> Option<Name>, Balance>;

fn name_of(request: &Parts) -> Option<Name> {
    let is_open = request.uri.path() == "/health";
    (!is_open).then(|| Name::new(NAME).unwrap())
}

fn guarded(balance: &Balance) -> Guarded {
    FenceLayer::new(name_of as fn(&Parts) -> Option<Name>).layer(balance.clone())
}

fn request(path: &str, headers: &[&str], value: Option<u64>) -> Request<String> {
    let method = if value.is_some() { "PUT" } else { "GET" };
    let mut request = Request::builder().method(method).uri(path);
    for header in headers {
        request = request.header(SEQUENCER, *header);
    }
    let body = value.map(|value| value.to_string());
    request.body(body.unwrap_or_default()).unwrap()
}

/// The answer of a request that has nothing to wait for.
fn answer(service: &mut Guarded, request: Request<String>) -> Response<String> {
    // The test polls more often than tokio allows a task between two of its turns.
    let mut answer = Box::pin(tokio::task::unconstrained(service.call(request)));
    match poll(&mut answer) {
        Poll::Ready(answer) => answer.unwrap(),
        Poll::Pending => panic!("the request waits"),
    }
}

fn poll<F: Future + Unpin>(answer: &mut F) -> Poll<F::Output> {
    Pin::new(answer).poll(&mut Context::from_waker(Waker::noop()))
}

struct OverHttp(Guarded);

impl OverHttp {
    fn ask(&mut self, shown: &Sequencer, value: Option<u64>) -> Result<u64, Late> {
        let answer = answer(&mut self.0, request("/", &[&shown.to_string()], value));
        match answer.status() {
            StatusCode::OK => Ok(answer.body().parse().unwrap()),
            StatusCode::PRECONDITION_FAILED => {
                let seen = answer.headers()[FENCE_SEEN].to_str().unwrap();
                assert!(seen.parse::<u64>().unwrap() >= shown.fence().get());
                Err(Late)
            }
            other => panic!("{other}"),
        }
    }
}

impl Resource for OverHttp {
    fn read(&mut self, shown: &Sequencer) -> Result<u64, Late> {
        self.ask(shown, None)
    }

    fn write(&mut self, shown: &Sequencer, value: u64) -> Result<(), Late> {
        self.ask(shown, Some(value)).map(drop)
    }
}

#[tokio::test]
async fn a_service_behind_the_layer_refuses_whoever_is_late() {
    refuses_whoever_is_late(
        &mut OverHttp(guarded(&Balance::default())),
        rounds(1000, 10_000),
    )
    .await;
}

#[test]
fn each_kind_of_request_that_is_refused_has_its_status_and_does_not_reach_the_service() {
    let balance = Balance::default();
    let mut service = guarded(&balance);
    let [now, late, other] = ["34.b.account", "33.a.account", "99.d.other"];
    assert_eq!(
        answer(&mut service, request("/", &[now], Some(7))).status(),
        200
    );
    assert_eq!(*balance.shown.lock().unwrap(), Some(now.parse().unwrap()));
    for (headers, status) in [
        (&[][..], 428),
        (&[late], 412),
        (&["34.twin.account"], 412),
        (&[other], 400),
        (&["34"], 400),
        (&["", now], 400),
        (&[now, now], 400),
        (&["18446744073709551615.x.account"], 400),
    ] {
        let answer = answer(&mut service, request("/", headers, Some(0)));
        assert_eq!(answer.status(), status, "{headers:?}");
        let seen = answer
            .headers()
            .get(FENCE_SEEN)
            .map(|seen| seen.to_str().unwrap());
        assert_eq!(seen, (status == 412).then_some("34"), "{headers:?}");
    }
    assert_eq!(balance.requests.load(Ordering::Relaxed), 1);
    assert_eq!(
        answer(&mut service, request("/health", &[], None)).body(),
        "7"
    );
    assert_eq!(answer(&mut service, request("/", &[now], None)).body(), "7");
}

#[test]
fn the_next_holder_waits_for_the_work_of_the_one_before_and_the_late_one_for_none() {
    let balance = Balance::default();
    let mut service = guarded(&balance);
    let [before, next] = [shown(33, "a"), shown(34, "b")].map(|shown| shown.to_string());
    let mut slow = service.call(request("/slow", &[&before], Some(33)));
    assert!(poll(&mut slow).is_pending());
    // Another request of the same holder goes past it.
    assert_eq!(
        answer(&mut service, request("/", &[&before], None)).body(),
        "0"
    );
    let mut read = service.clone().call(request("/", &[&next], None));
    assert!(poll(&mut read).is_pending());
    assert_eq!(
        balance.requests.load(Ordering::Relaxed),
        2,
        "the next holder is outside"
    );
    balance.may_write.notify_one();
    assert!(matches!(poll(&mut slow), Poll::Ready(Ok(answer)) if answer.status() == 200));
    let Poll::Ready(read) = poll(&mut read) else {
        panic!("the next holder still waits")
    };
    assert_eq!(read.unwrap().body(), "33");
    // A request of the holder that is being served delays no refusal.
    let mut slow = service.call(request("/slow", &[&next], Some(34)));
    assert!(poll(&mut slow).is_pending());
    assert_eq!(
        answer(&mut service, request("/", &[&before], None)).status(),
        412
    );
}

#[test]
fn a_request_that_its_client_gave_up_delays_no_other() {
    let mut service = guarded(&Balance::default());
    let mut slow = service.call(request("/slow", &["33.a.account"], Some(33)));
    assert!(poll(&mut slow).is_pending());
    drop(slow);
    assert_eq!(
        answer(&mut service, request("/", &["34.b.account"], None)).body(),
        "0"
    );
}

#[test]
fn the_layer_counts_what_it_admits_and_refuses_and_no_request_that_went_away_before() {
    let layer = FenceLayer::new(name_of as fn(&Parts) -> Option<Name>);
    let mut service = layer.layer(Balance::default());
    let counts = |raised, known, stale, other_owner, other_name| {
        let counts = [raised, known, stale, other_owner, other_name];
        let outcomes = ["raised", "known", "stale", "other_owner", "other_name"];
        assert_eq!(
            layer.stats().checks,
            outcomes.into_iter().zip(counts).collect()
        );
    };
    counts(0, 0, 0, 0, 0);
    for (headers, times) in [
        (&["33.a.account"][..], 3),
        (&["34.b.account"], 1),
        (&["33.a.account"], 2),
        (&["34.twin.account"], 1),
        (&["99.d.other"], 1),
        (&[], 1),
        (&["34"], 1),
    ] {
        for _ in 0..times {
            drop(answer(&mut service, request("/", headers, None)));
        }
    }
    counts(2, 2, 2, 1, 1);
    drop(answer(&mut service, request("/health", &[], None)));
    let mut slow = service.call(request("/slow", &["34.b.account"], None));
    assert!(poll(&mut slow).is_pending());
    counts(2, 3, 2, 1, 1);
    let mut next = service.call(request("/", &["35.c.account"], None));
    assert!(poll(&mut next).is_pending());
    drop(next);
    counts(2, 3, 2, 1, 1);

    let mut sum = FenceStats::default();
    sum += layer.stats();
    sum += layer.clone().stats();
    let mut text = String::new();
    sum.prometheus(&mut text);
    testkit::promtool::accepts(&text, &[]);
    let late = "leaselock_fence_checks_total{outcome=\"stale\"} 4\n";
    assert!(text.contains(late), "{text}");
}
