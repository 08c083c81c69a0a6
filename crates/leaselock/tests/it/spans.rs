//! The spans of tracing: what an acquisition, a hold, a release and an extension say at their begin and at their end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use leaselock::inspect::BreakOptions;
use leaselock::{AcquireError, Client, LeaseError};
use testkit::{Fault, Proxy, Server, Way};
use tracing::Dispatch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Level, Metadata};
use tracing_core::span::Current;

use crate::support::{LONG, eventually, millis, soon, until_queued};

fn client(server: &Server) -> Client {
    Client::open(&server.url()).unwrap()
}

/// Spans by name with their fields, as a subscriber of tracing sees them.
#[derive(Default, Clone)]
struct Recorder(Arc<Mutex<Vec<Span>>>);

struct Span {
    about: &'static Metadata<'static>,
    fields: BTreeMap<&'static str, String>,
    handles: usize,
}

impl Visit for Span {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}").trim_matches('"').to_owned();
        self.fields.insert(field.name(), value);
    }
}

thread_local! {
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

impl Recorder {
    fn spans(&self) -> MutexGuard<'_, Vec<Span>> {
        self.0.lock().unwrap()
    }

    fn change<T>(&self, id: &Id, change: impl FnOnce(&mut Span) -> T) -> T {
        let at = usize::try_from(id.into_u64()).unwrap() - 1;
        change(&mut self.spans()[at])
    }

    /// The values of a field in all spans of a name, in the order of their begin.
    fn told(&self, name: &str, field: &str) -> Vec<Option<String>> {
        let spans = self.spans();
        let named = spans.iter().filter(|span| span.about.name() == name);
        named.map(|span| span.fields.get(field).cloned()).collect()
    }

    /// Of the latest span of a name.
    fn latest(&self, name: &str, field: &str) -> Option<String> {
        self.told(name, field).pop().flatten()
    }

    fn are_closed(&self) -> bool {
        self.spans().iter().all(|span| span.handles == 0)
    }
}

impl tracing::Subscriber for Recorder {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.target() == "leaselock" && about.is_span()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut new = Span {
            about: span.metadata(),
            fields: BTreeMap::new(),
            handles: 1,
        };
        span.record(&mut new);
        let mut spans = self.spans();
        spans.push(new);
        Id::from_u64(spans.len().try_into().unwrap())
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        self.change(id, |span| values.record(span));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.clone()));
    }

    fn exit(&self, _: &Id) {
        ENTERED.with_borrow_mut(Vec::pop);
    }

    fn current_span(&self) -> Current {
        let entered = ENTERED.with_borrow(|entered| entered.last().cloned());
        entered.map_or_else(Current::none, |id| {
            let about = self.change(&id, |span| span.about);
            Current::new(id, about)
        })
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.change(id, |span| span.handles += 1);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        self.change(&id, |span| {
            span.handles -= 1;
            span.handles == 0
        })
    }
}

fn some<const N: usize>(values: [&str; N]) -> Vec<Option<String>> {
    values
        .iter()
        .map(|value| Some((*value).to_owned()))
        .collect()
}

/// Records what this thread does. While a process has one subscriber alone, tracing lets the thread that first comes to a
/// span decide whether any thread records it, and that may be the thread of another test. So there is a second one.
fn recorder() -> (Recorder, (Dispatch, DefaultGuard)) {
    let second = Dispatch::new(Recorder::default());
    let recorder = Recorder::default();
    let recorded = tracing::subscriber::set_default(recorder.clone());
    (recorder, (second, recorded))
}

#[tokio::test]
async fn an_acquisition_and_a_body_under_a_lease_are_spans_that_say_how_they_ended() {
    let server = Server::start();
    let [one, two] = [client(&server), client(&server)];
    let (recorder, _recorded) = recorder();
    let mutex = one.mutex("job").ttl(LONG).class("invoice").priority(3);
    let ran = mutex
        .run(async |lease| Ok::<_, String>(lease.fence()))
        .await;
    let fence = ran.unwrap().unwrap().to_string();
    let held = two.mutex("job").ttl(LONG).acquire().await.unwrap();
    let second = held.fence().unwrap().to_string();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let waits = tokio::time::timeout(millis(20), mutex.acquire()).await;
    assert!(waits.is_err(), "it is dropped while it waits");

    let told = |field| recorder.told("acquire", field);
    let ends = ["granted", "granted", "busy", "cancelled"];
    assert_eq!(told("outcome"), some(ends));
    assert_eq!(told("lock"), some(["job"; 4]));
    assert_eq!(told("kind"), some(["mutex"; 4]));
    assert_eq!(told("class"), some(["invoice", "", "invoice", "invoice"]));
    assert_eq!(told("ttl_ms"), some(["60000"; 4]));
    assert_eq!(told("priority"), some(["3", "0", "3", "3"]));
    let limits = told("wait_limit_ms");
    assert_eq!(limits, [None, None, Some("0".to_owned()), None]);
    assert!(told("waited_ms").iter().all(Option::is_some));
    assert_eq!(told("fence")[..2], some([&fence, &second]));
    assert_eq!(told("holder")[2].as_deref(), Some(two.id()));
    let told = |field| recorder.told("hold", field);
    assert_eq!(
        (told("lock"), told("fence")),
        (some(["job"]), some([&fence]))
    );
    assert_eq!(
        (told("kind"), told("class")),
        (some(["mutex"]), some(["invoice"]))
    );
    assert_eq!(told("outcome"), some(["released"]));
    assert!(told("held_ms")[0].is_some());
    held.release().await.unwrap();
    assert!(recorder.are_closed());
}

