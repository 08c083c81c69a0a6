//! Schedules under `--again` whose jobs, services and hosts are killed or told to stop, one after the other: each tick is
//! run to its end. `cargo xtask chaos cron::struck` runs a thousand ticks.

use std::collections::BTreeSet;
use std::time::Duration;

use testkit::process::{Signal, children, signal};
use testkit::rounds;

use super::guardian::is_guardian;
use super::serve;
use crate::common::{Running, Store, on_both, until};

const HOSTS: usize = 3;
/// Strikes may pile up ticks, which still run.
const FLAGS: [&str; 8] = [
    "--again",
    "-o",
    "--overlap",
    "wait",
    "--late",
    "1d",
    "--ttl",
    "1s",
];
const JOB: &str =
    "echo begun $LEASELOCK_TICK >> log; sleep 0.2; echo finished $LEASELOCK_TICK >> log";

#[derive(Debug, Clone, Copy)]
enum Strike {
    /// As the kernel does when memory is used up.
    KillJob,
    StopJob,
    StopService,
    KillService,
    /// The service, its guardian and its job.
    KillHost,
}

const STRIKES: [Strike; 5] = [
    Strike::KillJob,
    Strike::StopJob,
    Strike::StopService,
    Strike::KillService,
    Strike::KillHost,
];

/// The ticks of which a run has begun, or was finished, in seconds since 1970.
fn ticks(store: &Store, what: &str) -> BTreeSet<i64> {
    let lines = store.lines("log");
    let of_them = lines.iter().filter_map(|line| line.split_once(' '));
    let of_them = of_them.filter(|(word, _)| *word == what);
    of_them
        .map(|(_, tick)| tick.parse::<jiff::Timestamp>().unwrap().as_second())
        .collect()
}

/// Says whether there was something to strike.
fn struck(hosts: &mut [Running], strike: Strike) -> bool {
    let job = |host: &Running| {
        children(host.pid())
            .into_iter()
            .find(|pid| !is_guardian(*pid))
    };
    let Some((host, job)) = hosts
        .iter_mut()
        .find_map(|host| job(host).map(|job| (host, job)))
    else {
        return false;
    };
    match strike {
        Strike::KillJob => signal(job, Signal::KILL),
        Strike::StopJob => signal(job, Signal::TERM),
        Strike::StopService => signal(host.pid(), Signal::TERM),
        Strike::KillService => signal(host.pid(), Signal::KILL),
        Strike::KillHost => {
            let all = children(host.pid());
            let service = signal(host.pid(), Signal::KILL);
            for pid in all {
                signal(pid, Signal::KILL);
            }
            service
        }
    }
}

fn strikes(store: &Store) {
    let host = || serve(store, &FLAGS, JOB);
    let mut hosts: Vec<Running> = (0..HOSTS).map(|_| host()).collect();
    let (wanted, mut done) = (rounds(5, 500), [0; STRIKES.len()]);
    let mut turn = 0;
    while ticks(store, "finished").len() < wanted || done.contains(&0) {
        let number = turn % STRIKES.len();
        let mut is_struck = false;
        until("a job", || {
            is_struck = struck(&mut hosts, STRIKES[number]);
            is_struck
        });
        done[number] += 1;
        turn += 1;
        for one in hosts
            .iter_mut()
            .filter_map(|one| one.has_ended().then_some(one))
        {
            *one = host();
        }
        // The next strike comes at another point of a run; nothing is promised about when.
        std::thread::sleep(Duration::from_millis(2_000 + turn as u64 * 137 % 1_000));
    }
    for one in hosts
        .iter_mut()
        .filter_map(|one| one.has_ended().then_some(one))
    {
        *one = host();
    }
    let latest = *ticks(store, "begun").last().unwrap();
    until("a tick after all strikes", || {
        ticks(store, "finished")
            .last()
            .is_some_and(|tick| *tick > latest)
    });
    for one in &hosts {
        one.signal(Signal::TERM);
    }
    hosts
        .into_iter()
        .for_each(|one| drop(one.end_with_stdin_open()));
    let (begun, finished) = (ticks(store, "begun"), ticks(store, "finished"));
    let first = *begun.first().unwrap();
    let lost: Vec<i64> = (first..=latest)
        .filter(|tick| !finished.contains(tick))
        .collect();
    let runs = store
        .lines("log")
        .iter()
        .filter(|line| line.starts_with("begun"))
        .count();
    let (count, kind) = (latest - first + 1, &store.url[..5]);
    println!(
        "{kind}: {count} ticks, {runs} runs, {turn} strikes, {} ticks without a finished run",
        lost.len()
    );
    assert_eq!(lost, Vec::<i64>::new(), "{}", store.read("log"));
}

#[test]
fn each_tick_runs_to_its_end_though_jobs_services_and_hosts_are_killed() {
    on_both(strikes);
}
