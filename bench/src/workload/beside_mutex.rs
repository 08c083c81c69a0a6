//! A free pair of what is no mutex: beside a pair of a mutex, beside its own scripts by hand, and beside others.

use crate::contender::{Kind, Want};
use crate::report::{Case, Report, Show, Target, column};
use crate::servers::Servers;
use crate::workload::free::{Entrant, Workers};
use crate::workload::{Effort, say};

pub fn measure(
    workload: &'static str,
    what: &str,
    entrants: &[Entrant],
    tasks: usize,
    effort: &Effort,
) -> Result<Case, String> {
    let mut servers = Servers::start()?;
    let mut workers = Workers::start(&servers, entrants);
    let (rounds, ms) = match (effort.quick, tasks) {
        // Short ones, so that little time lies between two that are compared.
        (true, 1) => (31, 40),
        (true, _) => (9, 100),
        (false, 1) => (81, 60),
        (false, _) => (21, 200),
    };
    let title = match tasks {
        1 => format!("{what}, free, one task"),
        _ => format!("{what}, free, {tasks} tasks, each with a name of its own"),
    };
    say(&format!("{workload}: {title}"));
    const MUTEX: Show = Show::RatioTo("leaselock, mutex");
    let columns = vec![
        column("pairs/s", "pairs_per_s", Show::Median(0)),
        column("p50 µs", "p50_us", Show::Median(1)),
        column("÷ mutex", "p50_us", MUTEX),
        column("÷ by hand", "p50_us", Show::RatioToByHand),
        column("p99 µs", "p99_us", Show::Median(0)),
        column("commands", "commands", Show::Median(2)),
        column("client CPU µs", "client_us", Show::Median(1)),
        column("server CPU µs", "server_us", Show::Median(1)),
    ];
    let rounds = effort.rounds(rounds);
    let case = workers.case(&mut servers, workload, title, columns, tasks, rounds, ms);
    Ok(case)
}

/// What holds for whatever is no mutex.
pub fn targets(case: &Case, want: Want, tasks: usize, report: &mut Report) {
    let by_hand = Entrant::of(Kind::ByHand, want);
    target(case, want, tasks, (&by_hand, "by hand"), 1.05, report);
    let others = case.of_others(&want.name(), "p50_us");
    let Some(fastest_us) = others.into_iter().min_by(f64::total_cmp) else {
        return;
    };
    let ours = Entrant::of(Kind::Leaselock, want);
    let ratio = case.median(ours.row(), "p50_us").map(|us| us / fastest_us);
    let what = of(case, want, tasks, "the fastest other library");
    report.targets.push(Target::at_most(what, ratio, 1.0));
}

pub fn mutex_target(case: &Case, want: Want, tasks: usize, limit: f64, report: &mut Report) {
    let mutex = Entrant::of(Kind::Leaselock, Want::Mutex);
    target(case, want, tasks, (&mutex, "a mutex"), limit, report);
}

fn target(
    case: &Case,
    want: Want,
    tasks: usize,
    (to, called): (&Entrant, &str),
    limit: f64,
    report: &mut Report,
) {
    let ours = Entrant::of(Kind::Leaselock, want);
    let ratio = case.ratio(ours.row(), to.row(), "p50_us");
    let (what, ratio) = (
        of(case, want, tasks, called),
        ratio.map(|spread| spread.median),
    );
    report.targets.push(Target::at_most(what, ratio, limit));
}

fn of(case: &Case, want: Want, tasks: usize, called: &str) -> String {
    let (workload, name) = (case.workload, want.name());
    format!("{workload} {name}, {tasks} tasks: p50 ÷ {called}")
}
