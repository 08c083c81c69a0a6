//! W3: one name that many want, in one process and across processes.

use crate::contender::Kind;
use crate::report::{Case, Column, Report, Show, Target, column};
use crate::servers::Servers;
use crate::waiters::{Group, Loop, Waiters};
use crate::worker::paired;
use crate::workload::{Effort, say};

/// One situation.
struct Scene {
    /// How many waiters in each process.
    waiters: &'static [usize],
    hold_us: u64,
    mode: Loop,
    rounds: usize,
    ms: u64,
    /// Whether the polling peers take part.
    peers: bool,
}

const ONE_MS: u64 = 1000;

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let scenes = if effort.quick { quick() } else { full() };
    let mut measured = Vec::new();
    for scene in scenes {
        let case = measure(&scene, effort.rounds(scene.rounds))?;
        measured.push((scene, case));
    }
    targets(report, &measured);
    report
        .cases
        .extend(measured.into_iter().map(|(_, case)| case));
    zero_hold_targets(report);
    Ok(())
}

fn full() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for mode in [Loop::Greedy, Loop::Fair] {
        for waiters in [&[2][..], &[1, 1], &[16], &[4, 4, 4, 4], &[1, 1, 1, 1]] {
            scenes.push(Scene {
                waiters,
                hold_us: ONE_MS,
                mode,
                rounds: 5,
                ms: 1000,
                peers: waiters.iter().sum::<usize>() == 16,
            });
        }
        for waiters in [&[128][..], &[32, 32, 32, 32]] {
            scenes.push(Scene {
                waiters,
                hold_us: ONE_MS,
                mode,
                rounds: 3,
                ms: 5000,
                peers: false,
            });
        }
    }
    scenes.extend(no_hold(5, 1000));
    scenes
}

fn quick() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for waiters in [&[2][..], &[1, 1], &[16], &[4, 4, 4, 4], &[1, 1, 1, 1]] {
        let peers = waiters == [4, 4, 4, 4];
        scenes.push(Scene {
            waiters,
            hold_us: ONE_MS,
            mode: Loop::Greedy,
            rounds: 3,
            ms: 500,
            peers,
        });
    }
    let crowd = &[32, 32, 32, 32];
    scenes.push(Scene {
        waiters: crowd,
        hold_us: ONE_MS,
        mode: Loop::Greedy,
        rounds: 1,
        ms: 4500,
        peers: false,
    });
    scenes.extend(no_hold(3, 500));
    scenes
}

/// How fast the lock goes round when no holder keeps it; and one waiter elsewhere against a crowd.
fn no_hold(rounds: usize, ms: u64) -> Vec<Scene> {
    let scene = |waiters| Scene {
        waiters,
        hold_us: 0,
        mode: Loop::Greedy,
        rounds,
        ms,
        peers: false,
    };
    vec![
        scene(&[16]),
        scene(&[1, 1, 1, 1]),
        scene(&[4, 4, 4, 4]),
        scene(&[16, 1]),
    ]
}

fn title(scene: &Scene) -> String {
    let total: usize = scene.waiters.iter().sum();
    let shape = match scene.waiters {
        [_] => "one process".to_owned(),
        _ if scene.is_uneven() => {
            let shape: Vec<String> = scene.waiters.iter().map(usize::to_string).collect();
            format!("{} in {} processes", shape.join(" + "), shape.len())
        }
        _ => format!("{} processes", scene.waiters.len()),
    };
    let hold = if scene.hold_us == 0 {
        "no hold"
    } else {
        "hold 1 ms"
    };
    format!("{total} waiters, {shape}, {hold}, {}", scene.mode.name())
}

fn measure(scene: &Scene, rounds: usize) -> Result<Case, String> {
    let mut servers = Servers::start()?;
    let mut kinds = paired(&[Kind::RawQueue, Kind::Leaselock]);
    if scene.peers {
        kinds.extend([Kind::Rslock, Kind::RedisLock, Kind::Redlock]);
    }
    let urls = servers.urls();
    let group = |waiters: &usize| Group::mutex(*waiters, scene.hold_us, scene.mode);
    let waiters: Vec<Group> = scene.waiters.iter().map(group).collect();
    let start = |kind: &Kind| Waiters::start(*kind, &urls, &waiters);
    let mut groups: Vec<Waiters> = kinds.iter().map(start).collect::<Result<_, _>>()?;
    say(&format!("W3: {}", title(scene)));
    for waiters in &mut groups {
        waiters.round(Some(&mut servers), 100).ok(); // the first use of every connection is not counted
    }
    let names: Vec<String> = kinds.iter().map(|kind| kind.name().to_owned()).collect();
    Ok(Case::measure(
        "W3",
        title(scene),
        columns(scene),
        &names,
        rounds,
        |index| groups[index].round(Some(&mut servers), scene.ms),
    ))
}

