//! A run whose process is killed, and a job that is.

use testkit::process::Signal;

use super::serve;
use crate::common::{Store, on_both, until};

/// The first run never ends by itself.
const FIRST_STAYS: &str = "echo $LEASELOCK_TICK $LEASELOCK_FENCE >> ran; \
                           [ $(wc -l < ran) -gt 1 ] || exec sleep 1000";

/// Kills the service of the first run, and returns the ticks and fences of this run and of the next one.
fn killed_in_the_first_run(store: &Store, flags: &[&str]) -> [(String, u64); 2] {
    // Without -o the job in a folder goes on, and holds the lock.
    let flags = [&["-o", "--ttl", "2s"], flags].concat();
    let mut first = serve(store, &flags, FIRST_STAYS);
    store.line_in("ran");
    let other = serve(store, &flags, FIRST_STAYS);
    first.kill();
    until("the next run", || store.lines("ran").len() >= 2);
    other.signal(Signal::TERM);
    other.end_with_stdin_open();
    let lines = store.lines("ran");
    [0, 1].map(|run| {
        let (tick, fence) = lines[run].split_once(' ').unwrap();
        (tick.to_owned(), fence.parse().unwrap())
    })
}

#[test]
fn a_tick_whose_service_was_killed_runs_again_if_asked_to_and_is_over_otherwise() {
    std::thread::scope(|scope| {
        for flags in [&["--again"][..], &[]] {
            scope.spawn(move || {
                on_both(|store| {
                    let [first, next] = killed_in_the_first_run(store, flags);
                    assert!(first.1 < next.1, "{first:?} {next:?}");
                    match flags {
                        [] => assert!(first.0 < next.0, "{first:?} {next:?}"),
                        _ => assert_eq!(first.0, next.0),
                    }
                });
            });
        }
    });
}

#[test]
fn a_job_that_was_killed_has_run() {
    on_both(|store| {
        let service = serve(
            store,
            &["--again"],
            "echo $LEASELOCK_TICK >> ran; kill -KILL $$",
        );
        until("three runs", || store.lines("ran").len() >= 3);
        service.signal(Signal::TERM);
        let said = service.end_with_stdin_open().err;
        assert!(said.contains("exited 137"), "{said}");
        let ticks = store.lines("ran");
        assert!(ticks.is_sorted_by(|one, next| one < next), "{ticks:?}");
    });
}
