//! The processes of one contender that want the same name, and what their turns come to.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::child::{Record, Turned, Turns};
use crate::clock::now_ns;
use crate::contender::{Kind, text};
use crate::figures::{jain, mean, quantile};
use crate::report::Sample;
use crate::servers::Servers;
use crate::worker::Worker;

/// All processes have their job before the first turn begins.
const LEAD_MS: u64 = 20;
/// The measurement begins after this share of a round, when every waiter has had a turn.
const SETTLED_AFTER: f64 = 0.2;

/// What a waiter does between two turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// It wants the lock again at once.
    Greedy,
    /// It does something else for a millisecond.
    Fair,
}

impl Loop {
    pub fn name(self) -> &'static str {
        match self {
            Loop::Greedy => "greedy",
            Loop::Fair => "fair",
        }
    }

    fn pause_us(self) -> u64 {
        match self {
            Loop::Greedy => 0,
            Loop::Fair => 1000,
        }
    }
}

pub struct Waiters {
    kind: Kind,
    workers: Vec<(Worker, usize)>,
    hold_us: u64,
    mode: Loop,
    dir: TempDir,
}

impl Waiters {
    /// As many processes as `waiters` has entries, each with so many waiters.
    pub fn start(
        kind: Kind,
        urls: &[String],
        waiters: &[usize],
        hold_us: u64,
        mode: Loop,
    ) -> Result<Waiters, String> {
        let start = |waiters: &usize| Ok((Worker::start(kind, urls, None)?, *waiters));
        let workers = waiters.iter().map(start).collect::<Result<_, String>>()?;
        Ok(Waiters {
            kind,
            workers,
            hold_us,
            mode,
            dir: tempfile::tempdir().map_err(text)?,
        })
    }

    /// One round: what happened, and what it cost whom. Embedded stores have no server to ask.
    pub fn round(&mut self, servers: Option<&mut Servers>, ms: u64) -> Result<Sample, String> {
        let Some(servers) = servers else {
            let (records, turned, begin_ns, end_ns) = self.turns(ms)?;
            return self.sample(&records, &turned, begin_ns, end_ns);
        };
        let before = servers.counts()?;
        let (records, turned, begin_ns, end_ns) = self.turns(ms)?;
        let after = servers.counts()?;
        let mut sample = self.sample(&records, &turned, begin_ns, end_ns)?;
        let turns = records.len() as f64;
        let sent = after.sent_since(&before, self.kind.inside_scripts());
        sample.insert("commands", sent as f64 / turns);
        sample.insert("server_us", after.processor_us_since(&before) / turns);
        Ok(sample)
    }

    fn turns(&mut self, ms: u64) -> Result<(Vec<Record>, Vec<Turned>, u64, u64), String> {
        let begin_ns = now_ns() + LEAD_MS * 1_000_000;
        let end_ns = begin_ns + ms * 1_000_000;
        let files: Vec<PathBuf> = (0..self.workers.len())
            .map(|number| self.dir.path().join(number.to_string()))
            .collect();
        for ((worker, waiters), file) in self.workers.iter_mut().zip(&files) {
            worker.begin_turns(Turns {
                name: format!("{}/one", self.kind.name()),
                waiters: *waiters,
                hold_us: self.hold_us,
                pause_us: self.mode.pause_us(),
                begin_ns,
                end_ns,
                file: file.clone(),
            })?;
        }
        let turned: Vec<Turned> = self
            .workers
            .iter_mut()
            .map(|(worker, _)| worker.end_turns(ms))
            .collect::<Result<_, _>>()?;
        let (mut records, mut waiters) = (Vec::new(), 0);
        for ((_, own), file) in self.workers.iter().zip(&files) {
            records.extend(Record::read_all(&fs::read(file).map_err(text)?, waiters));
            waiters += *own as u64;
        }
        records.sort_unstable_by_key(|record| record.turn.granted_ns);
        Ok((records, turned, begin_ns, end_ns))
    }

