//! What a client counts: each metric moves when what it counts happens, and the text is what Prometheus reads.

mod text;

use std::time::Duration;

use leaselock::cron::Claim;
use leaselock::inspect::BreakOptions;
use leaselock::limiter::Rate;
use leaselock::options::Options;
use leaselock::report::{KindStats, Stats};
use leaselock::{AcquireError, Client, Wait};
use testkit::Server;
use tokio::task::JoinSet;

use self::text::{labels, parsed};
use crate::support::{LONG, eventually, millis, soon};

fn of(client: &Client, kind: &str, class: &str) -> KindStats {
    let all = client.stats().kinds;
    let found = all
        .into_iter()
        .find(|one| (one.kind, one.class.as_str()) == (kind, class));
    found.unwrap_or_else(|| panic!("nothing is counted for {kind} {class:?}"))
}

#[tokio::test]
async fn a_lease_moves_what_counts_acquisitions_waits_holds_and_releases() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let invoice = client.mutex("a").class("invoice").ttl(LONG);
    let lease = invoice.acquire().await.unwrap();
    let now = of(&client, "mutex", "invoice");
    assert_eq!((now.held, now.waiting), (1, 0));
    assert_eq!((now.acquires["granted"], now.waits.count), (1, 1));
    assert_eq!((now.losses["key_missing"], now.losses["broken"]), (0, 0));
    assert!(invoice.try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
    let now = of(&client, "mutex", "invoice");
    assert_eq!((now.held, now.holds.count), (0, 1));
    assert_eq!((now.acquires["busy"], now.releases["ok"]), (1, 1));
    assert!(now.waits.sum > 0 && now.holds.sum > 0);
}

#[tokio::test]
async fn each_kind_of_lock_has_a_series_of_its_own() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    drop(client.mutex("a").acquire().await.unwrap());
    let several = client.mutex("b").along_with(["c"]).acquire().await.unwrap();
    assert_eq!(of(&client, "several", "").held, 1);
    several.release().await.unwrap();
    drop(client.rwlock("d").read().await.unwrap());
    drop(client.rwlock("e").upgradable_read().await.unwrap());
    drop(client.semaphore("f", 2).acquire().await.unwrap());
    drop(client.election("g").campaign().await.unwrap());
    drop(client.rwlock("h").write().await.unwrap());
    for (kind, granted) in [
        ("mutex", 2),
        ("several", 1),
        ("read", 1),
        ("upgradable", 1),
        ("permits", 1),
        ("leader", 1),
    ] {
        let now = of(&client, kind, "");
        assert_eq!((now.acquires["granted"], now.held), (granted, 0), "{kind}");
        assert_eq!(now.holds.count, granted, "{kind}");
    }
}

#[tokio::test]
async fn a_hand_over_within_the_client_is_a_grant() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lease = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    let mut others = JoinSet::new();
    for _ in 0..5 {
        let mutex = client.mutex("a").ttl(LONG);
        others.spawn(async move { mutex.acquire().await });
    }
    eventually("all wait", async || of(&client, "mutex", "").waiting == 5).await;
    lease.release().await.unwrap();
    // They began at once, so any of them may be the next.
    while let Some(other) = soon(others.join_next()).await {
        other.unwrap().unwrap().release().await.unwrap();
    }
    let now = of(&client, "mutex", "");
    assert_eq!((now.acquires["granted"], now.holds.count), (6, 6));
    assert_eq!((now.held, now.waiting, now.releases["ok"]), (0, 0, 6));
}

#[tokio::test]
async fn an_acquisition_that_is_dropped_is_cancelled_and_waits_no_more() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let _held = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    let second = client.mutex("a").ttl(LONG);
    tokio::select! {
        _ = second.acquire() => panic!("it is held"),
        () = eventually("it waits", async || of(&client, "mutex", "").waiting == 1) => {}
    }
    let now = of(&client, "mutex", "");
    assert_eq!((now.waiting, now.acquires["cancelled"]), (0, 1));
}

