//! The event log: what clients see that is rare, for operators and for the holder of a broken lease.

use std::time::Duration;

use leaselock::cron::Claim;
use leaselock::inspect::BreakOptions;
use leaselock::report::LogEntry;
use leaselock::{Client, LostReason};

use crate::engine::Engine;
use crate::support::{LONG, eventually, millis, soon};

async fn entries(client: &Client, kind: &str) -> Vec<LogEntry> {
    let mut all = client.log(Duration::MAX).await.unwrap();
    all.retain(|entry| entry.kind == kind);
    all
}

/// Until the log has so many entries of this kind.
async fn until_logged(client: &Client, kind: &str, count: usize) -> Vec<LogEntry> {
    eventually("it is in the log", async || {
        entries(client, kind).await.len() >= count
    })
    .await;
    entries(client, kind).await
}

fn because(reason: &str) -> BreakOptions {
    BreakOptions::default().because(reason).by("alice@office")
}

pub(super) async fn a_break_with_a_reason_is_in_the_log_and_its_holder_reads_it(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    for (at_once, terms) in [
        (false, because("stuck since 3")),
        (true, because("dead").now()),
    ] {
        let reason = terms.reason.clone().unwrap();
        let lease = one.mutex("job").ttl(millis(3_000)).acquire().await.unwrap();
        let view = lease.view();
        soon(two.break_lease("job", terms)).await.unwrap();
        let lost = soon(view.lost()).await;
        let told = soon(async {
            loop {
                // A call gives up soon, which a slow machine may be too slow for.
                if let Some(entry) = view.broken_by().await {
                    break entry;
                }
            }
        });
        let told = told.await;
        assert_eq!(
            told.to_string(),
            format!("broken by alice@office: {reason}")
        );
        assert_eq!(told.name.as_deref(), Some("job"));
        assert!(
            told.fence >= lease.fence(),
            "the last one that was reserved"
        );
        assert_eq!(told.client.as_deref(), Some(two.id()));
        assert!(
            entries(&one, "broken").await.contains(&told),
            "at_once: {at_once}"
        );
        let noted = until_logged(&two, "lost", 1 + usize::from(at_once)).await;
        let noted = noted.iter().find(|entry| entry.fence == lease.fence());
        let noted = noted.expect("the holder has noted its loss");
        assert_eq!(
            (noted.text.split(';').next(), noted.client.as_deref()),
            (Some(&*lost.reason.to_string()), Some(one.id())),
            "what was wrong before may follow"
        );
        drop(lease);
    }
}

pub(super) async fn a_loss_that_no_operator_brought_about_has_no_operator(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let mutex = one.mutex("job").ttl(millis(500));
    let lease = mutex.clone().renewal(false).acquire().await.unwrap();
    assert_eq!(soon(lease.view().broken_by()).await, None);
    assert_eq!(lease.check().unwrap_err().reason, LostReason::Expired);
    let noted = until_logged(&two, "lost", 1).await;
    assert_eq!(noted[0].text, LostReason::Expired.to_string());
    // Another's break is not this one's, and a release and the end of the longest hold are no events.
    let other = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    soon(two.break_lease("job", because("another").now()))
        .await
        .unwrap();
    assert_eq!(soon(lease.view().broken_by()).await, None);
    drop(other);
    let held = one
        .mutex("else")
        .ttl(millis(300))
        .max_hold(millis(300))
        .acquire()
        .await
        .unwrap();
    assert_eq!(soon(held.lost()).await.reason, LostReason::MaxHoldReached);
    let given_up = one.mutex("given up").ttl(LONG).acquire().await.unwrap();
    given_up.release().await.unwrap();
    one.close().await; // what waits is written before that
    let names = entries(&two, "lost")
        .await
        .into_iter()
        .map(|entry| entry.name.unwrap());
    assert!(names.into_iter().all(|name| name == "job"));
}

pub(super) async fn a_fact_that_three_hosts_see_is_one_entry(engine: &Engine) {
    let hosts = [
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
    ];
    let now = hosts[0].cron("nightly").state().await.unwrap().now;
    for host in &hosts {
        let late = host.cron("nightly").start_within(Duration::ZERO);
        let claim = soon(late.claim(now - LONG)).await.unwrap();
        assert!(matches!(claim, Claim::Missed { .. }), "{claim:?}");
        host.close().await; // it is written then, if it was not before
    }
    let missed = entries(&hosts[0], "tick_missed").await;
    assert_eq!(missed.len(), 1, "{missed:#?}");
    assert_eq!(
        (missed[0].name.as_deref(), &missed[0].client),
        (Some("nightly"), &None)
    );
    assert!(missed[0].text.contains(" UTC: "), "{}", missed[0].text);
}

pub(super) async fn a_client_writes_once_a_second_and_counts_what_it_leaves_out(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let mut leases = Vec::new();
    for number in 0..20 {
        let mutex = one
            .mutex(format!("job/{number}"))
            .ttl(millis(1_500))
            .renewal(false);
        leases.push(mutex.acquire().await.unwrap());
    }
    for lease in &leases {
        soon(lease.lost()).await;
    }
    eventually("all are in the log, or are counted", async || {
        let left_out = entries(&two, "left_out").await;
        let count = |entry: &LogEntry| {
            entry
                .text
                .split(' ')
                .next()
                .unwrap()
                .parse::<usize>()
                .unwrap()
        };
        let left_out: usize = left_out.iter().map(count).sum();
        left_out + entries(&two, "lost").await.len() == leases.len()
    })
    .await;
}
