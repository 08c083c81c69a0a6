//! How many permits a limiter lets through when processes want more than its rate.
//!
//! A permit was granted between the request and its reply, so only a permit of which both lie within a span is surely one
//! of that span. What is surely above the limit is no delay of a message.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::child::{Record, Turns};
use crate::clock::now_ns;
use crate::contender::{Kind, Rate, Want, text};
use crate::report::{Case, Report, Sample, Show, Target, column};
use crate::servers::Servers;
use crate::worker::Worker;
use crate::workload::{Effort, say};

const PROCESSES: usize = 4;
const TASKS: usize = 4;
/// All processes have their job before the first try.
const LEAD_MS: u64 = 200;
const SECOND_NS: u64 = 1_000_000_000;

const RATE: Rate = Rate {
    permits: 1000,
    seconds: 1,
    burst: 50,
};

const KINDS: [Kind; 8] = [
    Kind::Leaselock,
    Kind::RawGcra,
    Kind::Governor,
    Kind::RateLimiterFlexible,
    Kind::Bottleneck,
    Kind::LimitsFixed,
    Kind::LimitsMoving,
    Kind::PyrateLimiter,
];

/// The most that one second may bring, by the limiter's own words: without a burst of its own, a whole period's worth.
fn most_in_a_second(kind: Kind) -> f64 {
    match kind {
        Kind::Leaselock | Kind::RawGcra | Kind::Governor => RATE.most_in(1.0),
        _ => f64::from(RATE.permits),
    }
}

/// When a permit was asked for, and when the task had it.
type Span = (u64, u64);

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    let seconds = effort.seconds(3, 10, 60);
    let title = format!(
        "what is let through: {} a second, 4 processes want more for {seconds} s",
        RATE.permits
    );
    say(&format!("W11: {title}"));
    let columns = vec![
        column("granted a second", "per_s", Show::Median(0)),
        column("may be in any second", "may", Show::Median(0)),
        column("most in a second", "most", Show::Median(0)),
        column("above, %", "above_percent", Show::Median(1)),
        column("above rate · t + burst", "above_burst", Show::Median(1)),
    ];
    let names = KINDS.map(|kind| kind.name().to_owned());
    let rounds = effort.rounds(1);
    let mut case = Case::measure("W11", title, columns, &names, rounds, |index| {
        saturate(KINDS[index], seconds)
    });
    let note = "governor is one process. *Above rate · t + burst* is over all spans, for those that have a burst.";
    case.notes.push(note.to_owned());
    let ours = Kind::Leaselock.name();
    report.targets.extend([
        Target::at_most(
            "W11 permits above rate · t + burst",
            case.median(ours, "above_burst"),
            0.0,
        ),
        Target::at_least(
            "W11 share of the rate that is used",
            case.median(ours, "used"),
            0.999,
        ),
    ]);
    report.cases.push(case);
    Ok(())
}

fn saturate(kind: Kind, seconds: u64) -> Result<Sample, String> {
    let servers = Servers::start()?;
    let folder = tempfile::tempdir().map_err(text)?;
    // A limiter of one process has all tasks there.
    let (processes, tasks) = match kind {
        Kind::Governor => (1, PROCESSES * TASKS),
        _ => (PROCESSES, TASKS),
    };
    let mut workers: Vec<Worker> = (0..processes)
        .map(|_| Worker::start(kind, &servers.urls(), None))
        .collect::<Result<_, _>>()?;
    // The first use of every connection is not counted, nor what a program loads first.
    tries(&mut workers, &folder, "first", tasks, 100)?;
    let mut granted = tries(&mut workers, &folder, "limiter", tasks, seconds * 1000)?;
    granted.sort_unstable();
    let wanted = RATE.most_in(seconds as f64);
    let most = most_within(&granted, SECOND_NS) as f64;
    let may = most_in_a_second(kind);
    let mut sample = Sample::from([
        ("per_s", granted.len() as f64 / seconds as f64),
        ("may", may),
        ("most", most),
        ("above_percent", (most / may - 1.0).max(0.0) * 100.0),
        ("used", granted.len() as f64 / wanted),
    ]);
    if may == RATE.most_in(1.0) {
        sample.insert("above_burst", above(&granted, RATE));
    }
    Ok(sample)
}

