//! W10: one leader after the other, beside one holder of a mutex after the other; and when followers know.

use crate::contender::{Kind, Want};
use crate::report::{Report, Show, Target, column};
use crate::servers::Servers;
use crate::waiters::{Group, Waiters};
use crate::workload::free::Entrant;
use crate::workload::{Effort, beside_mutex, crowd};

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let entrants = [
        Entrant::of(Kind::Leaselock, Want::Mutex),
        Entrant::of(Kind::ByHand, Want::Lead),
        Entrant::of(Kind::Leaselock, Want::Lead),
    ];
    let case = beside_mutex::measure("W10", "election", &entrants, 1, effort)?;
    beside_mutex::targets(&case, Want::Lead, 1, report);
    report.cases.push(case);
    changes(effort, report)?;
    followers(effort, report)
}

/// One of four processes.
fn candidate(want: Want, hold_us: u64) -> Group {
    Group {
        waiters: 1,
        want,
        hold_us,
        pause_us: 0,
    }
}

fn changes(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let title = "4 candidates, 4 processes, each leads for 1 ms";
    let (rounds, ms) = if effort.quick { (7, 800) } else { (11, 1500) };
    let entrants = [
        (Kind::Leaselock, Want::Mutex),
        (Kind::Leaselock, Want::Lead),
        (Kind::RedisLeader, Want::Lead),
    ];
    let columns = vec![
        column("changes/s", "turns_per_s", Show::Median(0)),
        column("without a leader, mean µs", "idle_mean_us", Show::Median(0)),
        column("÷ mutex", "idle_mean_us", Show::RatioTo(MUTEX)),
        column("p50", "idle_p50_us", Show::Median(0)),
        column("÷ mutex", "idle_p50_us", Show::RatioTo(MUTEX)),
        column("p99", "idle_p99_us", Show::Median(0)),
        column("commands", "commands", Show::Median(2)),
        column("Jain", "jain", Show::Median(4)),
        column("longest ÷ mean wait", "longest_wait", Show::Median(2)),
        column("overlaps", "overlaps", Show::Median(0)),
    ];
    let start = |servers: &Servers, (kind, want)| {
        // redis-leader polls every second, so it leads for long enough to be seen.
        let groups = [candidate(want, 1000); 4];
        Waiters::start(kind, &servers.urls(), &groups)
    };
    let case = crowd::measure_rows(
        "W10",
        title,
        columns,
        &entrants,
        start,
        effort.rounds(rounds),
        ms,
    )?;
    let ratio = case.ratio("leaselock, leader", MUTEX, "idle_p50_us");
    report.targets.push(Target::at_most(
        "W10 without a leader, p50 ÷ a mutex without a holder",
        ratio.map(|spread| spread.median),
        1.1,
    ));
    report.cases.push(case);
    Ok(())
}

const MUTEX: &str = "leaselock, mutex";

fn followers(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let title = "8 followers in one process, 4 candidates in 4, each leads for 20 ms";
    let (rounds, ms) = if effort.quick { (3, 1500) } else { (5, 3000) };
    let columns = vec![
        column("changes/s", "turns_per_s", Show::Median(0)),
        column("without a leader, p50 µs", "idle_p50_us", Show::Median(0)),
        column(
            "until followers know, p50 µs",
            "known_p50_us",
            Show::Median(0),
        ),
        column("p99", "known_p99_us", Show::Median(0)),
        column("commands a change", "commands", Show::Median(2)),
        column("messages a change", "messages", Show::Median(2)),
    ];
    let start = |servers: &Servers, kind| {
        let groups = [candidate(Want::Lead, 20_000); 4];
        Waiters::start(kind, &servers.urls(), &groups)?.followed_by(8, &servers.urls())
    };
    let kinds = [Kind::Leaselock];
    let case = crowd::measure(
        "W10",
        title,
        columns,
        &kinds,
        start,
        effort.rounds(rounds),
        ms,
    )?;
    report.cases.push(case);
    Ok(())
}