/// Waits for at most a minute, in its own task, which the test polls.
#[tokio::test]
async fn the_span_of_an_acquisition_that_waited_has_position_and_holder_also_behind_other_tasks() {
    let server = Server::start();
    let [one, two] = [client(&server), client(&server)];
    let (recorder, _recorded) = recorder();
    let held = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let waiter = |limit| {
        let mutex = two.mutex("job").ttl(LONG);
        tokio::spawn(async move {
            let lease = mutex.acquire_within(limit).await.unwrap();
            lease.release().await.unwrap();
        })
    };
    let first = waiter(LONG);
    until_queued(&one, "job", 1).await;
    let limit = LONG * 2;
    let second = waiter(limit);
    // The two share the queue entry: each is told its place when the client polls next.
    let behind = || {
        recorder
            .told("acquire", "position")
            .get(2)
            .cloned()
            .flatten()
    };
    eventually("it knows its place", async || {
        behind().as_deref() == Some("2")
    })
    .await;
    // Now: a hand-over that comes late enters the queue again.
    let told = |field| recorder.told("acquire", field)[1..].to_vec();
    assert_eq!(told("position"), some(["1", "2"]));
    assert_eq!(told("holder"), some([one.id(); 2]));
    held.release().await.unwrap();
    for waits in [first, second] {
        soon(waits).await.unwrap();
    }
    assert_eq!(told("wait_limit_ms"), some(["60000", "120000"]));
    assert_eq!(told("outcome"), some(["granted"; 2]));
    assert!(told("fence").iter().all(Option::is_some));
}

#[tokio::test]
async fn the_span_of_a_lease_ends_with_it_and_says_how_whoever_keeps_a_view() {
    let server = Server::start();
    let [one, two] = [client(&server), client(&server)];
    let (recorder, _recorded) = recorder();
    let permits = one.semaphore("pool", 3).ttl(LONG).acquire_many(2).await;
    let permits = permits.unwrap();
    let view = permits.view();
    for span in [permits.span(), view.span()] {
        assert!(!span.is_disabled());
    }
    assert_eq!(
        recorder.told("hold", "kind"),
        some(["permits"]),
        "both are one span"
    );
    assert_eq!(recorder.told("hold", "outcome"), [None]);
    permits.release().await.unwrap();
    assert_eq!(
        recorder.latest("hold", "outcome").as_deref(),
        Some("released")
    );
    assert!(recorder.are_closed() && view.span().is_disabled());

    let pair = one
        .mutex("a")
        .ttl(LONG)
        .along_with(["b"])
        .acquire()
        .await
        .unwrap();
    drop(pair.span());
    let terms = BreakOptions::default().because("stuck");
    two.break_lease("b", terms).await.unwrap();
    soon(pair.lost()).await;
    let told = |field| recorder.latest("hold", field);
    eventually("the span ends", async || told("outcome").is_some()).await;
    assert_eq!(told("lock").as_deref(), Some("a"));
    assert_eq!(told("kind").as_deref(), Some("several"));
    assert_eq!(told("fence"), recorder.latest("acquire", "fence"));
    assert_eq!(told("outcome").as_deref(), Some("broken"));
    assert!(told("held_ms").is_some());
    drop(pair);
    drop(one.election("db").campaign().await.unwrap());
    assert_eq!(
        recorder.latest("acquire", "kind").as_deref(),
        Some("leader")
    );
    assert!(recorder.are_closed());
}

