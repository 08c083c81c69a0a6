//! W9: several names at once. Free, beside one mutex; and transfers between two names that others want too.

use crate::contender::{Kind, Want};
use crate::report::{Report, Show, Target, column};
use crate::servers::Servers;
use crate::waiters::{Group, Waiters};
use crate::workload::free::Entrant;
use crate::workload::{Effort, beside_mutex, crowd};

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    for names in [2, 7, 32] {
        let want = Want::Several { names };
        let entrants = [
            Entrant::of(Kind::Leaselock, Want::Mutex),
            Entrant::of(Kind::ByHand, want),
            Entrant::of(Kind::Leaselock, want),
            Entrant::of(Kind::RedisLock, want),
            Entrant::of(Kind::NodeRedlock, want),
            Entrant::of(Kind::RedlockUniversal, want),
        ];
        let case = beside_mutex::measure("W9", &want.name(), &entrants, 1, effort)?;
        beside_mutex::targets(&case, want, 1, report);
        let ours = Entrant::of(Kind::Leaselock, want);
        report.targets.push(Target::at_most(
            format!("W9 {names} names: commands a pair"),
            case.median(ours.row(), "commands"),
            2.005,
        ));
        report.cases.push(case);
    }
    transfers(effort, report)
}

fn transfers(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let title = "transfers between 2 of 8 names, 4 waiters in each of 4 processes, hold 1 ms";
    let (rounds, ms) = if effort.quick { (3, 2000) } else { (5, 4000) };
    let kinds = [
        Kind::Leaselock,
        Kind::RedisLock,
        Kind::NodeRedlock,
        Kind::RedlockUniversal,
    ];
    let group = Group {
        waiters: 4,
        want: Want::Transfer { of: 8 },
        hold_us: 1000,
        pause_us: 0,
    };
    let start = |servers: &Servers, kind| Waiters::start(kind, &servers.urls(), &[group; 4]);
    let columns = vec![
        column("turns/s", "turns_per_s", Show::Median(0)),
        column("commands a turn", "commands", Show::Median(2)),
        column("Jain", "jain", Show::Median(4)),
        column("longest ÷ mean wait", "longest_wait", Show::Median(2)),
        column("longest ms", "longest_ms", Show::Median(0)),
        column("client CPU µs", "client_us", Show::Median(0)),
        column("server CPU µs", "server_us", Show::Median(0)),
        column("overlaps", "overlaps", Show::Median(0)),
    ];
    let case = crowd::measure(
        "W9",
        title,
        columns,
        &kinds,
        start,
        effort.rounds(rounds),
        ms,
    )?;
    report
        .targets
        .push(crowd::against_others(&case, "W9 transfers"));
    report.cases.push(case);
    Ok(())
}
