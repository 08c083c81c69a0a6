//! The workloads, one in a file.

mod beside_mutex;
mod beside_script;
mod contended;
mod counter;
mod crowd;
mod election;
mod embedded;
mod free;
mod let_through;
mod limiter;
mod once;
mod permits;
mod renewed;
mod scriptless;
mod several;
mod shared;
mod start_up;
mod voted;

use std::path::PathBuf;

use crate::report::Report;

/// How thorough a run is.
#[derive(Debug, Clone)]
pub struct Effort {
    pub quick: bool,
    /// Longer where more time shows more.
    pub long: bool,
    /// The `leaselock` command, for the time it takes to start.
    pub command: Option<PathBuf>,
    /// How often each situation is measured, if it is not as usual.
    pub rounds: Option<usize>,
}

impl Effort {
    pub fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(usual)
    }

    pub fn seconds(&self, quick: u64, usual: u64, long: u64) -> u64 {
        match (self.quick, self.long) {
            (true, _) => quick,
            (_, true) => long,
            _ => usual,
        }
    }
}

/// All that was asked for, in order; `say` is called before each case.
pub fn run(names: &[String], effort: &Effort, report: &mut Report) -> Result<(), String> {
    for name in names {
        match name.as_str() {
            "W1" => free::one_task(effort, report)?,
            "W2" => free::many_tasks(effort, report)?,
            "W3" => contended::run(effort, report)?,
            "W4" => voted::run(effort, report)?,
            "W5" => renewed::run(effort, report)?,
            "W6" => {
                embedded::run(effort, report)?;
                start_up::run(effort, report)?;
            }
            "W7" => shared::run(effort, report)?,
            "W8" => permits::run(effort, report)?,
            "W9" => several::run(effort, report)?,
            "W10" => election::run(effort, report)?,
            "W11" => limiter::run(effort, report)?,
            "W12" => counter::run(effort, report)?,
            "W13" => once::run(effort, report)?,
            "W14" => scriptless::run(effort, report)?,
            other => return Err(format!("there is no workload {other}: W1 to W14")),
        }
    }
    Ok(())
}

/// A line for the user, who waits.
pub fn say(what: &str) {
    eprintln!("measuring {what}");
}
