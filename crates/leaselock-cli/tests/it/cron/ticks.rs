//! Ticks that no run began in time: while no service was up, and while a run was on.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use leaselock::Client;
use leaselock::cron::Claim;
use testkit::process::Signal;

use super::serve;
use crate::common::{Store, on_both, until, uptime};

const HOUR: u64 = 60 * 60;
const NOTE: &str = "echo $LEASELOCK_TICK >> ran";

/// An hourly schedule, and its latest tick, half an hour ago. It has run last three hours before that.
fn hourly(store: &Store) -> (String, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::open(&store.url).unwrap();
        let cron = client
            .cron("job")
            .start_within(Duration::from_secs(5 * HOUR));
        let now = cron.state().await.unwrap().now;
        let minute = now.duration_since(UNIX_EPOCH).unwrap().as_secs() / 60 - 30;
        let latest = minute * 60;
        let tick = UNIX_EPOCH + Duration::from_secs(latest - 3 * HOUR);
        let Claim::Run(run) = cron.claim(tick).await.unwrap() else {
            panic!("nothing else runs")
        };
        run.finish().await.unwrap();
        client.close().await;
        (format!("{} * * * *", minute % 60), latest)
    })
}

/// The ticks that ran, in seconds since 1970.
fn ran(store: &Store) -> Vec<u64> {
    let seconds = |tick: &String| {
        let tick: jiff::Timestamp = tick.parse().unwrap();
        u64::try_from(tick.as_second()).unwrap()
    };
    store.lines("ran").iter().map(seconds).collect()
}

#[test]
fn the_ticks_while_no_service_was_up_are_left_out() {
    on_both(|store| {
        let (_, latest) = hourly(store);
        let service = serve(store, &["--late", "1s"], NOTE);
        store.line_in("ran");
        service.signal(Signal::TERM);
        service.end_with_stdin_open();
        assert!(ran(store)[0] > latest, "{:?}", ran(store));
    });
}

#[test]
fn of_the_ticks_while_no_service_was_up_the_latest_or_all_run_if_asked_for() {
    for catch_up in ["latest", "all"] {
        on_both(|store| {
            let (schedule, latest) = hourly(store);
            let all = [latest - 2 * HOUR, latest - HOUR, latest];
            let expected = if catch_up == "all" {
                &all[..]
            } else {
                &all[2..]
            };
            let flags = ["--catch-up", catch_up];
            let words = [&["cron"], &flags[..], &[&schedule, "job", "-c", NOTE]].concat();
            let service = store.start(&words);
            until("what was missed", || ran(store).len() >= expected.len());
            service.signal(Signal::TERM);
            service.end_with_stdin_open();
            assert_eq!(ran(store), expected, "{catch_up}");
        });
    }
}

#[test]
fn ticks_while_the_job_runs_wait_for_its_end_or_are_left_out() {
    let script = "echo $LEASELOCK_TICK >> ran; \
                  [ $(wc -l < ran) -gt 1 ] || until [ -e go ]; do sleep 0.05; done";
    std::thread::scope(|scope| {
        for flags in [&["--overlap", "wait"][..], &[]] {
            scope.spawn(move || {
                on_both(|store| {
                    let service = serve(store, flags, script);
                    store.line_in("ran");
                    let began = uptime();
                    until("three ticks", || uptime() > began + 3.5);
                    fs::write(store.path("go"), "").unwrap();
                    until("the next runs", || ran(store).len() >= 5);
                    service.signal(Signal::TERM);
                    service.end_with_stdin_open();
                    let ran = ran(store);
                    match flags {
                        [] => assert!(ran[1] > ran[0] + 3, "{ran:?}"),
                        _ => assert!(ran.windows(2).all(|two| two[1] == two[0] + 1), "{ran:?}"),
                    }
                });
            });
        }
    });
}