#[tokio::test]
async fn losses_and_renewals_are_counted_by_how_they_ended() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mutex = |name: &str| client.mutex(name).ttl(millis(300));
    let gone = mutex("gone").acquire().await.unwrap();
    eventually("a renewal", async || {
        of(&client, "mutex", "").renewals["ok"] > 0
    })
    .await;
    assert!(of(&client, "mutex", "").headroom.count > 0);
    server.cli(&["DEL", "gone"]);
    soon(gone.lost()).await;
    gone.release().await.unwrap_err();
    let _ends = mutex("ends").renewal(false).acquire().await.unwrap();
    let _held = mutex("held").max_hold(millis(300)).acquire().await.unwrap();
    let _broken = mutex("broken").acquire().await.unwrap();
    let broken = client.break_lease("broken", BreakOptions::default()).await;
    broken.unwrap();
    for reason in ["key_missing", "expired", "max_hold_reached", "broken"] {
        eventually(reason, async || {
            of(&client, "mutex", "").losses[reason] == 1
        })
        .await;
    }
    let now = of(&client, "mutex", "");
    assert!(now.renewals["failed"] >= 1 && now.releases["not_held"] == 1);
    assert_eq!((now.held, now.holds.count), (0, 4));
}

#[tokio::test]
async fn what_is_refused_and_what_gets_no_reply_are_outcomes_too() {
    let server = Server::start();
    let client = Client::builder().url(&server.url());
    let client = client.request_timeout(millis(200)).open().unwrap();
    let bad = client.mutex("").acquire().await.unwrap_err();
    assert!(matches!(bad, AcquireError::Invalid(_)));
    assert_eq!(of(&client, "mutex", "").acquires["invalid"], 1);
    let short = client.mutex("a").wait(Wait::Never);
    {
        let _paused = server.pause();
        let unknown = short.acquire().await.unwrap_err();
        println!("while the server is paused: {unknown}");
    }
    let now = of(&client, "mutex", "");
    assert_eq!(now.acquires["unknown"] + now.acquires["store"], 1);
    server.cli(&["SADD", "set", "x"]);
    let wrong = client.mutex("set").wait(Wait::Never).acquire().await;
    wrong.unwrap_err();
    assert!(of(&client, "mutex", "").acquires["store"] >= 1);
}

#[tokio::test]
async fn a_class_is_the_handles_or_that_of_its_name_and_the_65th_is_other() {
    let client = Client::builder().url("mem:");
    let client = client.class_of(|name| name.split('/').next().unwrap_or_default());
    let client = client.open().unwrap();
    drop(client.mutex("mail/1").try_acquire().await.unwrap());
    let own = client.mutex("mail/2").class("own");
    drop(own.try_acquire().await.unwrap());
    assert_eq!(of(&client, "mutex", "mail").acquires["granted"], 1);
    assert_eq!(of(&client, "mutex", "own").acquires["granted"], 1);
    for class in 0..70 {
        let one = client.mutex("x").class(format!("class {class}"));
        drop(one.try_acquire().await.unwrap());
    }
    let classes = client.stats().kinds;
    assert_eq!(classes.len(), 65, "64 and `other`");
    let other = of(&client, "mutex", "other").acquires;
    assert_eq!(other.values().sum::<u64>(), 70 - 62, "busy ones too");
}

#[tokio::test]
async fn the_text_is_well_formed_whatever_a_class_is_called() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let hostile = [
        "a\"b",
        "a\\",
        "a\nb 7",
        "\"} 1\n# TYPE x",
        "ü,le=\"1\"",
        "{}",
    ];
    for class in hostile {
        let options = Options::default().class(class);
        let own = Client::builder().url(&server.url()).defaults(options);
        drop(own.open().unwrap().mutex("a").acquire().await);
        let lease = client.mutex(format!("n{}", class.len())).class(class);
        lease.acquire().await.unwrap().release().await.unwrap();
    }
    let mut text = String::new();
    client.stats().prometheus(&mut text);
    let samples = parsed(&text);
    let granted = samples
        .iter()
        .filter(|(series, _)| series.contains("outcome=\"granted\""));
    let classes: Vec<String> = granted
        .map(|(series, value)| {
            assert_eq!(value, "1");
            labels(series)["class"].clone()
        })
        .collect();
    for class in hostile {
        assert!(classes.iter().any(|one| one == class), "{class:?}");
    }
    let version = env!("CARGO_PKG_VERSION");
    let build = format!("leaselock_build_info{{version=\"{version}\"}}");
    assert_eq!(samples[&build], "1");
    assert_eq!(samples["leaselock_clock_jumps_total"], "0");
}

