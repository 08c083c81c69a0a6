//! W6: the embedded store, in memory and in a folder.

use crate::child::Pairs;
use crate::contender::{Kind, Want, text};
use crate::report::{Case, Column, Report, Sample, Show, Target, column};
use crate::waiters::{Group, Loop, Waiters};
use crate::worker::{Worker, paired};
use crate::workload::{Effort, say};

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(text)?;
    let folder = format!("file://{}", dir.path().join("locks").display());
    let (rounds, ms) = if effort.quick { (5, 100) } else { (15, 300) };
    let rounds = effort.rounds(rounds);
    say("W6: free locks in memory and in a folder");
    report.cases.push(free(&folder, rounds, ms)?);
    say("W6: hand-over in a folder across 4 processes");
    let case = across_processes(&folder, effort.rounds(rounds.min(7)), ms * 4)?;
    let ours = |metric| case.median(FOLDER, metric);
    report.targets.extend([
        Target::at_least(
            "W6 hand-overs/s across 4 processes",
            ours("turns_per_s"),
            50_000.0,
        ),
        Target::at_most("W6 turns out of order", ours("overtaken"), 0.0),
        Target::at_most("W6 hand-over p99, µs", ours("idle_p99_us"), 250.0),
    ]);
    report.cases.push(case);
    Ok(())
}

const FOLDER: &str = "leaselock, folder";

/// Two builds need not agree on what is in a folder.
fn own(url: &str, kind: Kind) -> String {
    match kind {
        Kind::Before if url.starts_with("file:") => format!("{url}-before"),
        _ => url.to_owned(),
    }
}

fn free(folder: &str, rounds: usize, ms: u64) -> Result<Case, String> {
    let (mut workers, mut names) = (Vec::new(), Vec::new());
    for (url, where_) in [("mem:".to_owned(), "memory"), (folder.to_owned(), "folder")] {
        for kind in paired(&[Kind::Leaselock]) {
            workers.push(Worker::start(kind, &[own(&url, kind)], None)?);
            names.push(format!("{}, {where_}", kind.name()));
        }
    }
    let columns = vec![
        column("p50 µs", "p50_us", Show::Median(1)),
        column("p99 µs", "p99_us", Show::Median(1)),
        column("pairs/s", "pairs_per_s", Show::Median(0)),
        column("client CPU µs", "client_us", Show::Median(1)),
    ];
    let title = "one task, one name, embedded store".to_owned();
    Ok(Case::measure(
        "W6",
        title,
        columns,
        &names,
        rounds,
        |index| {
            let paired = workers[index].pairs(Pairs {
                tasks: 1,
                ms,
                prefix: "free/".to_owned(),
                one_name: false,
                want: Want::Mutex,
            })?;
            let pairs = paired.pairs as f64;
            Ok(Sample::from([
                ("p50_us", paired.p50_ns as f64 / 1e3),
                ("p99_us", paired.p99_ns as f64 / 1e3),
                ("pairs_per_s", pairs / (paired.cost.wall_ns as f64 / 1e9)),
                ("client_us", paired.cost.processor_ns as f64 / 1e3 / pairs),
            ]))
        },
    ))
}

fn across_processes(folder: &str, rounds: usize, ms: u64) -> Result<Case, String> {
    let (mut groups, mut names) = (Vec::new(), Vec::new());
    for kind in paired(&[Kind::Leaselock]) {
        let urls = [own(folder, kind)];
        let mut waiters = Waiters::start(kind, &urls, &[Group::mutex(1, 0, Loop::Greedy); 4])?;
        waiters.round(None, 100)?;
        groups.push(waiters);
        names.push(format!("{}, folder", kind.name()));
    }
    let title = "4 waiters, 4 processes, no hold, greedy, embedded store".to_owned();
    Ok(Case::measure(
        "W6",
        title,
        columns(),
        &names,
        rounds,
        |index| groups[index].round(None, ms),
    ))
}

fn columns() -> Vec<Column> {
    vec![
        column("turns/s", "turns_per_s", Show::Median(0)),
        column("idle mean µs", "idle_mean_us", Show::Median(1)),
        column("p50", "idle_p50_us", Show::Median(1)),
        column("p99", "idle_p99_us", Show::Median(1)),
        column("Jain", "jain", Show::Median(4)),
        column("out of order", "overtaken", Show::Median(0)),
        column("overlaps", "overlaps", Show::Median(0)),
        column("client CPU µs", "client_us", Show::Median(1)),
    ]
}
