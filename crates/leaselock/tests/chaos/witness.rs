//! All kinds of locks at once, on one name and on eight, while processes, connections and servers are struck; the oracle
//! ([`testkit::oracle`]) reads what the server does, and says whether it keeps the promises.

mod stage;
mod work;
pub(crate) mod worker;

use std::time::Duration;

use testkit::oracle::Report;

use self::stage::Stage;
use crate::rounds;

/// What every run reaches. A kind that no request reached would be one that nothing was shown of.
const STEPS: [&str; 23] = [
    "broken",
    "broken, at once",
    "downgraded to an upgradable read",
    "downgraded to read",
    "ended by time",
    "extended",
    "gave up an upgrade",
    "granted alone, at once",
    "granted alone, by a message",
    "granted an upgradable read, at once",
    "granted an upgradable read, by a message",
    "granted permits, at once",
    "granted permits, by a message",
    "granted several names in one request",
    "granted to read, at once",
    "granted to read, by a message",
    "joined the queue",
    "left the queue",
    "permits pinned",
    "released",
    "upgraded, at once",
    "upgraded, by a message",
    "usage deleted by hand",
];

/// How many operations: of the short form a few seconds' worth.
fn operations() -> u64 {
    rounds(6_000, 1_000_000).try_into().unwrap()
}

fn shown(what: &str, report: &Report, steps: &[&str]) {
    println!("{what}: {report}");
    for violation in report.violations.iter().take(5) {
        println!("{violation}\n{:#?}", violation.commands);
    }
    assert_eq!(report.violations.len(), 0, "{what}");
    let missing = |step: &&&str| report.count(step) == 0;
    let missing: Vec<_> = steps.iter().filter(missing).collect();
    assert!(missing.is_empty(), "{what} has not reached {missing:?}");
    assert!(report.compared > 0);
}

fn without_failovers(what: &str, names: u64) {
    let steps = [&STEPS[..], &["granted a batch"]].concat();
    let mut stage = Stage::set(names, false);
    while stage.goes_on(operations(), &steps) {
        stage.strike();
    }
    shown(what, &stage.end(), &steps);
}

#[test]
fn all_kinds_keep_their_promises_on_one_name() {
    without_failovers("one name", 1);
}

#[test]
fn all_kinds_keep_their_promises_on_eight_names() {
    without_failovers("eight names", 8);
}

#[test]
fn all_kinds_keep_their_promises_in_strict_mode_across_failovers() {
    let mut stage = Stage::set(8, true);
    let mut failovers = 0;
    while failovers < 2 || stage.goes_on(operations(), &STEPS) {
        for _ in 0..4 {
            stage.strike();
        }
        stage.fail_over(failovers % 2 == 0);
        failovers += 1;
        std::thread::sleep(Duration::from_secs(5)); // the quarantine is shorter, and grants are made again
    }
    println!("{failovers} failovers");
    shown("strict mode", &stage.end(), &STEPS);
}
