//! What befalls a client: each kind of entry of the event log, what listeners are shown, and the spans of tracing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leaselock::barrier::BarrierError;
use leaselock::clock::Clock;
use leaselock::cron::Claim;
use leaselock::inspect::BreakOptions;
use leaselock::options::OnCrash;
use leaselock::report::LogEntry;
use leaselock::{AcquireError, Client, Wait};
use testkit::{Fault, Proxy, Server, Way};
use tokio::sync::broadcast::error::RecvError;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

use crate::support::{LONG, eventually, millis, soon, until_queued};

fn client(server: &Server) -> Client {
    Client::open(&server.url()).unwrap()
}

/// Until the log has an entry of this kind. There is one.
async fn logged(client: &Client, kind: &str) -> LogEntry {
    let mut found = Vec::new();
    eventually(kind, async || {
        found = client.log(Duration::MAX).await.unwrap();
        found.retain(|entry| entry.kind == kind);
        !found.is_empty()
    })
    .await;
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_logged_by_its_victim_with_the_circle() {
    let server = Server::start();
    let [one, two] = [client(&server), client(&server)];
    let [here, there] = [one.owner("import"), two.owner("export")];
    let lock = |client: &Client, name: &str, me| client.mutex(name).ttl(LONG).owner(me);
    let a = lock(&one, "a", &here).acquire().await.unwrap();
    let b = lock(&two, "b", &there).acquire().await.unwrap();
    let waits = lock(&one, "b", &here);
    let waits = tokio::spawn(async move { waits.acquire().await });
    until_queued(&two, "b", 1).await;
    let other = soon(lock(&two, "a", &there).acquire()).await;
    let told = match other {
        Err(told) => told,
        Ok(_) => soon(waits).await.unwrap().unwrap_err(),
    };
    let AcquireError::Deadlock { .. } = &told else {
        panic!("{told}")
    };
    let entry = logged(&one, "deadlock").await;
    assert!(told.to_string().contains(&entry.text), "{entry}: {told}");
    assert!(["a", "b"].contains(&entry.name.as_deref().unwrap()));
    drop((a, b));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_is_confirmed_late_is_logged_with_what_was_left() {
    let server = Server::start();
    let (proxy, clock) = (Proxy::to(server.port()), Clock::manual());
    let slow = Client::builder().url(&proxy.url()).clock(clock.clone());
    let slow = slow.open().unwrap();
    let lease = slow.mutex("job").ttl(LONG).acquire().await.unwrap();
    proxy.set(Way::ToClient, Fault::Hold);
    let sent = proxy.bytes(Way::ToServer);
    clock.advance(LONG / 3);
    eventually("it renews", async || proxy.bytes(Way::ToServer) > sent).await;
    clock.advance(LONG / 2);
    proxy.heal();
    let mut left = LONG / 6;
    eventually("it is confirmed", async || {
        let step = millis(10).min(left);
        left -= step;
        clock.advance(step);
        let entries = client(&server).log(Duration::MAX).await.unwrap();
        entries.iter().any(|entry| entry.kind == "renewal_late")
    })
    .await;
    let entry = logged(&slow, "renewal_late").await;
    assert_eq!(
        (entry.name.as_deref(), entry.fence),
        (Some("job"), lease.fence())
    );
    let granted = " of 59"; // seconds: a minute, less the drift
    assert!(entry.text.contains(granted), "{entry}");
    assert!(lease.is_held());
}

#[tokio::test]
async fn a_jump_of_the_stores_clock_that_two_clients_see_is_one_entry() {
    let server = Server::builder().shifted_clock().start();
    let both = [client(&server), client(&server)];
    for each in &both {
        let before = each.mutex("other").acquire().await.unwrap();
        before.release().await.unwrap();
        each.inspect("job").await.unwrap();
    }
    server.set_clock_offset_ms(3_600_000);
    for each in &both {
        each.inspect("job").await.unwrap();
        assert_eq!(each.stats().clock_jumps, 1);
    }
    let entry = logged(&both[0], "clock_jumped").await;
    for each in &both {
        each.close().await; // it is written then, if it was not before
    }
    assert_eq!(logged(&client(&server), "clock_jumped").await, entry);
    assert_eq!((&entry.client, &entry.name), (&None, &None));
    assert!(entry.text.contains("forward by about 36"), "{entry}");
}

#[tokio::test]
async fn a_leader_logs_its_value_and_its_term() {
    let server = Server::start();
    let one = client(&server);
    let lease = one
        .election("db")
        .value("10.0.0.7")
        .campaign()
        .await
        .unwrap();
    let entry = logged(&client(&server), "leader_changed").await;
    assert_eq!(
        (entry.text.as_str(), entry.fence),
        ("10.0.0.7", Some(lease.fence()))
    );
    assert_eq!(entry.client.as_deref(), Some(one.id()));
}

#[tokio::test]
async fn callers_log_a_run_that_crashed_and_one_that_was_given_up() {
    let server = Server::start();
    let one = client(&server);
    let once = || one.once("charge").ttl(LONG).on_crash(OnCrash::Refuse);
    let body = async |_| std::future::pending::<Result<Vec<u8>, String>>().await;
    let dropped = once();
    let begun = tokio::time::timeout(millis(200), dropped.run(body)).await;
    assert!(begun.is_err(), "it is dropped within its body");
    let told = async || once().run(async |_| Ok::<_, String>(Vec::new())).await;
    eventually("it has crashed", async || {
        soon(told())
            .await
            .is_err_and(|error| error.to_string().contains("crashed"))
    })
    .await;
    let entry = logged(&one, "run_crashed").await;
    assert_eq!(
        (entry.name.as_deref(), entry.text.as_str(), &entry.client),
        (Some("charge"), "attempt 1 did not end", &None)
    );
    let tried = one.once("mail").ttl(LONG).max_attempts(1);
    soon(tried.run(async |_| Err::<Vec<u8>, _>("no route")))
        .await
        .unwrap_err();
    for _ in 0..2 {
        soon(tried.run(async |_| Ok::<_, String>(Vec::new())))
            .await
            .unwrap_err();
    }
    let entry = logged(&one, "run_given_up").await;
    assert_eq!(entry.name.as_deref(), Some("mail"));
    assert!(entry.text.ends_with("no route"), "{entry}");
}

#[tokio::test]
async fn hosts_log_a_tick_that_failed_and_one_that_another_run_left_out() {
    let server = Server::start();
    let [one, two] = [client(&server), client(&server)];
    let cron = |client: &Client| client.cron("nightly").ttl(LONG).start_within(LONG * 60);
    let now = one.cron("nightly").state().await.unwrap().now;
    let tick = now - LONG;
    let Claim::Run(run) = cron(&one).claim(tick).await.unwrap() else {
        panic!("it is due")
    };
    for host in [&one, &two] {
        let told = cron(host).claim(tick + millis(1_000)).await.unwrap();
        assert!(
            matches!(told, Claim::Overlap { .. } | Claim::Over),
            "{told:?}"
        );
    }
    run.log_failure("exit 3");
    let fence = run.fence();
    run.finish().await.unwrap();
    let failed = logged(&two, "tick_failed").await;
    assert!(failed.text.ends_with(" UTC: exit 3"), "{failed}");
    assert_eq!(
        (failed.fence, failed.client.as_deref()),
        (Some(fence), Some(one.id()))
    );
    let left_out = logged(&two, "tick_left_out").await;
    assert!(
        left_out.text.ends_with(": another run held the name"),
        "{left_out}"
    );
    assert_eq!(left_out.client, None);
}

#[tokio::test]
async fn a_party_that_its_barrier_counts_no_more_logs_that() {
    let server = Server::start();
    let [one, two] = [client(&server), client(&server)];
    let barrier = |client: &Client| client.barrier("phase", 3);
    let short = barrier(&one).party_lease(millis(1_500));
    let have_arrived = async |count: u32| {
        let asks = barrier(&two).wait_within(millis(0)).await;
        matches!(asks, Err(BarrierError::TimedOut { arrived, .. }) if arrived == count + 1)
    };
    // Polled until it has arrived and then never again, as a process that was frozen.
    let mut frozen = Box::pin(async move { short.wait().await });
    eventually("it has arrived", async || {
        let polled = tokio::time::timeout(millis(20), &mut frozen).await;
        polled.is_err() && have_arrived(1).await
    })
    .await;
    eventually("its lease is over", async || have_arrived(0).await).await;
    let others = [&one, &two, &two].map(barrier);
    let others = others.map(|it| tokio::spawn(async move { it.wait().await }));
    for other in others {
        soon(other).await.unwrap().unwrap();
    }
    let told = soon(frozen).await.unwrap_err();
    assert!(matches!(told, BarrierError::Missed { .. }), "{told}");
    let entry = logged(&two, "barrier_missed").await;
    let (name, by) = (entry.name.as_deref(), entry.client.as_deref());
    assert_eq!((name, by), (Some("phase"), Some(one.id())));
    assert!(entry.text.ends_with("generation 1 waits now"), "{entry}");
}

#[tokio::test]
async fn a_quarantine_that_two_clients_meet_is_one_entry() {
    let server = Server::start();
    let longest = millis(3_000);
    let strict = || {
        Client::builder()
            .url(&server.url())
            .strict(longest)
            .open()
            .unwrap()
    };
    let both = [strict(), strict()];
    both[0].init_strict().await.unwrap();
    // As after a restart with the data: the gate is that of another server.
    server.cli(&["SET", "ll:gate", "0123456789abcdef 0 3000"]);
    for each in &both {
        let told = each
            .mutex("job")
            .ttl(longest)
            .wait(Wait::Never)
            .acquire()
            .await;
        assert!(
            matches!(told, Err(AcquireError::Quarantined { .. })),
            "{told:?}"
        );
    }
    let entry = logged(&both[0], "quarantine_began").await;
    for each in &both {
        each.close().await;
    }
    assert_eq!(logged(&client(&server), "quarantine_began").await, entry);
    assert_eq!(entry.client, None);
}

#[tokio::test]
async fn the_end_of_a_quarantine_that_two_clients_met_is_one_entry() {
    let server = Server::start();
    let longest = millis(1_000);
    let strict = || {
        let builder = Client::builder().url(&server.url()).strict(longest);
        builder.open().unwrap()
    };
    let both = [strict(), strict()];
    both[0].init_strict().await.unwrap();
    let lock = |client: &Client, name: &str| client.mutex(name).ttl(longest);
    drop(lock(&both[0], "before").acquire().await.unwrap());
    assert_eq!(both[0].stats().quarantines, 0);
    let mut events = both[0].events();
    // As after a restart with the data: the gate is that of another server.
    server.cli(&["SET", "ll:gate", "0123456789abcdef 0 1000"]);
    for (each, name) in both.iter().zip(["a", "b"]) {
        let told = lock(each, name).wait(Wait::Never).acquire().await;
        assert!(matches!(told, Err(AcquireError::Quarantined { .. })));
        let again = lock(each, name).wait(Wait::Never).acquire().await;
        assert!(matches!(again, Err(AcquireError::Quarantined { .. })));
        assert_eq!(each.stats().quarantines, 1);
    }
    for (each, name) in both.iter().zip(["a", "b"]) {
        drop(soon(lock(each, name).acquire()).await.unwrap());
        drop(soon(lock(each, name).acquire()).await.unwrap());
    }
    let entry = logged(&both[0], "quarantine_over").await;
    for each in &both {
        each.close().await;
    }
    assert_eq!(logged(&client(&server), "quarantine_over").await, entry);
    assert_eq!((&entry.client, &entry.name), (&None, &None));
    let mut kinds = Vec::new();
    while let Ok(event) = events.try_recv() {
        kinds.push(event.kind);
    }
    kinds.retain(|kind| kind.starts_with("quarantine"));
    assert_eq!(kinds, ["quarantine_began", "quarantine_over"]);
}

#[tokio::test]
async fn listeners_are_shown_grants_releases_and_losses_and_how_many_they_have_missed() {
    let server = Server::start();
    let [one, two] = [client(&server), client(&server)];
    let unseen = one.mutex("unseen").ttl(LONG).acquire().await.unwrap();
    let mut events = one.events();
    unseen.release().await.unwrap(); // its grant was before the first listener
    let lease = one.mutex("a").ttl(LONG).acquire().await.unwrap();
    let fence = lease.fence();
    lease.release().await.unwrap();
    let reads = one.rwlock("b").ttl(LONG).read().await.unwrap();
    drop(reads);
    let pair = one
        .mutex("c")
        .ttl(LONG)
        .along_with(["d"])
        .acquire()
        .await
        .unwrap();
    let terms = BreakOptions::default().because("stuck").by("alice").now();
    two.break_lease("c", terms).await.unwrap();
    soon(pair.lost()).await;
    let mut seen = Vec::new();
    while seen.len() < 7 {
        let event = soon(events.recv()).await.unwrap();
        assert_eq!(event.client.as_deref(), Some(one.id()));
        seen.push(event);
    }
    let told: Vec<_> = seen
        .iter()
        .map(|it| (it.kind.as_str(), it.name.as_deref().unwrap()))
        .collect();
    assert_eq!(
        told[..4],
        [
            ("granted", "a"),
            ("released", "a"),
            ("granted", "b"),
            ("released", "b")
        ]
    );
    assert_eq!((seen[0].fence, seen[0].text.as_str()), (fence, "mutex"));
    assert_eq!(
        (seen[2].text.as_str(), seen[4].text.as_str()),
        ("read", "several")
    );
    assert_eq!(told[4..6], [("granted", "c"), ("granted", "d")]);
    assert_eq!(told[6], ("lost", "c"));
    drop(pair);

    // A second listener, and one that is too slow.
    let mut fast = one.events();
    for number in 0..600 {
        let lease = one.mutex(format!("many/{number}")).acquire().await.unwrap();
        lease.release().await.unwrap();
        while fast.try_recv().is_ok() {}
    }
    let missed = loop {
        match events.recv().await {
            Ok(_) => {}
            Err(RecvError::Lagged(missed)) => break missed,
            Err(closed) => panic!("{closed}"),
        }
    };
    assert!(missed >= 2 * 600 - 1024, "{missed}");
    one.close().await;
    drop(one);
    while let Ok(event) = soon(events.recv()).await {
        assert!(
            ["granted", "released", "lost"].contains(&&*event.kind),
            "{event:?}"
        );
    }
}

#[tokio::test]
async fn a_lease_that_an_owner_shares_is_granted_once_and_texts_of_others_are_printable() {
    let server = Server::start();
    let one = client(&server);
    let mut events = one.events();
    let me = one.owner("import");
    let mutex = one.mutex("job").ttl(LONG).owner(&me);
    let guards = [
        mutex.acquire().await.unwrap(),
        mutex.acquire().await.unwrap(),
    ];
    for guard in guards {
        guard.release().await.unwrap();
    }
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "released") {
        kinds.push(soon(events.recv()).await.unwrap().kind);
    }
    assert_eq!(kinds, ["granted", "released"]);

    let tried = client(&server);
    let tried = tried.once("mail").max_attempts(1);
    soon(tried.run(async |_| Err::<Vec<u8>, _>("\u{1b}[2J")))
        .await
        .unwrap_err();
    let again = one.once("mail").max_attempts(1);
    soon(again.run(async |_| Ok::<_, String>(Vec::new())))
        .await
        .unwrap_err();
    let told = soon(events.recv()).await.unwrap();
    assert_eq!((&*told.kind, told.client), ("run_given_up", None));
    assert!(told.text.ends_with("\u{fffd}[2J"), "{:?}", told.text);
    assert_eq!(logged(&one, "run_given_up").await.id, told.id);
}

/// Spans by name with their fields, as a subscriber of tracing sees them.
#[derive(Default, Clone)]
struct Recorder(Arc<Mutex<Vec<Span>>>);

#[derive(Default)]
struct Span {
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
    is_closed: bool,
}

impl Visit for Span {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}").trim_matches('"').to_owned();
        self.fields.insert(field.name(), value);
    }
}

