//! W13: work that is done once. A run with its result, and the result told again.

use crate::contender::{Kind, Want};
use crate::report::Report;
use crate::workload::Effort;
use crate::workload::beside_script::{Situation, measure};

const OTHERS: [Kind; 2] = [Kind::NodeIdempotency, Kind::Powertools];

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    for (title, want) in [
        ("work of a new key, one task", Want::Run),
        ("a result that is there, one task", Want::Told),
    ] {
        let situation = Situation {
            workload: "W13",
            title,
            want,
            tasks: 1,
        };
        measure(&situation, &OTHERS, effort, report)?;
    }
    let many = Situation {
        workload: "W13",
        title: "work of new keys, 256 tasks",
        want: Want::Run,
        tasks: 256,
    };
    measure(&many, &[], effort, report)
}
