//! W5: many leases held and renewed by one process.

use crate::child::Hold;
use crate::contender::Kind;
use crate::report::{Case, Column, Report, Sample, Show, Target, column};
use crate::servers::Servers;
use crate::worker::{Worker, paired};
use crate::workload::{Effort, say};

const TTL_MS: u64 = 6000;
/// The least there is: `SET NX PX`, and one call that renews a hundred.
const BY_HAND: &str = "raw, 100 a call";

pub fn run(effort: &Effort, report: &mut Report) -> Result<(), String> {
    for count in [10_000, 100_000] {
        // Everything has been renewed more than once by then.
        let ms = if effort.quick {
            10_000
        } else if count < 100_000 {
            30_000
        } else {
            120_000
        };
        let kinds = paired(&[Kind::Raw, Kind::Leaselock]);
        let others = kinds[1..].iter().map(|kind| kind.name().to_owned());
        let names: Vec<String> = std::iter::once(BY_HAND.to_owned()).chain(others).collect();
        say(&format!("W5: {count} leases for {} s", ms / 1000));
        let title = format!("{count} leases, ttl 6 s, {} s", ms / 1000);
        let case = Case::measure("W5", title, columns(), &names, effort.rounds(1), |index| {
            // By hand it is as steady as the clock that drives it.
            measure(
                kinds[index],
                count,
                if index == 0 { ms.min(30_000) } else { ms },
            )
        });
        targets(&case, count, report);
        report.cases.push(case);
    }
    Ok(())
}

fn columns() -> Vec<Column> {
    vec![
        column("lost", "lost", Show::Median(0)),
        column("client CPU %", "client_percent", Show::Median(1)),
        column("server CPU %", "server_percent", Show::Median(1)),
        column("bytes a lease", "bytes", Show::Median(0)),
        column("after", "bytes_after", Show::Median(0)),
        column("commands/s", "commands_per_s", Show::Median(0)),
        column("renewals/s", "renewals_per_s", Show::Median(0)),
        column("renewals a command", "renewals_a_command", Show::Median(1)),
    ]
}

/// A server for each, because keys of the one must not expire while the other is measured.
fn measure(kind: Kind, count: usize, ms: u64) -> Result<Sample, String> {
    let mut servers = Servers::start()?;
    let mut worker = Worker::start(kind, &servers.urls(), None)?;
    let (rss_before, rss_after) = worker.hold(Hold {
        count,
        ttl_ms: TTL_MS,
        prefix: "held/".to_owned(),
    })?;
    worker.watch(TTL_MS / 3)?; // the renewals find their rhythm
    let before = servers.counts()?;
    let kept = worker.watch(ms)?;
    let after = servers.counts()?;
    let seconds = kept.cost.wall_ns as f64 / 1e9;
    let commands = after.sent_since(&before, crate::contender::Inside::AllButScripts) as f64;
    // Every renewal is one PEXPIRE inside a script, and nothing else is.
    let renewals = after.calls_since(&before, "pexpire") as f64;
    let bytes = |rss: u64| rss.saturating_sub(rss_before) as f64 / count as f64;
    Ok(Sample::from([
        ("lost", kept.lost as f64),
        (
            "client_percent",
            kept.cost.processor_ns as f64 / 1e7 / seconds,
        ),
        (
            "server_percent",
            after.processor_us_since(&before) / 1e4 / seconds,
        ),
        ("bytes", bytes(rss_after)),
        ("bytes_after", bytes(kept.rss)),
        ("commands_per_s", commands / seconds),
        ("renewals_per_s", renewals / seconds),
        ("renewals_a_command", renewals / commands),
    ]))
}

fn targets(case: &Case, count: usize, report: &mut Report) {
    if count < 100_000 {
        return;
    }
    let ours = |metric| case.median(Kind::Leaselock.name(), metric);
    report.targets.extend([
        Target::at_most("W5 leases lost of 100 000", ours("lost"), 0.0),
        Target::at_most("W5 client CPU, % of a core", ours("client_percent"), 6.0),
        Target::at_most(
            "W5 client memory, bytes a lease",
            ours("bytes_after"),
            1024.0,
        ),
        Target::at_least("W5 renewals a command", ours("renewals_a_command"), 100.0),
    ]);
}
