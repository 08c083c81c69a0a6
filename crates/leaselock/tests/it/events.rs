//! What befalls a client: each kind of entry of the event log, and what listeners are shown.

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
    let longest = millis(3_000);
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
    server.cli(&["SET", "ll:gate", "0123456789abcdef 0 3000"]);
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

#[tokio::test]
async fn listeners_are_told_once_of_an_acquisition_that_waits_and_of_none_that_is_granted_at_once()
{
    let server = Server::start();
    let [one, two, third] = [client(&server), client(&server), client(&server)];
    let held = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let has_its_turn = |client: &Client| {
        let mutex = client.mutex("job").ttl(LONG);
        tokio::spawn(async move { mutex.acquire().await.unwrap().release().await.unwrap() })
    };
    let first = has_its_turn(&one);
    until_queued(&one, "job", 1).await;

    let [mut of_one, mut of_two] = [one.events(), two.events()];
    let free = two.mutex("free").acquire().await.unwrap();
    free.release().await.unwrap();
    let tried = two.mutex("job").try_acquire().await.unwrap();
    assert!(tried.is_none(), "it does not wait");
    let second = has_its_turn(&two);
    until_queued(&two, "job", 2).await;
    let behind = has_its_turn(&one); // in the queue with the first one, which listeners came too late for
    eventually("it waits", async || one.stats().kinds[0].waiting == 2).await;
    let strangers = has_its_turn(&third);
    until_queued(&third, "job", 3).await;
    held.release().await.unwrap();
    for waits in [first, behind, second, strangers] {
        soon(waits).await.unwrap();
    }
    one.close().await;
    two.close().await;
    let told = async |events: &mut tokio::sync::broadcast::Receiver<LogEntry>, count: usize| {
        let mut seen = Vec::new();
        while seen.len() < count {
            let event = soon(events.recv()).await.unwrap();
            seen.push((event.kind, event.name.unwrap(), event.text));
        }
        assert!(events.try_recv().is_err(), "{seen:?}");
        let words = |(kind, name, text): (String, String, String)| match &*kind {
            "waiting" => format!("{kind} {name}: {text}"),
            _ => format!("{kind} {name}"),
        };
        seen.into_iter().map(words).collect::<Vec<_>>()
    };
    let waiting = format!("waiting job: position 2, held by {}", one.id());
    let of_two = told(&mut of_two, 5).await;
    let all = [
        "granted free",
        "released free",
        &waiting,
        "granted job",
        "released job",
    ];
    assert_eq!(of_two, all);
    let of_one = told(&mut of_one, 5).await;
    assert_eq!(of_one[0], "waiting job: behind other tasks of this client");
    assert!(
        of_one[1..].iter().all(|told| !told.starts_with("waiting")),
        "{of_one:?}"
    );
    let written = third.log(Duration::MAX).await.unwrap();
    assert!(
        written.iter().all(|entry| entry.kind != "waiting"),
        "{written:?}"
    );
}
