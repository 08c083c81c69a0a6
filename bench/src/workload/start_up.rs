//! W6: how long the command takes to start, against flock(1).

use std::path::Path;
use std::process::{Command, Stdio};

use crate::clock::now_ns;
use crate::contender::text;
use crate::report::{Case, Report, Sample, Show, Target, column};
use crate::workload::{Effort, say};

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let Some(command) = &effort.command else {
        say("no start-up: the leaselock command was not built");
        return Ok(());
    };
    say("W6: start-up of the command");
    let dir = tempfile::tempdir().map_err(text)?;
    let url = format!("file://{}", dir.path().join("locks").display());
    let file = dir.path().join("flock");
    std::fs::create_dir(dir.path().join("locks")).map_err(text)?;
    let names = ["true", "flock x true", "leaselock run x -- true"].map(str::to_owned);
    let columns = vec![
        column("median µs", "us", Show::Median(0)),
        column("÷ flock", "us", Show::RatioTo("flock x true")),
    ];
    let rounds = if effort.quick { 60 } else { 200 };
    let case = Case::measure(
        "W6",
        "start-up, no waiters".to_owned(),
        columns,
        &names,
        rounds,
        |index| {
            let mut program = match index {
                0 => Command::new("true"),
                1 => flock(&file),
                _ => leaselock(command, &url),
            };
            timed(&mut program)
        },
    );
    let ratio = case
        .ratio(&names[2], &names[1], "us")
        .map(|spread| spread.median);
    report.targets.push(Target::at_most(
        "W6 run x -- true ÷ flock x true",
        ratio,
        2.0,
    ));
    report.cases.push(case);
    Ok(())
}

fn flock(file: &Path) -> Command {
    let mut command = Command::new("flock");
    command.arg(file).arg("true");
    command
}

fn leaselock(program: &Path, url: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--url", url, "run", "x", "--", "true"]);
    command
}

fn timed(command: &mut Command) -> Result<Sample, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let before_ns = now_ns();
    let status = command
        .status()
        .map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    let us = (now_ns() - before_ns) as f64 / 1e3;
    status
        .success()
        .then(|| Sample::from([("us", us)]))
        .ok_or_else(|| format!("ended with {status}"))
}
