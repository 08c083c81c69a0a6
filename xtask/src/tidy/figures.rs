//! The figures of free locks in README.md and docs/performance.md, against the run that is stored.
//!
//! A new run makes new figures, and a page that keeps the old ones misleads. The file has a value a line, so no parser of
//! JSON is needed.

#![allow(clippy::float_arithmetic, reason = "figures of a run are fractions")]

use std::collections::BTreeMap;

use crate::complaint::Complaint;
use crate::files::File;

const RUN: &str = "docs/img/run.json";
/// A table of ratios, a contender a column, and the first cell of its header.
const RATIOS: (&str, &str) = ("docs/performance.md", "tasks, each with a lock of its own");
/// A table of percentages, a contender a row.
const PERCENTAGES: (&str, &str) = ("README.md", "tasks");
/// What the rows of percentages call the contenders.
const ROWS: [(&str, &str); 2] = [
    ("with fencing tokens, the default", "leaselock"),
    ("without", "leaselock, unfenced"),
];

/// Pairs a second of each round, by tasks and contender.
type Rounds<'a> = BTreeMap<(&'a str, &'a str), Vec<f64>>;

pub(super) fn check(all: &[File], found: &mut Vec<Complaint>) {
    let text = |path: &str| {
        all.iter()
            .find(|file| file.path == path)
            .map(|file| &*file.text)
    };
    let Some(rounds) = text(RUN).map(rounds) else {
        return;
    };
    for (path, corner) in [RATIOS, PERCENTAGES] {
        for (line, row, column, cell) in cells(text(path).unwrap_or_default(), corner) {
            let contender = ROWS.iter().find(|(name, _)| *name == row);
            let (tasks, contender) = contender.map_or((row, column), |(_, it)| (column, *it));
            let ratio = ratio(&rounds, tasks, contender);
            let wanted = match ratio {
                None => "no such row in the run".to_owned(),
                Some([_, median, _]) if path == PERCENTAGES.0 => {
                    let percent = format!("{:+.0} %", (median - 1.0) * 100.0);
                    percent.replace('-', "−")
                }
                Some([lower, median, upper]) => format!("{median:.2} ({lower:.2}–{upper:.2})"),
            };
            if cell != wanted {
                let wrong = format!("{contender} with {tasks} tasks: {cell:?}");
                found.push(Complaint::new(
                    path,
                    line,
                    wrong,
                    format!("{wanted}, of {RUN}"),
                ));
            }
        }
    }
}

fn rounds(run: &str) -> Rounds<'_> {
    let (mut rounds, mut tasks, mut contender) = (Rounds::new(), "", "");
    for line in run.lines() {
        let Some((key, value)) = line.trim().trim_end_matches(',').split_once("\": ") else {
            continue;
        };
        let value = value.trim_matches('"');
        match key {
            "\"title" => tasks = value.split(' ').next().unwrap_or_default(),
            "\"contender" => contender = value,
            "\"pairs_per_s" => rounds
                .entry((tasks, contender))
                .or_default()
                .extend(value.parse::<f64>()),
            _ => {}
        }
    }
    rounds
}

/// The quarters and the median of what a contender makes ÷ what the bare client makes in the same round.
fn ratio(rounds: &Rounds<'_>, tasks: &str, contender: &str) -> Option<[f64; 3]> {
    let ours = rounds.get(&(tasks, contender))?;
    let bare = rounds.get(&(tasks, "raw"))?;
    let mut ratios: Vec<f64> = ours
        .iter()
        .zip(bare)
        .map(|(one, bare)| one / bare)
        .collect();
    ratios.sort_by(f64::total_cmp);
    Some([1, 2, 3].map(|quarter| {
        let (at, rest) = (
            (ratios.len() - 1) * quarter / 4,
            (ratios.len() - 1) * quarter % 4,
        );
        let next = ratios.get(at + 1).unwrap_or(&ratios[at]);
        let share = [0.0, 0.25, 0.5, 0.75][rest];
        ratios[at] + (next - ratios[at]) * share
    }))
}

/// The cells of the table whose header begins with `corner`: line, head of the row, head of the column, text.
fn cells<'a>(page: &'a str, corner: &str) -> Vec<(usize, &'a str, &'a str, &'a str)> {
    let split = |line: &'a str| {
        line.trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect::<Vec<_>>()
    };
    let lines = (1..).zip(page.lines());
    let mut rows = lines.skip_while(|(_, line)| !line.starts_with(&format!("| {corner} |")));
    let heads = rows.next().map_or(Vec::new(), |(_, line)| split(line));
    let rows = rows.skip(1).take_while(|(_, line)| line.starts_with('|'));
    let cells = rows.flat_map(|(number, line)| {
        let row = split(line);
        let both = heads.iter().zip(&row).skip(1);
        both.map(|(column, cell)| (number, row[0], *column, *cell))
            .collect::<Vec<_>>()
    });
    cells.collect()
}