fn tries(
    workers: &mut [Worker],
    folder: &TempDir,
    name: &str,
    tasks: usize,
    ms: u64,
) -> Result<Vec<Span>, String> {
    let begin_ns = now_ns() + LEAD_MS * 1_000_000;
    let end_ns = begin_ns + ms * 1_000_000;
    let files: Vec<PathBuf> = (0..workers.len())
        .map(|number| folder.path().join(format!("{name}{number}")))
        .collect();
    for (worker, file) in workers.iter_mut().zip(&files) {
        worker.begin_turns(Turns {
            name: name.to_owned(),
            want: Want::Rate(RATE),
            waiters: tasks,
            hold_us: 0,
            pause_us: 0,
            begin_ns,
            end_ns,
            file: file.clone(),
        })?;
    }
    let mut granted = Vec::new();
    for (worker, file) in workers.iter_mut().zip(&files) {
        let turned = worker.end_turns(LEAD_MS + ms)?;
        if let Some(failed) = turned.failed {
            return Err(format!("{} tries failed: {failed}", turned.failures));
        }
        let records = Record::read_all(&fs::read(file).map_err(text)?, 0, Want::Rate(RATE));
        let spans = records
            .iter()
            .map(|record| (record.wanted_ns, record.turn.granted_ns));
        granted.extend(spans.filter(|span| span.1 <= end_ns));
    }
    Ok(granted)
}

/// The most permits that were surely granted within a span of this length; in the order in which they were asked for.
fn most_within(granted: &[Span], length_ns: u64) -> usize {
    let from = |(at, (asked_ns, _)): (usize, &Span)| {
        let end_ns = asked_ns + length_ns;
        let later = granted[at..].iter().take_while(|later| later.0 < end_ns);
        later.filter(|later| later.1 <= end_ns).count()
    };
    granted.iter().enumerate().map(from).max().unwrap_or(0)
}

/// How many permits were surely granted above the rate and the burst in some span; 0 if in none.
fn above(granted: &[Span], rate: Rate) -> f64 {
    let mut by_end = granted.to_vec();
    by_end.sort_unstable_by_key(|span| span.1);
    let per_ns = rate.most_in(1.0) - f64::from(rate.burst);
    let per_ns = per_ns / SECOND_NS as f64;
    let mut most = 0.0_f64;
    for (begin_ns, _) in granted {
        let mut count = 0.0;
        let first = by_end.partition_point(|span| span.1 < *begin_ns);
        for (asked_ns, had_ns) in &by_end[first..] {
            if asked_ns >= begin_ns {
                count += 1.0;
                let may = f64::from(rate.burst) + (had_ns - begin_ns) as f64 * per_ns;
                most = most.max(count - may);
            }
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn only_permits_of_which_request_and_reply_lie_within_a_span_are_surely_of_it() {
        let granted = [(0, 10), (5, 20), (8, 1000), (15, 25)];
        assert_eq!(most_within(&granted, 20), 2); // those of 0 and 5, or of 5 and 15
        assert_eq!(most_within(&granted, 25), 3);
        assert_eq!(most_within(&[], 25), 0);
    }

    #[test]
    fn what_no_bucket_of_that_rate_would_have_let_through_is_above_it() {
        let rate = Rate {
            permits: 1000,
            seconds: 1,
            burst: 2,
        };
        let just: Vec<Span> = [0, 0, 1, 2, 3].map(|ms| (ms * MS, ms * MS)).to_vec();
        assert_eq!(above(&just, rate), 0.0);
        let early: Vec<Span> = [0, 0, 1, 1, 2].map(|ms| (ms * MS, ms * MS)).to_vec();
        assert_eq!(above(&early, rate), 1.0);
        // The same, but the replies took long, so no permit is surely above.
        let late: Vec<Span> = [0, 0, 1, 1, 2].map(|ms| (ms * MS, (ms + 9) * MS)).to_vec();
        assert_eq!(above(&late, rate), 0.0);
    }
}
