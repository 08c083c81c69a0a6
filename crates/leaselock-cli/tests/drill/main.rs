//! The guardian against real processes, without a store.
//!
//! Called without arguments this program plays every scenario: it starts itself as a wrapper,
//! which guards a real job under a lease made up by the scenario, and then does to the wrapper,
//! to the job or to the guardian what the scenario is about. It has its own `main` because the
//! wrapper forks, and that takes a process of one thread.

// The modules bring their unit tests along, which run elsewhere, and parts for other verbs.
#![allow(dead_code, unused_imports)]
#![allow(clippy::unwrap_used)] // A test that panics has failed, which is right.

#[path = "../../src/boottime.rs"]
mod boottime;
#[path = "../../src/exit.rs"]
#[expect(
    dead_code,
    reason = "most codes are given by verbs, which are not part of this"
)]
mod exit;
#[path = "../../src/guardian/mod.rs"]
mod guardian;
#[path = "../../src/job.rs"]
mod job;
#[path = "../../src/process.rs"]
mod process;
#[path = "../../src/process_tree.rs"]
mod process_tree;
#[path = "../../src/procfs.rs"]
mod procfs;
#[path = "../../src/signals.rs"]
mod signals;
#[path = "../../src/supervise.rs"]
mod supervise;

mod listener;
mod scenarios;
mod stage;
mod wrapper;

use std::panic::{UnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some(wrapper::PART.as_ref()) {
        return wrapper::play(arguments);
    }
    if first.as_deref() == Some(listener::PART.as_ref()) {
        return listener::play();
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let filter = words
        .iter()
        .find(|word| !word.starts_with('-'))
        .cloned()
        .unwrap_or_default();
    let chosen: Vec<_> = scenarios::ALL
        .iter()
        .filter(|(name, _)| name.contains(&filter))
        .copied()
        .collect();
    if words.iter().any(|word| word == "--list") {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    play_all(chosen)
}

/// Scenarios mostly wait, so several run at a time.
fn play_all(scenarios: Vec<(&'static str, fn())>) -> ExitCode {
    let all = scenarios.len();
    println!("\nrunning {all} tests");
    let (queue, failed) = (Mutex::new(scenarios.into_iter()), Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                loop {
                    let Some((name, scenario)) = queue.lock().unwrap().next() else {
                        return;
                    };
                    let passed = passes(scenario);
                    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
                    *failed.lock().unwrap() += u32::from(!passed);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("\ntest result: {failed} failed of {all}\n");
    ExitCode::from(u8::from(failed > 0))
}

fn passes(scenario: impl FnOnce() + UnwindSafe) -> bool {
    catch_unwind(scenario).is_ok()
}
