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
fn a_tick_whose_job_a_signal_ended_runs_again_if_asked_to_and_is_over_otherwise() {
    let killed_twice = "echo $LEASELOCK_TICK >> ran; [ $(wc -l < ran) -gt 2 ] || kill -KILL $$";
    std::thread::scope(|scope| {
        for flags in [&["--again"][..], &[]] {
            scope.spawn(move || {
                on_both(|store| {
                    let service = serve(store, flags, killed_twice);
                    until("four runs", || store.lines("ran").len() >= 4);
                    service.signal(Signal::TERM);
                    let said = service.end_with_stdin_open().err;
                    assert!(said.contains("exited 137"), "{said}");
                    let ticks = store.lines("ran");
                    match flags {
                        [] => assert!(ticks.is_sorted_by(|one, next| one < next), "{ticks:?}"),
                        _ => {
                            assert_eq!(ticks[..2], ticks[1..3], "{ticks:?}");
                            assert!(ticks[2] < ticks[3], "{ticks:?}");
                        }
                    }
                });
            });
        }
    });
}

#[test]
fn a_service_that_is_told_to_stop_gives_its_tick_to_another_host() {
    // The trap comes first: the signal may follow the line at once.
    let stays = "[ -e ran ] || { trap 'exit 1' TERM; echo $LEASELOCK_TICK > ran; \
                 while :; do sleep 0.05; done; }; echo $LEASELOCK_TICK >> ran";
    std::thread::scope(|scope| {
        for (script, code) in [(FIRST_STAYS, 143), (stays, 1)] {
            scope.spawn(move || {
                on_both(|store| {
                    let first = serve(store, &["--again"], script);
                    store.line_in("ran");
                    let other = serve(store, &["--again"], script);
                    first.signal(Signal::TERM);
                    let said = first.end_with_stdin_open().gives(code).err;
                    assert!(said.contains("it has crashed"), "{said}");
                    until("the next run", || store.lines("ran").len() >= 2);
                    other.signal(Signal::TERM);
                    other.end_with_stdin_open();
                    let lines = store.lines("ran");
                    let tick = |line: usize| lines[line].split(' ').next();
                    assert_eq!(tick(0), tick(1), "{lines:?}");
                });
            });
        }
    });
}

#[test]
fn a_job_that_ends_well_when_it_is_told_to_stop_has_run() {
    on_both(|store| {
        let script = "trap 'exit 0' TERM; echo $LEASELOCK_TICK >> ran; \
                      [ $(wc -l < ran) -gt 1 ] || while :; do sleep 0.05; done";
        let first = serve(store, &["--again"], script);
        store.line_in("ran");
        let other = serve(store, &["--again"], script);
        first.signal(Signal::TERM);
        first.end_with_stdin_open().gives(0);
        until("the next run", || store.lines("ran").len() >= 2);
        other.signal(Signal::TERM);
        other.end_with_stdin_open();
        let ticks = store.lines("ran");
        assert!(ticks[0] < ticks[1], "{ticks:?}");
    });
}

#[test]
fn a_signal_between_two_runs_ends_the_service_with_its_code() {
    on_both(|store| {
        let service = serve(store, &["--again"], "kill -KILL $$");
        until("the pause after a crash", || {
            service.said().contains("it has crashed")
        });
        service.signal(Signal::TERM);
        // While it waits, or while its job runs again.
        let ended = service.end_with_stdin_open();
        assert!([143, 137].contains(&ended.code), "{ended:?}");
    });
}
