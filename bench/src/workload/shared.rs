//! W7: the read-write lock. Free, beside a mutex; and who waits for how long, when one side never pauses.

use crate::contender::{Kind, Want};
use crate::report::{Case, Column, Report, Show, Target, column};
use crate::servers::Servers;
use crate::waiters::{Group, Waiters};
use crate::workload::free::Entrant;
use crate::workload::{Effort, beside_mutex, crowd};

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let entrants = [
        Entrant::of(Kind::Leaselock, Want::Mutex),
        Entrant::of(Kind::ByHand, Want::Read),
        Entrant::of(Kind::Leaselock, Want::Read),
        Entrant::of(Kind::ByHand, Want::Write),
        Entrant::of(Kind::Leaselock, Want::Write),
        Entrant::of(Kind::Distkit, Want::Read),
        Entrant::of(Kind::Distkit, Want::Write),
        Entrant::of(Kind::DistributedLock, Want::Read),
        Entrant::of(Kind::DistributedLock, Want::Write),
    ];
    for tasks in [1, 256] {
        let case = beside_mutex::measure("W7", "read-write lock", &entrants, tasks, effort)?;
        for want in [Want::Read, Want::Write] {
            beside_mutex::mutex_target(&case, want, tasks, 1.15, report);
            beside_mutex::targets(&case, want, tasks, report);
        }
        report.cases.push(case);
    }
    starvation(effort, report)
}

const LONG_MS: u64 = 10;

/// One who comes back after a pause, against eight of the other mode who never pause.
struct Scene {
    title: &'static str,
    crowd: Want,
    lone: Want,
    /// The holds that a fair queue lets pass before the lone one: all readers share one.
    holds: u64,
}

const SCENES: [Scene; 2] = [
    Scene {
        title: "1 writer, 8 readers that hold 10 ms without pause",
        crowd: Want::Read,
        lone: Want::Write,
        holds: 1,
    },
    Scene {
        title: "1 reader, 8 writers that hold 10 ms without pause",
        crowd: Want::Write,
        lone: Want::Read,
        holds: 8,
    },
];

fn starvation(effort: &Effort, report: &mut Report) -> Result<(), String> {
    for scene in &SCENES {
        let case = starve(scene, effort)?;
        let ours = |metric| case.median(Kind::Leaselock.name(), metric);
        let fair_ms = (scene.holds * LONG_MS) as f64;
        let of = |what: &str| format!("W7 {}: {what}", scene.title);
        report.targets.extend([
            Target::at_most(
                of("its wait ÷ the holds in front of it"),
                ours("last_p50_ms").map(|ms| ms / fair_ms),
                1.25,
            ),
            Target::at_most(
                of("its longest wait ÷ the holds in front of it"),
                ours("last_longest_ms").map(|ms| ms / fair_ms),
                1.5,
            ),
            Target::at_most(of("commands a turn"), ours("commands"), 2.05),
            Target::at_most(of("messages a turn"), ours("messages"), 1.0),
        ]);
        report.cases.push(case);
    }
    Ok(())
}

fn starve(scene: &Scene, effort: &Effort) -> Result<Case, String> {
    let (rounds, ms) = if effort.quick { (3, 1500) } else { (5, 4000) };
    let groups = [
        Group {
            waiters: 8,
            want: scene.crowd,
            hold_us: LONG_MS * 1000,
            pause_us: 0,
        },
        Group {
            waiters: 1,
            want: scene.lone,
            hold_us: 1000,
            pause_us: 20_000,
        },
    ];
    let kinds = [Kind::Leaselock, Kind::Distkit, Kind::DistributedLock];
    let start = |servers: &Servers, kind| Waiters::start(kind, &servers.urls(), &groups);
    crowd::measure(
        "W7",
        scene.title,
        columns(),
        &kinds,
        start,
        effort.rounds(rounds),
        ms,
    )
}

fn columns() -> Vec<Column> {
    vec![
        column("its turns", "last_turns", Show::Median(0)),
        column("its wait p50 ms", "last_p50_ms", Show::Median(1)),
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
        column("messages a turn", "messages", Show::Median(2)),
        column("overlaps", "overlaps", Show::Median(0)),
    ]
}
