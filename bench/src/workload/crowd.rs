//! A situation in which many wait for one name: the contenders in turns, each in its own processes.

use crate::contender::{Kind, Want};
use crate::report::{Case, Column, Target};
use crate::servers::Servers;
use crate::waiters::Waiters;
use crate::worker::paired;
use crate::workload::say;

/// The first use of every connection is not counted.
const WARM_UP_MS: u64 = 200;

/// One row for each kind.
pub fn measure(
    workload: &'static str,
    title: &str,
    columns: Vec<Column>,
    kinds: &[Kind],
    start: impl Fn(&Servers, Kind) -> Result<Waiters, String>,
    rounds: usize,
    ms: u64,
) -> Result<Case, String> {
    let rows: Vec<(String, Kind)> = paired(kinds)
        .into_iter()
        .map(|kind| (kind.name().to_owned(), kind))
        .collect();
    situation(workload, title, columns, &rows, start, (rounds, ms))
}

/// One row for each kind and what it wants.
pub fn measure_rows(
    workload: &'static str,
    title: &str,
    columns: Vec<Column>,
    entrants: &[(Kind, Want)],
    start: impl Fn(&Servers, (Kind, Want)) -> Result<Waiters, String>,
    rounds: usize,
    ms: u64,
) -> Result<Case, String> {
    let built = |(kind, want): &(Kind, Want)| -> Vec<(Kind, Want)> {
        paired(&[*kind])
            .into_iter()
            .map(|kind| (kind, *want))
            .collect()
    };
    let row =
        |(kind, want): (Kind, Want)| (format!("{}, {}", kind.name(), want.name()), (kind, want));
    let rows: Vec<_> = entrants.iter().flat_map(built).map(row).collect();
    situation(workload, title, columns, &rows, start, (rounds, ms))
}

fn situation<T: Copy>(
    workload: &'static str,
    title: &str,
    columns: Vec<Column>,
    rows: &[(String, T)],
    start: impl Fn(&Servers, T) -> Result<Waiters, String>,
    (rounds, ms): (usize, u64),
) -> Result<Case, String> {
    let mut servers = Servers::start()?;
    say(&format!("{workload}: {title}"));
    let (mut groups, mut names, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (name, row) in rows {
        match start(&servers, *row) {
            Ok(waiters) => {
                groups.push(waiters);
                names.push(name.clone());
            }
            Err(why) => missing.push(format!("{name}: {why}")),
        }
    }
    for waiters in &mut groups {
        waiters.round(Some(&mut servers), WARM_UP_MS).ok();
    }
    let title = title.to_owned();
    let mut case = Case::measure(workload, title, columns, &names, rounds, |index| {
        groups[index].round(Some(&mut servers), ms)
    });
    case.notes.extend(missing);
    Ok(case)
}

/// How fast it goes round, beside the fastest other library.
pub fn against_others(case: &Case, what: &str) -> Target {
    let others = case.of_others("", "turns_per_s");
    let fastest = others.into_iter().max_by(f64::total_cmp);
    let ours = case.median(Kind::Leaselock.name(), "turns_per_s");
    let ratio = ours.zip(fastest).map(|(ours, fastest)| ours / fastest);
    Target::at_least(
        format!("{what}: turns/s ÷ the fastest other library"),
        ratio,
        1.0,
    )
}
