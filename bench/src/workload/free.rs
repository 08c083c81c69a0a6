//! W1 and W2: free locks. One task with one name; many tasks, each with a name of its own.

use crate::capture;
use crate::child::Pairs;
use crate::contender::{Kind, Want};
use crate::report::{Case, Column, Report, Sample, Show, Target, column};
use crate::servers::Servers;
use crate::worker::{Worker, paired};
use crate::workload::{Effort, say};

pub fn one_task(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let mut servers = Servers::start()?;
    let mut workers = Workers::start(&servers, &CONTENDERS.map(Entrant::plain));
    let (rounds, ms) = if effort.quick { (15, 100) } else { (21, 300) };
    say("W1: one task, one name");
    let case = workers.case(
        &mut servers,
        "W1",
        "one task, one name".to_owned(),
        one_task_columns(),
        1,
        effort.rounds(rounds),
        ms,
    );
    targets_of_one_task(&case, report);
    report.cases.push(case);
    Ok(())
}

pub fn many_tasks(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let mut servers = Servers::start()?;
    let (rounds, ms) = if effort.quick { (5, 100) } else { (11, 300) };
    for tasks in [1, 16, 256, 2048] {
        // No user wants 2048 threads, which is what a blocking library would need.
        let blocking = tasks > 256;
        let entrants: Vec<Entrant> = CONTENDERS
            .into_iter()
            .filter(|kind| !(blocking && *kind == Kind::Redlock))
            .map(Entrant::plain)
            .collect();
        let mut workers = Workers::start(&servers, &entrants);
        say(&format!("W2: {tasks} tasks"));
        let title = format!("{tasks} tasks, each with a name of its own, one client");
        let case = workers.case(
            &mut servers,
            "W2",
            title,
            many_tasks_columns(),
            tasks,
            effort.rounds(rounds),
            ms,
        );
        targets_of_many_tasks(&case, tasks, report);
        report.cases.push(case);
        servers.empty()?;
    }
    Ok(())
}

/// Who is compared with whom stands side by side, so that little time lies between their rounds.
const CONTENDERS: [Kind; 9] = [
    Kind::Raw,
    Kind::ByHand,
    Kind::Leaselock,
    Kind::ByHandUnfenced,
    Kind::LeaselockUnfenced,
    Kind::Rslock,
    Kind::RedisLock,
    Kind::DistributedLock,
    Kind::Redlock,
];

fn one_task_columns() -> Vec<Column> {
    vec![
        column("p50 µs", "p50_us", Show::Median(1)),
        column("p99 µs", "p99_us", Show::Median(0)),
        column("p50 ÷ raw", "p50_us", Show::RatioTo("raw")),
        column("p50 ÷ by hand", "p50_us", Show::RatioToByHand),
        column("commands", "commands", Show::Median(2)),
        column("client CPU µs", "client_us", Show::Median(1)),
        column("÷ by hand", "client_us", Show::RatioToByHand),
        column("server CPU µs", "server_us", Show::Median(1)),
    ]
}

pub(super) fn many_tasks_columns() -> Vec<Column> {
    vec![
        column("pairs/s", "pairs_per_s", Show::Median(0)),
        column("÷ raw", "pairs_per_s", Show::RatioTo("raw")),
        column("p50 µs", "p50_us", Show::Median(0)),
        column("p99 µs", "p99_us", Show::Median(0)),
        column("commands", "commands", Show::Median(2)),
        column("client CPU µs", "client_us", Show::Median(1)),
        column("÷ raw", "client_us", Show::RatioTo("raw")),
        column("server CPU µs", "server_us", Show::Median(1)),
    ]
}

/// A contender, what it wants, and what its row is called.
#[derive(Debug, Clone)]
pub(super) struct Entrant {
    kind: Kind,
    want: Want,
    row: String,
}

impl Entrant {
    /// One that wants mutexes, as all of its table do.
    pub(super) fn plain(kind: Kind) -> Entrant {
        Entrant {
            kind,
            want: Want::Mutex,
            row: kind.name().to_owned(),
        }
    }

    pub(super) fn of(kind: Kind, want: Want) -> Entrant {
        Entrant {
            kind,
            want,
            row: format!("{}, {}", kind.name(), want.name()),
        }
    }

    /// One that wants the same as all of its table, and not a mutex.
    pub(super) fn alike(kind: Kind, want: Want) -> Entrant {
        Entrant {
            want,
            ..Entrant::plain(kind)
        }
    }

    pub(super) fn row(&self) -> &str {
        &self.row
    }

    /// The same of another build.
    fn built_as(&self, kind: Kind) -> Entrant {
        Entrant {
            kind,
            want: self.want,
            row: self.row.replace(self.kind.name(), kind.name()),
        }
    }

    fn start(&self, servers: &Servers) -> Result<Worker, String> {
        let captured = match self.kind {
            Kind::ByHand => Some(capture::pair(servers, Kind::Leaselock, self.want)),
            Kind::ByHandUnfenced => {
                Some(capture::pair(servers, Kind::LeaselockUnfenced, self.want))
            }
            Kind::Scriptless(form) => Some(capture::pair(servers, form.leaselock(), self.want)),
            _ => None,
        };
        let seen = captured.transpose();
        let seen = seen.map_err(|why| format!("nothing was captured: {why}"))?;
        Worker::start(self.kind, &servers.urls(), seen)
    }
}

