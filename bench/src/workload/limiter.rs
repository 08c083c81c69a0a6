//! W11: the rate limiter. What a try costs; and how much is let through when four processes want more than the rate.

use crate::contender::{Kind, Rate, Want};
use crate::report::Report;
use crate::workload::beside_script::{Situation, measure};
use crate::workload::{Effort, let_through};

/// No worker here asks for so many.
const PLENTY: Rate = Rate {
    permits: 1_000_000,
    seconds: 1,
    burst: 1_000_000,
};
/// Used up by the first try.
const ONE_AN_HOUR: Rate = Rate {
    permits: 1,
    seconds: 3600,
    burst: 1,
};

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    for situation in &SITUATIONS {
        measure(situation, others(situation), effort, report)?;
    }
    let_through::run(effort, report)
}

const SITUATIONS: [Situation; 3] = [
    Situation {
        workload: "W11",
        title: "a try that is allowed, one task",
        want: Want::Rate(PLENTY),
        tasks: 1,
    },
    Situation {
        workload: "W11",
        title: "a try that is refused, one task",
        want: Want::Rate(ONE_AN_HOUR),
        tasks: 1,
    },
    Situation {
        workload: "W11",
        title: "tries that are allowed, 256 tasks, one limiter",
        want: Want::Rate(PLENTY),
        tasks: 256,
    },
];

const IN_RUST: &[Kind] = &[Kind::RawGcra, Kind::Governor];
const OTHERS: [Kind; 7] = [
    Kind::RawGcra,
    Kind::Governor,
    Kind::RateLimiterFlexible,
    Kind::Bottleneck,
    Kind::LimitsFixed,
    Kind::LimitsMoving,
    Kind::PyrateLimiter,
];

/// 256 tasks would be threads in Python and one in Node: no measure of a limiter. bottleneck does not refuse, it waits.
fn others(situation: &Situation) -> &'static [Kind] {
    const TRIES: &[Kind] = &[
        Kind::RawGcra,
        Kind::Governor,
        Kind::RateLimiterFlexible,
        Kind::LimitsFixed,
        Kind::LimitsMoving,
        Kind::PyrateLimiter,
    ];
    match situation.tasks {
        1 if situation.want == Want::Rate(ONE_AN_HOUR) => TRIES,
        1 => &OTHERS,
        _ => IN_RUST,
    }
}