#[tokio::test]
async fn releases_and_extensions_are_spans_that_say_what_came_of_them_also_when_they_are_dropped() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let one = Client::open(&proxy.url()).unwrap();
    let (recorder, _recorded) = recorder();
    let kept = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let fence = kept.fence().unwrap().to_string();
    kept.extend(LONG).await.unwrap();
    kept.extend(millis(0)).await.unwrap_err();
    kept.release().await.unwrap();
    let gone = one.mutex("gone").ttl(LONG).acquire().await.unwrap();
    server.cli(&["DEL", "gone"]);
    let told = gone.extend(LONG).await.unwrap_err();
    assert!(matches!(told, LeaseError::Lost(_)), "{told}");
    drop(gone);
    let gone = one.mutex("gone").ttl(LONG).acquire().await.unwrap();
    server.cli(&["DEL", "gone"]);
    gone.release().await.unwrap_err();

    let [left, waits] = ["left", "waits"].map(|name| one.mutex(name).ttl(LONG));
    let [left, waits] = [
        left.acquire().await.unwrap(),
        waits.acquire().await.unwrap(),
    ];
    proxy.set(Way::ToClient, Fault::Hold);
    let extends = tokio::time::timeout(millis(20), waits.extend(LONG)).await;
    assert!(extends.is_err(), "it is dropped while it waits");
    let counted = one.stats().kinds[0].releases.clone();
    let releases = tokio::time::timeout(millis(20), left.release()).await;
    assert!(releases.is_err(), "it is dropped while it waits");
    assert_eq!(
        one.stats().kinds[0].releases,
        counted,
        "no outcome is known"
    );
    proxy.heal();

    let ends = some(["ok", "invalid", "lost", "cancelled"]);
    assert_eq!(recorder.told("extend", "outcome"), ends);
    assert_eq!(
        recorder.told("extend", "lock"),
        some(["job", "job", "gone", "waits"])
    );
    assert_eq!(recorder.told("extend", "fence")[..2], some([&fence; 2]));
    let ends = some(["ok", "not_held", "cancelled"]);
    assert_eq!(recorder.told("release", "outcome"), ends);
    assert_eq!(
        recorder.told("release", "lock"),
        some(["job", "gone", "left"])
    );
    assert_eq!(
        recorder.told("release", "fence")[0].as_deref(),
        Some(&*fence)
    );
    eventually("what was dropped is given back", async || {
        one.stats().kinds[0].held == 1
    })
    .await;
    drop(waits);
}

/// A program that has the token of a lease, or a handle, may end it.
#[tokio::test]
async fn no_span_has_a_token_or_a_url_and_each_is_for_debugging() {
    let server = Server::start();
    let one = client(&server);
    let (recorder, _recorded) = recorder();
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    drop(lease.span());
    lease.extend(LONG).await.unwrap();
    let stored = server.cli(&["GET", "job"]);
    let secret = stored.text().unwrap().to_owned();
    let busy = one.mutex("job").acquire_within(millis(20)).await;
    assert!(matches!(busy, Err(AcquireError::TimedOut { .. })));
    lease.release().await.unwrap();
    let spans = recorder.spans();
    let mut names: Vec<_> = spans.iter().map(|span| span.about.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["acquire", "extend", "hold", "release", "request"]);
    for span in spans.iter() {
        let level = match span.about.name() {
            "request" => Level::TRACE,
            _ => Level::DEBUG,
        };
        assert_eq!(*span.about.level(), level);
        for (field, value) in &span.fields {
            // The id of the client is a part of the token, and no secret.
            let is_part = secret.contains(value.as_str()) && value.len() > one.id().len();
            assert!(!is_part && !value.contains(&secret), "{field} {value}");
            assert!(!value.contains("://"), "{field} {value}");
        }
    }
}

#[tokio::test]
async fn a_request_is_a_span_of_the_kind_that_tracing_of_databases_expects() {
    let server = Server::start();
    let one = client(&server);
    let (recorder, _recorded) = recorder();
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    lease.release().await.unwrap();
    let spans = recorder.spans();
    let requests: Vec<_> = spans
        .iter()
        .filter(|it| it.about.name() == "request")
        .collect();
    let names: Vec<_> = spans.iter().map(|it| it.about.name()).collect();
    assert_eq!(requests.len(), 2, "{names:?}");
    let address = format!("127.0.0.1:{}", server.port());
    for (span, op, script) in [
        (requests[0], "acquire", "mutex/acquire"),
        (requests[1], "release", "mutex/release"),
    ] {
        let field = |name: &str| span.fields[name].as_str();
        assert_eq!((field("op"), field("db.operation.name")), (op, script));
        assert_eq!(
            (field("otel.kind"), field("db.system.name")),
            ("client", "redis")
        );
        assert_eq!(
            (field("server.address"), field("outcome")),
            (&*address, "ok")
        );
        assert!(span.handles == 0 && field("keys").parse::<u64>().unwrap() > 0);
    }
}
