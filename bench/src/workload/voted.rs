//! W4: free locks of a quorum. One task with one name; many tasks, each with a name of its own.

use crate::contender::Kind;
use crate::report::{Case, Column, Report, Show, Target, column};
use crate::servers::Servers;
use crate::workload::free::{Entrant, Workers};
use crate::workload::{Effort, say};

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    for nodes in [3, 5] {
        let mut servers = Servers::of(nodes)?;
        for tasks in [1, 16, 256] {
            let (rounds, ms) = match (effort.quick, tasks) {
                (true, 1) => (15, 100),
                (false, 1) => (21, 300),
                (true, _) => (5, 150),
                (false, _) => (11, 300),
            };
            let mut workers = Workers::start(&servers, &CONTENDERS.map(Entrant::plain));
            say(&format!("W4: {nodes} servers, tasks: {tasks}"));
            let title = format!("quorum of {nodes}, tasks with a name each: {tasks}");
            let case = workers.case(
                &mut servers,
                "W4",
                title,
                columns(),
                tasks,
                effort.rounds(rounds),
                ms,
            );
            targets(&case, nodes, tasks, report);
            report.cases.push(case);
            servers.empty()?;
        }
    }
    Ok(())
}

const CONTENDERS: [Kind; 6] = [
    Kind::RawParallel,
    Kind::ByHand,
    Kind::Leaselock,
    Kind::ByHandUnfenced,
    Kind::LeaselockUnfenced,
    Kind::Rslock,
];

fn columns() -> Vec<Column> {
    const RAW: Show = Show::RatioTo("raw in parallel");
    vec![
        column("pairs/s", "pairs_per_s", Show::Median(0)),
        column("÷ raw", "pairs_per_s", RAW),
        column("p50 µs", "p50_us", Show::Median(0)),
        column("÷ raw", "p50_us", RAW),
        column("÷ by hand", "p50_us", Show::RatioToByHand),
        column("p99 µs", "p99_us", Show::Median(0)),
        column("commands", "commands", Show::Median(2)),
        column("client CPU µs", "client_us", Show::Median(1)),
        column("÷ raw", "client_us", RAW),
        column("server CPU µs", "server_us", Show::Median(1)),
    ]
}

fn targets(case: &Case, servers: usize, tasks: usize, report: &mut Report) {
    let pairs = [
        ("fenced", Kind::Leaselock, Kind::ByHand),
        ("unfenced", Kind::LeaselockUnfenced, Kind::ByHandUnfenced),
    ];
    for (fenced, kind, by_hand) in pairs {
        let ratio = |to: Kind, metric| {
            let spread = case.ratio(kind.name(), to.name(), metric);
            spread.map(|spread| spread.median)
        };
        let of = |what| format!("W4 quorum of {servers}, {tasks} tasks: {what}, {fenced}");
        match tasks {
            1 => report.targets.extend([
                Target::at_most(of("p50 ÷ raw"), ratio(Kind::RawParallel, "p50_us"), 1.05),
                Target::at_most(of("p50 ÷ by hand"), ratio(by_hand, "p50_us"), 1.05),
            ]),
            256 => report.targets.push(Target::at_least(
                of("throughput ÷ raw"),
                ratio(Kind::RawParallel, "pairs_per_s"),
                0.95,
            )),
            _ => {}
        }
    }
}
