//! W12: the counter. One task, and many tasks on one counter, beside plain `INCRBY`.

use crate::contender::{Kind, Want};
use crate::report::{Report, Target};
use crate::workload::Effort;
use crate::workload::beside_script::{Situation, measure};

const OTHERS: [Kind; 3] = [Kind::RawCount, Kind::RawCounts, Kind::Distkit];

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let one = Situation {
        workload: "W12",
        title: "one more, one task",
        want: Want::Count,
        tasks: 1,
    };
    measure(&one, &OTHERS, effort, report)?;
    let many = Situation {
        title: "one more, 256 tasks, one counter",
        tasks: 256,
        ..one
    };
    measure(&many, &OTHERS, effort, report)?;
    let case = report.cases.last();
    let ratio = |to: Kind| {
        let ratio = case?.ratio(Kind::Leaselock.name(), to.name(), "pairs_per_s");
        ratio.map(|spread| spread.median)
    };
    let targets = [
        ("INCRBY", ratio(Kind::RawCount), 20.0),
        ("20 INCRBY at once", ratio(Kind::RawCounts), 1.0),
    ];
    for (what, ratio, limit) in targets {
        let what = format!("W12 256 tasks, one counter: changes a second ÷ {what}");
        report.targets.push(Target::at_least(what, ratio, limit));
    }
    Ok(())
}