#[tokio::test]
async fn what_holds_nothing_or_records_is_counted_by_outcome() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let charge = client.once("charge/1");
    for _ in 0..3 {
        charge.run(async |_| Ok::<_, String>("paid")).await.unwrap();
    }
    let fails = client.once("charge/2").keep_failures(true);
    for _ in 0..2 {
        let failed = fails.run(async |_| Err::<String, _>("declined")).await;
        failed.unwrap_err();
    }
    let other = client.once("charge/1").fingerprint("another");
    other.run(async |_| Ok::<_, String>("")).await.unwrap_err();
    let limiter = client.limiter("mails", Rate::per_hour(5));
    let decisions = [
        limiter.try_acquire_many(4).await,
        limiter.try_acquire_many(3).await,
    ];
    assert!(decisions.map(|one| one.unwrap().is_allowed()) == [true, false]);
    let counter = client.counter("stock");
    counter.add(5).await.unwrap();
    counter.add(i64::MAX).await.unwrap_err();
    let cron = client.cron("nightly");
    let tick = cron.state().await.unwrap().now - Duration::from_secs(1);
    let Claim::Run(run) = cron.claim(tick).await.unwrap() else {
        panic!("the tick is nobody's yet");
    };
    assert_eq!(of(&client, "cron", "").held, 1);
    run.finish().await.unwrap();
    assert!(matches!(cron.claim(tick).await.unwrap(), Claim::Over));
    let now = client.stats();
    assert_eq!((now.runs["ran"], now.runs["replayed"]), (1, 2));
    assert_eq!((now.runs["failed"], now.runs["differs"]), (2, 1));
    assert_eq!(
        (
            now.limiter_permits["allowed"],
            now.limiter_permits["limited"]
        ),
        (4, 3)
    );
    assert_eq!(
        (
            now.counter_changes["counted"],
            now.counter_changes["refused"]
        ),
        (1, 1)
    );
    assert_eq!((now.ticks["run"], now.ticks["over"]), (1, 1));
    let once = of(&client, "once", "");
    assert_eq!(
        (once.acquires["granted"], once.held, once.waiting),
        (2, 0, 0)
    );
    assert_eq!((once.holds.count, once.acquires["cancelled"]), (2, 0));
    assert_eq!(of(&client, "cron", "").held, 0);
}

#[tokio::test]
async fn statistics_of_several_clients_add_up_to_one_text() {
    let both = [Client::open("mem:").unwrap(), Client::open("mem:").unwrap()];
    let mut sum = Stats::default();
    for client in &both {
        drop(client.mutex("a").acquire().await.unwrap());
        drop(client.semaphore("b", 1).acquire().await.unwrap());
        sum += client.stats();
    }
    let mut text = String::new();
    sum.prometheus(&mut text);
    let samples = parsed(&text);
    let series = "leaselock_acquires_total{kind=\"mutex\",class=\"\",outcome=\"granted\"}";
    assert_eq!(samples[series], "2");
    assert_eq!(sum.kinds.len(), 2);
    assert!(Duration::from_micros(sum.kinds[0].waits.sum) < LONG);
}

/// The value of a sample of the client's text.
fn sample(client: &Client, series: &str) -> String {
    let mut text = String::new();
    client.stats().prometheus(&mut text);
    parsed(&text).remove(series).expect(series)
}

#[tokio::test]
async fn permits_are_in_use_as_long_as_their_leases_are_held_however_they_end() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let pool = client.semaphore("pool", 10).class("db").ttl(LONG);
    let permits = || of(&client, "permits", "db").permits;
    let three = pool.acquire_many(3).await.unwrap();
    let four = pool.acquire_many(4).await.unwrap();
    assert_eq!((permits(), of(&client, "permits", "db").held), (7, 2));
    let series = "leaselock_permits_in_use{kind=\"permits\",class=\"db\"}";
    assert_eq!(sample(&client, series), "7");
    assert!(pool.try_acquire_many(4).await.unwrap().is_none());
    drop(three);
    assert_eq!(
        permits(),
        4,
        "it is given back in the background, and used no more"
    );
    let two = pool.acquire_many(2).await.unwrap();
    drop(Box::pin(two.release())); // never polled
    let mut released = Box::pin(four.release());
    let polled = std::future::poll_fn(|context| {
        std::task::Poll::Ready(released.as_mut().poll(context).is_ready())
    });
    assert!(!polled.await, "it waits for the reply");
    assert_eq!(permits(), 0);
    drop(released);
    let short = pool.clone().ttl(millis(200)).max_hold(millis(200));
    let one = short.acquire().await.unwrap();
    soon(one.lost()).await;
    eventually("its end is counted", async || {
        (permits(), of(&client, "permits", "db").held) == (0, 0)
    })
    .await;

    let owner = client.owner("import");
    let shared = client.mutex("a").owner(&owner).ttl(LONG);
    let both = [
        shared.acquire().await.unwrap(),
        shared.acquire().await.unwrap(),
    ];
    assert_eq!(of(&client, "mutex", "").permits, 0);
    drop(both);
    let mut text = String::new();
    client.stats().prometheus(&mut text);
    let gauge = text
        .lines()
        .filter(|line| line.starts_with("leaselock_permits_in_use"));
    assert_eq!(gauge.count(), 1, "other kinds have none");
}

