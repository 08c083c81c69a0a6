//! W8: the semaphore. Free, beside a mutex; many waiters on few permits; one that wants nearly all of them.

use crate::contender::{Kind, Want};
use crate::report::{Column, Report, Show, Target, column};
use crate::servers::Servers;
use crate::waiters::{Group, Waiters};
use crate::workload::free::Entrant;
use crate::workload::{Effort, beside_mutex, crowd};

const PERMIT: Want = Want::Permits { take: 1, of: 4 };

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let entrants = [
        Entrant::of(Kind::Leaselock, Want::Mutex),
        Entrant::of(Kind::ByHand, PERMIT),
        Entrant::of(Kind::Leaselock, PERMIT),
        Entrant::of(Kind::DistributedLock, PERMIT),
        Entrant::of(Kind::RedisSemaphore, PERMIT),
    ];
    for tasks in [1, 256] {
        let case = beside_mutex::measure("W8", "semaphore of 4 permits", &entrants, tasks, effort)?;
        beside_mutex::mutex_target(&case, PERMIT, tasks, 1.4, report);
        beside_mutex::targets(&case, PERMIT, tasks, report);
        report.cases.push(case);
    }
    many_waiters(effort, report)?;
    nearly_all(effort, report)
}

fn wanting(waiters: usize, want: Want) -> Group {
    Group {
        waiters,
        want,
        hold_us: 1000,
        pause_us: 0,
    }
}

fn many_waiters(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let title = "64 waiters on 4 permits, 4 processes, hold 1 ms";
    let (rounds, ms) = if effort.quick { (3, 2000) } else { (5, 4000) };
    let kinds = [Kind::Leaselock, Kind::DistributedLock, Kind::RedisSemaphore];
    let groups = [wanting(16, PERMIT); 4];
    let start = |servers: &Servers, kind| Waiters::start(kind, &servers.urls(), &groups);
    let columns = vec![
        column("turns/s", "turns_per_s", Show::Median(0)),
        column("commands a turn", "commands", Show::Median(3)),
        column("messages a turn", "messages", Show::Median(2)),
        column("Jain", "jain", Show::Median(4)),
        column("longest ÷ mean wait", "longest_wait", Show::Median(2)),
        column("longest ms", "longest_ms", Show::Median(0)),
        column("client CPU µs", "client_us", Show::Median(0)),
        column("server CPU µs", "server_us", Show::Median(0)),
        column("overlaps", "overlaps", Show::Median(0)),
    ];
    let case = crowd::measure(
        "W8",
        title,
        columns,
        &kinds,
        start,
        effort.rounds(rounds),
        ms,
    )?;
    let ours = |metric| case.median(Kind::Leaselock.name(), metric);
    report.targets.extend([
        Target::at_most("W8 64 waiters: commands a turn", ours("commands"), 2.05),
        Target::at_least("W8 64 waiters: Jain index", ours("jain"), 0.999),
        crowd::against_others(&case, "W8 64 waiters"),
    ]);
    report.cases.push(case);
    Ok(())
}

/// A wish for 7 of 8 permits joins the queue behind 16 wishes for 1, of which 8 hold: each time at the same place.
fn nearly_all(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let title = "1 waiter for 7 of 8 permits, 16 for 1, hold 1 ms, no pause";
    let (rounds, ms) = if effort.quick { (3, 2000) } else { (5, 4000) };
    let one = wanting(8, Want::Permits { take: 1, of: 8 });
    let seven = wanting(1, Want::Permits { take: 7, of: 8 });
    let groups = [one, one, seven];
    let start = |servers: &Servers, kind| Waiters::start(kind, &servers.urls(), &groups);
    let columns: Vec<Column> = vec![
        column("its turns", "last_turns", Show::Median(0)),
        column("its mean wait ms", "last_mean_ms", Show::Median(1)),
        column("longest ms", "last_longest_ms", Show::Median(1)),
        column("longest ÷ mean", "last_longest", Show::Median(2)),
        column("most turns before it", "last_passed", Show::Median(0)),
        column(
            "mean wait of the others ms",
            "crowd_mean_ms",
            Show::Median(1),
        ),
        column("turns/s of all", "turns_per_s", Show::Median(0)),
        column("commands a turn", "commands", Show::Median(2)),
        column("overlaps", "overlaps", Show::Median(0)),
    ];
    let kinds = [Kind::Leaselock, Kind::RedisSemaphore];
    let case = crowd::measure(
        "W8",
        title,
        columns,
        &kinds,
        start,
        effort.rounds(rounds),
        ms,
    )?;
    let ours = |metric| case.median(Kind::Leaselock.name(), metric);
    report.targets.extend([
        Target::at_most(
            "W8 7 of 8 permits: longest ÷ mean wait",
            ours("last_longest"),
            1.5,
        ),
        Target::at_most(
            "W8 7 of 8 permits: turns of the 16 others during one wait, most",
            ours("last_passed"),
            16.0,
        ),
    ]);
    report.cases.push(case);
    Ok(())
}