/// One process for each entrant, connected and warm; and why one is missing.
pub(super) struct Workers(Vec<(Worker, Entrant)>, Vec<String>);

impl Workers {
    pub(super) fn start(servers: &Servers, entrants: &[Entrant]) -> Workers {
        let mut workers = Workers(Vec::new(), Vec::new());
        for entrant in entrants {
            for kind in paired(&[entrant.kind]) {
                let entrant = entrant.built_as(kind);
                match entrant.start(servers) {
                    Ok(worker) => workers.0.push((worker, entrant)),
                    Err(why) => workers.1.push(format!("{}: {why}", entrant.row)),
                }
            }
        }
        workers
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "each is one number of the case's description"
    )]
    pub(super) fn case(
        &mut self,
        servers: &mut Servers,
        workload: &'static str,
        title: String,
        columns: Vec<Column>,
        tasks: usize,
        rounds: usize,
        ms: u64,
    ) -> Case {
        let names: Vec<String> = self
            .0
            .iter()
            .map(|(_, entrant)| entrant.row.clone())
            .collect();
        for (worker, entrant) in &mut self.0 {
            // A first round that does not count; a worker that fails in it fails in the next one too.
            worker.pairs(job(entrant, tasks, ms.min(50))).ok();
        }
        let workers = &mut self.0;
        let mut case = Case::measure(workload, title, columns, &names, rounds, |index| {
            let (worker, entrant) = &mut workers[index];
            measure(servers, worker, entrant, tasks, ms)
        });
        case.notes.extend(self.1.clone());
        case
    }
}

fn job(entrant: &Entrant, tasks: usize, ms: u64) -> Pairs {
    Pairs {
        tasks,
        ms,
        prefix: format!("{}/", entrant.row),
        one_name: entrant.want.has_one_name(),
        want: entrant.want,
    }
}

/// One round: what it cost whom.
fn measure(
    servers: &mut Servers,
    worker: &mut Worker,
    entrant: &Entrant,
    tasks: usize,
    ms: u64,
) -> Result<Sample, String> {
    let before = servers.counts()?;
    let paired = worker.pairs(job(entrant, tasks, ms))?;
    let after = servers.counts()?;
    let pairs = (paired.pairs * entrant.kind.at_once()) as f64;
    Ok(Sample::from([
        ("p50_us", paired.p50_ns as f64 / 1e3),
        ("p99_us", paired.p99_ns as f64 / 1e3),
        ("pairs_per_s", pairs / (paired.cost.wall_ns as f64 / 1e9)),
        (
            "commands",
            after.sent_since(&before, entrant.kind.inside_scripts(entrant.want)) as f64 / pairs,
        ),
        ("client_us", paired.cost.processor_ns as f64 / 1e3 / pairs),
        ("server_us", after.processor_us_since(&before) / pairs),
    ]))
}

fn targets_of_one_task(case: &Case, report: &mut Report) {
    let (ours, bare) = (Kind::Leaselock.name(), Kind::LeaselockUnfenced.name());
    let ratio = |who, to: Kind, metric| {
        case.ratio(who, to.name(), metric)
            .map(|spread| spread.median)
    };
    report.targets.extend([
        Target::at_most("W1 commands a pair", case.median(ours, "commands"), 2.005),
        Target::at_most(
            "W1 p50 ÷ by hand",
            ratio(ours, Kind::ByHand, "p50_us"),
            1.05,
        ),
        Target::at_most(
            "W1 client CPU ÷ by hand",
            ratio(ours, Kind::ByHand, "client_us"),
            1.10,
        ),
        Target::at_most(
            "W1 p50 ÷ raw, unfenced",
            ratio(bare, Kind::Raw, "p50_us"),
            1.15,
        ),
        Target::at_most(
            "W1 p50 ÷ raw, fenced",
            ratio(ours, Kind::Raw, "p50_us"),
            1.30,
        ),
    ]);
}

fn targets_of_many_tasks(case: &Case, tasks: usize, report: &mut Report) {
    let (ours, bare) = (Kind::Leaselock.name(), Kind::LeaselockUnfenced.name());
    let ratio = |who, metric| {
        case.ratio(who, Kind::Raw.name(), metric)
            .map(|spread| spread.median)
    };
    let (fenced, unfenced) = if tasks >= 256 { (1.2, 1.5) } else { (1.0, 1.0) };
    let what = |of: &str| format!("W2 {tasks} tasks: {of}");
    report.targets.push(Target::at_least(
        what("throughput ÷ raw, unfenced"),
        ratio(bare, "pairs_per_s"),
        unfenced,
    ));
    report.targets.push(Target::at_least(
        what("throughput ÷ raw, fenced"),
        ratio(ours, "pairs_per_s"),
        fenced,
    ));
    if tasks >= 256 {
        report.targets.push(Target::at_most(
            what("client CPU ÷ raw, fenced"),
            ratio(ours, "client_us"),
            0.6,
        ));
    }
}
