//! Measures leaselock against the bare client and against other lock libraries.
//!
//! Started by `cargo xtask bench`. Each contender runs in a process of its own; the rounds of all
//! contenders alternate, and ratios are taken round by round, so that what disturbs the machine
//! disturbs both sides of a ratio. `--before PROGRAM` names the benchmark of another build, whose
//! leaselock is measured in the same rounds: each figure of the one over that of the other. `--long` lets the processes
//! of W11 want more than the rate for a minute. `--svg FOLDER` draws the
//! charts of the README, of this run or, with `--from FILE`, of one that `--json` wrote.

mod capture;
mod child;
mod clock;
mod contender;
mod environment;
mod figures;
mod report;
mod servers;
mod svg;
mod table;
mod waiters;
mod worker;
mod workload;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::contender::text;
use crate::report::Report;
use crate::workload::Effort;

const ALL: [&str; 13] = [
    "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9", "W10", "W11", "W12", "W13",
];
/// Measured only when it is named: it compares a path that leaselock does not have.
const BY_NAME: &str = "W14";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((first, [setup])) if first == "child" => serde_json::from_str(setup)
            .map_err(text)
            .and_then(|setup| child::run(&setup)),
        _ => Asked::parse(args).and_then(|asked| match &asked.from {
            Some(kept) => draw_kept(kept, &asked),
            None => measure(&asked),
        }),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("bench: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// The command line.
struct Asked {
    workloads: Vec<String>,
    effort: Effort,
    json: Option<PathBuf>,
    markdown: Option<PathBuf>,
    /// Where the charts are drawn.
    svg: Option<PathBuf>,
    /// A run that is kept: nothing is measured then.
    from: Option<PathBuf>,
}

impl Asked {
    fn parse(args: Vec<String>) -> Result<Asked, String> {
        let mut asked = Asked {
            workloads: Vec::new(),
            effort: Effort {
                quick: false,
                long: false,
                command: None,
                rounds: None,
            },
            json: None,
            markdown: None,
            svg: None,
            from: None,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut file = || {
                args.next()
                    .map(PathBuf::from)
                    .ok_or(format!("{arg} needs a file"))
            };
            match arg.as_str() {
                "--quick" => asked.effort.quick = true,
                "--long" => asked.effort.long = true,
                "--json" => asked.json = Some(file()?),
                "--markdown" => asked.markdown = Some(file()?),
                "--svg" => asked.svg = Some(file()?),
                "--from" => asked.from = Some(file()?),
                "--before" => worker::compare_with(file()?),
                "--rounds" => {
                    let rounds = args.next().and_then(|count| count.parse().ok());
                    let rounds = rounds.filter(|count| *count > 0);
                    asked.effort.rounds = Some(rounds.ok_or("--rounds needs a number")?);
                }
                "--command" => asked.effort.command = Some(file()?),
                name if ALL.contains(&name) || name == BY_NAME => {
                    asked.workloads.push(name.to_owned())
                }
                other => {
                    return Err(format!(
                        "{other}: not a workload ({}, {BY_NAME}) nor an option",
                        ALL.join(", ")
                    ));
                }
            }
        }
        if asked.workloads.is_empty() {
            asked.workloads = ALL.map(str::to_owned).to_vec();
        }
        Ok(asked)
    }
}

/// Draws the charts of a run that `--json` wrote earlier.
fn draw_kept(kept: &Path, asked: &Asked) -> Result<(), String> {
    let folder = asked.svg.as_deref().ok_or("--from needs --svg FOLDER")?;
    let json = std::fs::read_to_string(kept).map_err(text)?;
    svg::draw(&serde_json::from_str(&json).map_err(text)?, folder)
}

fn measure(asked: &Asked) -> Result<(), String> {
    let mut report = Report {
        environment: environment::describe()?,
        ..Report::default()
    };
    let outcome = workload::run(&asked.workloads, &asked.effort, &mut report);
    // What was measured before a failure is shown all the same.
    print!("{}", page(&report, false));
    if let Some(file) = &asked.markdown {
        std::fs::write(file, page(&report, true)).map_err(text)?;
    }
    if let Some(file) = &asked.json {
        std::fs::write(file, serde_json::to_string_pretty(&report).map_err(text)?).map_err(text)?;
    }
    outcome?;
    match &asked.svg {
        Some(folder) => svg::draw(&serde_json::to_value(&report).map_err(text)?, folder),
        None => Ok(()),
    }
}

/// The whole run as text.
fn page(report: &Report, markdown: bool) -> String {
    let draw = if markdown {
        table::markdown
    } else {
        table::plain
    };
    let environment: Vec<String> = report
        .environment
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let mut page = format!("{}\n", environment.join(" · "));
    for case in &report.cases {
        let (before, after) = if markdown { ("**", "**") } else { ("", "") };
        page += &format!(
            "\n{before}{} · {}{after}\n\n{}",
            case.workload,
            case.title,
            draw(&table::rows(case))
        );
        let paired = table::before_and_after(case);
        if !paired.is_empty() {
            page += &format!("\n{}", draw(&paired));
        }
        for note in &case.notes {
            page += &format!("\n{note}\n");
        }
    }
    if !report.targets.is_empty() {
        let mut rows = table::targets(&report.targets);
        if markdown {
            // The targets are the project's own; a reader of the page wants the figures.
            rows.iter_mut().for_each(|row| row.truncate(2));
        }
        page += &format!("\n{}", draw(&rows));
    }
    page
}
