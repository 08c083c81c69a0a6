//! What is no lock, over and over: beside its own script by hand, and beside others.

use crate::contender::{Kind, Want};
use crate::report::{Case, Report, Show, Target, column};
use crate::servers::Servers;
use crate::workload::free::{Entrant, Workers};
use crate::workload::{Effort, say};

/// One situation of a workload.
pub struct Situation {
    pub workload: &'static str,
    pub title: &'static str,
    pub want: Want,
    pub tasks: usize,
}

/// leaselock, its script by hand, and these others.
pub fn measure(
    situation: &Situation,
    others: &[Kind],
    effort: &Effort,
    report: &mut Report,
) -> Result<(), String> {
    let Situation {
        workload,
        title,
        want,
        tasks,
    } = *situation;
    let kinds = [&[Kind::ByHand, Kind::Leaselock], others].concat();
    let entrants: Vec<Entrant> = kinds
        .into_iter()
        .map(|kind| Entrant::alike(kind, want))
        .collect();
    let mut servers = Servers::start()?;
    let mut workers = Workers::start(&servers, &entrants);
    let (rounds, ms) = match (effort.quick, tasks) {
        // Short ones, so that little time lies between two that are compared.
        (true, 1) => (31, 40),
        (true, _) => (9, 100),
        (false, 1) => (81, 60),
        (false, _) => (21, 200),
    };
    say(&format!("{workload}: {title}"));
    let columns = vec![
        column("a second", "pairs_per_s", Show::Median(0)),
        column("p50 µs", "p50_us", Show::Median(1)),
        column("÷ by hand", "p50_us", Show::RatioToByHand),
        column("p99 µs", "p99_us", Show::Median(0)),
        column("commands", "commands", Show::Median(2)),
        column("client CPU µs", "client_us", Show::Median(1)),
        column("÷ by hand", "client_us", Show::RatioToByHand),
        column("server CPU µs", "server_us", Show::Median(1)),
    ];
    let rounds = effort.rounds(rounds);
    let title = title.to_owned();
    let case = workers.case(&mut servers, workload, title, columns, tasks, rounds, ms);
    report.targets.push(by_hand_target(&case));
    report.cases.push(case);
    Ok(())
}

fn by_hand_target(case: &Case) -> Target {
    let ratio = case.ratio(Kind::Leaselock.name(), Kind::ByHand.name(), "p50_us");
    let what = format!("{} {}: p50 ÷ by hand", case.workload, case.title);
    Target::at_most(what, ratio.map(|spread| spread.median), 1.05)
}