#[tokio::test]
async fn the_delay_of_a_tick_is_from_its_time_to_its_run_by_the_stores_clock() {
    let server = Server::builder().shifted_clock().start();
    server.set_clock_offset_ms(3_600_000);
    let client = Client::open(&server.url()).unwrap();
    let cron = client.cron("nightly").start_within(LONG * 10);
    let delays = || client.stats().tick_delays;
    let now = cron.state().await.unwrap().now;
    let Claim::Run(run) = cron.claim(now - millis(20_000)).await.unwrap() else {
        panic!("it is due")
    };
    assert_eq!(delays().count, 1, "at its begin");
    assert!(matches!(cron.claim(now - LONG).await.unwrap(), Claim::Over));
    let later = now + LONG * 60;
    assert!(matches!(
        cron.claim(later).await.unwrap(),
        Claim::Early { .. }
    ));
    run.finish().await.unwrap();
    let delayed = delays();
    assert_eq!(delayed.count, 1);
    let most = Duration::from_secs(20) + crate::support::PATIENCE;
    assert!((20_000_000..=u64::try_from(most.as_micros()).unwrap()).contains(&delayed.sum));
    let of = |bound: u64| {
        delayed
            .buckets
            .iter()
            .find(|(le, _)| *le == bound)
            .unwrap()
            .1
    };
    assert_eq!((of(10_000_000), of(60_000_000)), (0, 1));
    assert_eq!(sample(&client, "leaselock_tick_delay_seconds_count"), "1");

    let mut sum = Stats::default();
    sum += client.stats();
    sum += client.stats();
    assert_eq!(
        (sum.tick_delays.count, sum.tick_delays.buckets.len()),
        (2, 17)
    );
    assert_eq!(sum.tick_delays.sum, 2 * delayed.sum);
}

#[tokio::test]
async fn arrivals_and_generations_are_counted_once_also_of_several_clients() {
    let server = Server::start();
    let clients = [(); 3].map(|()| Client::open(&server.url()).unwrap());
    let all = || {
        let mut sum = Stats::default();
        clients.iter().for_each(|client| sum += client.stats());
        (
            sum.arrivals["latch"],
            sum.arrivals["barrier"],
            sum.barrier_generations,
        )
    };
    let latch = clients[0].latch("deploy", 2);
    latch.arrive("a").await.unwrap();
    latch.arrive("b").await.unwrap();
    latch.arrive("late").await.unwrap_err(); // it is open without it
    latch.wait().await.unwrap();
    assert_eq!(all(), (2, 0, 0));
    let alone = clients[0].barrier("phase", 3).wait_within(millis(20)).await;
    alone.unwrap_err();
    assert_eq!(all(), (2, 1, 0), "it was there");
    for generation in 1..=2 {
        let waits = clients.each_ref().map(|client| {
            let barrier = client.barrier("phase", 3);
            tokio::spawn(async move { barrier.wait().await })
        });
        for wait in waits {
            soon(wait).await.unwrap().unwrap();
        }
        assert_eq!(all(), (2, 1 + 3 * generation, generation));
    }
    let other = clients[0].barrier("other", 2);
    let dropped = tokio::time::timeout(millis(1), other.wait()).await;
    assert!(dropped.is_err());
    assert_eq!(all().2, 2);
    let client = &clients[0];
    assert_eq!(
        sample(client, "leaselock_arrivals_total{kind=\"latch\"}"),
        "2"
    );
    let client = &clients[1];
    assert_eq!(
        sample(client, "leaselock_arrivals_total{kind=\"barrier\"}"),
        "2"
    );
    let generations = sample(client, "leaselock_barrier_generations_total");
    assert!(generations.parse::<u64>().unwrap() <= 2);
}