fn columns(scene: &Scene) -> Vec<Column> {
    let mut columns = vec![
        column("turns/s", "turns_per_s", Show::Median(0)),
        column("idle mean µs", "idle_mean_us", Show::Median(0)),
        column("÷ raw-queue", "idle_mean_us", Show::RatioTo("raw-queue")),
        column("p50", "idle_p50_us", Show::Median(0)),
        column("p99", "idle_p99_us", Show::Median(0)),
        column("÷ raw-queue", "idle_p99_us", Show::RatioTo("raw-queue")),
        column("commands", "commands", Show::Median(3)),
        column("Jain", "jain", Show::Median(4)),
        column("longest ÷ mean wait", "longest_wait", Show::Median(2)),
        column("client CPU µs", "client_us", Show::Median(0)),
        column("server CPU µs", "server_us", Show::Median(0)),
        column("overlaps", "overlaps", Show::Median(0)),
    ];
    if scene.is_uneven() {
        let alone = column(
            "longest wait of the one elsewhere, ms",
            "last_longest_ms",
            Show::Median(1),
        );
        columns.insert(9, alone);
    }
    columns
}

impl Scene {
    fn is_uneven(&self) -> bool {
        self.waiters
            .iter()
            .any(|other| Some(other) != self.waiters.first())
    }
}

/// What is promised across processes, whatever the number of waiters: the worst case counts.
fn targets(report: &mut Report, measured: &[(Scene, Case)]) {
    let ours = Kind::Leaselock.name();
    let across: Vec<&Case> = measured
        .iter()
        .filter(|(scene, _)| {
            scene.waiters.len() > 1 && scene.hold_us > 0 && scene.mode == Loop::Greedy
        })
        .map(|(_, case)| case)
        .collect();
    let worst = |of: &dyn Fn(&Case) -> Option<f64>, sign: f64| {
        let values = across.iter().filter_map(|case| of(case));
        values.max_by(|a, b| (a * sign).total_cmp(&(b * sign)))
    };
    let ratio = |metric: &'static str| {
        let of = move |case: &Case| {
            case.ratio(ours, Kind::RawQueue.name(), metric)
                .map(|spread| spread.median)
        };
        worst(&of, 1.0)
    };
    let median =
        |metric: &'static str, sign| worst(&move |case: &Case| case.median(ours, metric), sign);
    report.targets.extend([
        Target::at_most(
            "W3 idle mean ÷ raw-queue, worst",
            ratio("idle_mean_us"),
            1.10,
        ),
        Target::at_most("W3 idle p99 ÷ raw-queue, worst", ratio("idle_p99_us"), 1.5),
        Target::at_most(
            "W3 commands an acquisition, worst",
            median("commands", 1.0),
            2.05,
        ),
        Target::at_least("W3 Jain index, worst", median("jain", -1.0), 0.999),
        Target::at_most(
            "W3 longest ÷ mean wait, worst",
            median("longest_wait", 1.0),
            1.5,
        ),
        Target::at_most("W3 client CPU ÷ raw-queue, worst", ratio("client_us"), 1.3),
        Target::at_most("W3 server CPU ÷ raw-queue, worst", ratio("server_us"), 1.3),
    ]);
}

/// Turns within one process against turns across processes.
fn zero_hold_targets(report: &mut Report) {
    let ours = Kind::Leaselock.name();
    let case = |start: &str| {
        let mut cases = report.cases.iter().filter(|case| case.workload == "W3");
        cases.find(|case| case.title.starts_with(start) && case.title.contains("no hold"))
    };
    let (local, across) = (
        case("16 waiters, one process"),
        case("4 waiters, 4 processes"),
    );
    let speed = |case: Option<&Case>| case?.median(ours, "turns_per_s");
    let ratio = speed(local)
        .zip(speed(across))
        .map(|(local, across)| local / across);
    let commands = local.and_then(|case| case.median(ours, "commands"));
    report.targets.push(Target::at_least(
        "W3 turns/s in one process ÷ across 4",
        ratio,
        20.0,
    ));
    report.targets.push(Target::at_most(
        "W3 commands a turn in one process",
        commands,
        0.05,
    ));
}
