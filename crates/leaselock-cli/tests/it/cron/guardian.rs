//! A guardian that does not reply, or is killed, while its service waits, starts a job, or runs it.

use std::fs;

use testkit::process::{Signal, children, signal};

use super::serve;
use crate::common::{Running, on_both, until};

const NOTE: &str = "echo $LEASELOCK_TICK >> ran";

/// The name that `ps -o comm` and `pkill -x` know.
fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()
}

fn guardian(service: &Running) -> Option<u32> {
    let mut all = children(service.pid()).into_iter();
    all.find(|pid| is_guardian(*pid))
}

pub(super) fn is_guardian(pid: u32) -> bool {
    name(pid) == "leaselock-guard\n"
}

#[test]
fn a_service_whose_guardian_does_not_answer_or_is_killed_says_so_and_goes_on() {
    for (strike, words) in [
        (
            Signal::STOP,
            "job: the guardian does not reply, so the job was not started; the tick is given back",
        ),
        (Signal::KILL, "the guardian "),
    ] {
        on_both(|store| {
            let mut service = serve(store, &["-o", "--again"], NOTE);
            let mut struck = Vec::new();
            until("it has lost a guardian", || {
                if let Some(pid) = guardian(&service).filter(|pid| !struck.contains(pid)) {
                    signal(pid, strike);
                    struck.push(pid);
                }
                service.said().contains(words)
            });
            let before = store.lines("ran").len();
            until("it goes on", || store.lines("ran").len() > before + 1);
            assert!(!service.has_ended());
            service.signal(Signal::TERM);
            service.end_with_stdin_open();
            let ticks = store.lines("ran");
            assert!(ticks.is_sorted_by(|one, next| one < next), "{ticks:?}");
        });
    }
}

#[test]
fn a_service_and_its_guardian_keep_their_names_from_run_to_run() {
    on_both(|store| {
        let service = serve(store, &[], NOTE);
        until("two runs", || store.lines("ran").len() >= 2);
        let program = env!("CARGO_BIN_EXE_leaselock");
        let mut seen = Vec::new();
        until("a guardian of a later run", || {
            let found = guardian(&service);
            let line =
                found.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok());
            seen.extend(line.filter(|line| !line.is_empty())); // as that of one that has ended
            !seen.is_empty()
        });
        assert!(
            seen[0].starts_with(&format!("{program}\0cron\0")),
            "{seen:?}"
        );
        assert_eq!(name(service.pid()), "leaselock\n");
        service.signal(Signal::TERM);
        service.end_with_stdin_open();
    });
}