    fn sample(
        &self,
        records: &[Record],
        turned: &[Turned],
        begin_ns: u64,
        end_ns: u64,
    ) -> Result<Sample, String> {
        let failures: u64 = turned.iter().map(|turned| turned.failures).sum();
        if failures > 0 {
            let first = turned
                .iter()
                .find_map(|turned| turned.failed.clone())
                .unwrap_or_default();
            return Err(format!("{failures} turns failed: {first}"));
        }
        let from_ns = begin_ns + ((end_ns - begin_ns) as f64 * SETTLED_AFTER) as u64;
        let settled: Vec<Record> = records
            .iter()
            .filter(|record| (from_ns..end_ns).contains(&record.turn.granted_ns))
            .copied()
            .collect();
        if settled.len() < 2 {
            return Err("there were no turns".to_owned());
        }
        let all_waiters = self.workers.iter().map(|(_, waiters)| waiters).sum();
        let mut sample = figures(&settled, all_waiters);
        let last = all_waiters.saturating_sub(1) as u64;
        sample.insert(
            "last_longest_ms",
            longest_ns(&settled, |record| record.waiter == last) / 1e6,
        );
        sample.insert(
            "turns_per_s",
            settled.len() as f64 / ((end_ns - from_ns) as f64 / 1e9),
        );
        let client_ns: u64 = turned.iter().map(|turned| turned.cost.processor_ns).sum();
        sample.insert("client_us", client_ns as f64 / 1e3 / records.len() as f64);
        Ok(sample)
    }
}

/// What the turns themselves tell, in the order in which they were granted.
fn figures(turns: &[Record], waiters: usize) -> Sample {
    let pairs = turns
        .windows(2)
        .map(|pair| (pair[0].turn.releasing_ns, pair[1].turn.granted_ns));
    let overlaps = pairs
        .clone()
        .filter(|(releasing, granted)| granted < releasing)
        .count();
    let mut idle: Vec<u64> = pairs
        .map(|(releasing, granted)| granted.saturating_sub(releasing))
        .collect();
    idle.sort_unstable();
    let waits = turns
        .iter()
        .map(|record| (record.turn.granted_ns - record.wanted_ns) as f64);
    let longest = longest_ns(turns, |_| true);
    let mut shares = vec![0.0; waiters];
    for record in turns {
        shares[record.waiter as usize] += 1.0;
    }
    Sample::from([
        ("idle_mean_us", mean(idle.iter().map(|ns| *ns as f64)) / 1e3),
        ("idle_p50_us", quantile(&idle, 0.5) as f64 / 1e3),
        ("idle_p99_us", quantile(&idle, 0.99) as f64 / 1e3),
        ("jain", jain(&shares)),
        ("longest_wait", longest / mean(waits).max(1.0)),
        ("longest_ms", longest / 1e6),
        ("overlaps", overlaps as f64),
        ("overtaken", overtaken(turns) as f64),
    ])
}

/// The longest wait of those whom `counts` takes.
fn longest_ns(turns: &[Record], counts: impl Fn(&Record) -> bool) -> f64 {
    let waits = turns
        .iter()
        .filter(|record| counts(record))
        .map(|record| record.turn.granted_ns - record.wanted_ns);
    waits.max().unwrap_or(0) as f64
}

/// How many turns went to somebody who came after one who was surely in line by then and still waits.
fn overtaken(turns: &[Record]) -> usize {
    let (mut earliest_later, mut count) = (u64::MAX, 0);
    for record in turns.iter().rev() {
        if earliest_later < record.wanted_ns {
            count += 1;
        }
        if record.turn.queued_ns > 0 {
            earliest_later = earliest_later.min(record.turn.queued_ns);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Turn;

    fn record(
        waiter: u64,
        wanted_ns: u64,
        queued_ns: u64,
        granted_ns: u64,
        releasing_ns: u64,
    ) -> Record {
        Record {
            waiter,
            wanted_ns,
            turn: Turn {
                granted_ns,
                releasing_ns,
                queued_ns,
            },
        }
    }

    #[test]
    fn turns_that_overlap_are_counted() {
        let apart = [record(0, 0, 0, 10, 20), record(1, 0, 5, 30, 40)];
        let figures_apart = figures(&apart, 2);
        assert_eq!(
            (figures_apart["overlaps"], figures_apart["idle_mean_us"]),
            (0.0, 0.01)
        );
        let together = [record(0, 0, 0, 10, 20), record(1, 0, 5, 19, 40)];
        assert_eq!(figures(&together, 2)["overlaps"], 1.0);
    }

    #[test]
    fn a_waiter_that_came_later_and_went_first_has_overtaken() {
        let in_order = [record(0, 0, 5, 30, 40), record(1, 10, 15, 50, 60)];
        assert_eq!(overtaken(&in_order), 0);
        let overtaking = [record(1, 10, 15, 30, 40), record(0, 0, 5, 50, 60)];
        assert_eq!(overtaken(&overtaking), 1);
    }
}