impl Recorder {
    fn spans(&self) -> MutexGuard<'_, Vec<Span>> {
        self.0.lock().unwrap()
    }

    fn change(&self, id: &Id, change: impl FnOnce(&mut Span)) {
        let at = usize::try_from(id.into_u64()).unwrap() - 1;
        change(&mut self.spans()[at]);
    }
}

impl tracing::Subscriber for Recorder {
    fn enabled(&self, about: &tracing::Metadata<'_>) -> bool {
        about.target() == "leaselock" && about.is_span()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let name = span.metadata().name();
        let mut new = Span {
            name,
            ..Span::default()
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
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn try_close(&self, id: Id) -> bool {
        self.change(&id, |span| span.is_closed = true);
        true
    }
}

#[tokio::test]
async fn a_request_is_a_span_of_the_kind_that_tracing_of_databases_expects() {
    let server = Server::start();
    let one = client(&server);
    let recorder = Recorder::default();
    let _recorded = tracing::subscriber::set_default(recorder.clone());
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    lease.release().await.unwrap();
    let spans = recorder.spans();
    let requests: Vec<_> = spans.iter().filter(|it| it.name == "request").collect();
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
        assert!(span.is_closed && field("keys").parse::<u64>().unwrap() > 0);
    }
}

#[tokio::test]
async fn an_acquisition_and_a_body_under_a_lease_are_spans_that_say_how_they_ended() {
    let server = Server::start();
    let [one, two] = [client(&server), client(&server)];
    let recorder = Recorder::default();
    let _recorded = tracing::subscriber::set_default(recorder.clone());
    let mutex = one.mutex("job").ttl(LONG).class("invoice");
    let ran = mutex
        .run(async |lease| Ok::<_, String>(lease.fence()))
        .await;
    let fence = ran.unwrap().unwrap();
    let _held = two.mutex("job").ttl(LONG).acquire().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let waits = tokio::time::timeout(millis(20), mutex.acquire()).await;
    assert!(waits.is_err(), "it is dropped while it waits");

    let spans = recorder.spans();
    let told = |name: &str, field: &str| -> Vec<_> {
        let named = spans.iter().filter(|span| span.name == name);
        let values = named.map(|span| span.fields.get(field).map(String::as_str));
        values.collect()
    };
    let ends = ["granted", "granted", "busy", "cancelled"].map(Some);
    assert_eq!(told("acquire", "outcome"), ends);
    assert_eq!(told("acquire", "lock"), [Some("job"); 4]);
    assert_eq!(told("acquire", "kind"), [Some("mutex"); 4]);
    let classes = [Some("invoice"), Some(""), Some("invoice"), Some("invoice")];
    assert_eq!(told("acquire", "class"), classes);
    assert!(
        told("acquire", "waited_ms")[..3]
            .iter()
            .all(Option::is_some)
    );
    assert_eq!(told("hold", "lock"), [Some("job")]);
    assert_eq!(told("hold", "fence"), [Some(&*fence.to_string())]);
    assert!(spans.iter().all(|span| span.is_closed));
}
