//! The processes of one contender that want the same name, and what their turns come to.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::child::{Follow, Record, SeenLeader, Turned, Turns};
use crate::clock::now_ns;
use crate::contender::{Kind, Want, text};
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

/// The waiters of one process.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    pub waiters: usize,
    pub want: Want,
    pub hold_us: u64,
    /// Between a release and the next acquisition.
    pub pause_us: u64,
}

impl Group {
    /// Those who want a mutex.
    pub fn mutex(waiters: usize, hold_us: u64, mode: Loop) -> Group {
        Group {
            waiters,
            want: Want::Mutex,
            hold_us,
            pause_us: mode.pause_us(),
        }
    }
}

pub struct Waiters {
    kind: Kind,
    workers: Vec<(Worker, Group)>,
    /// Who follows the leaders, and how many they are.
    followers: Option<(Worker, usize)>,
    dir: TempDir,
}

/// What one round brought.
struct Round {
    records: Vec<Record>,
    turned: Vec<Turned>,
    seen: Vec<SeenLeader>,
    begin_ns: u64,
    end_ns: u64,
}

impl Waiters {
    /// As many processes as there are groups.
    pub fn start(kind: Kind, urls: &[String], groups: &[Group]) -> Result<Waiters, String> {
        let start = |group: &Group| Ok((Worker::start(kind, urls, None)?, *group));
        let workers = groups.iter().map(start).collect::<Result<_, String>>()?;
        Ok(Waiters {
            kind,
            workers,
            followers: None,
            dir: tempfile::tempdir().map_err(text)?,
        })
    }

    /// So many followers, in a process of their own.
    pub fn followed_by(mut self, followers: usize, urls: &[String]) -> Result<Waiters, String> {
        self.followers = Some((Worker::start(self.kind, urls, None)?, followers));
        Ok(self)
    }

    /// One round: what happened, and what it cost whom. Embedded stores have no server to ask.
    pub fn round(&mut self, servers: Option<&mut Servers>, ms: u64) -> Result<Sample, String> {
        let Some(servers) = servers else {
            let round = self.turns(ms)?;
            return self.sample(&round);
        };
        let before = servers.counts()?;
        let round = self.turns(ms)?;
        let after = servers.counts()?;
        let mut sample = self.sample(&round)?;
        let turns = round.records.len() as f64;
        let inside = self.kind.inside_scripts(self.workers[0].1.want);
        let sent = after.sent_since(&before, inside);
        let messages = ["publish", "spublish"].map(|command| after.calls_since(&before, command));
        sample.insert("commands", sent as f64 / turns);
        sample.insert("messages", messages.iter().sum::<u64>() as f64 / turns);
        sample.insert("server_us", after.processor_us_since(&before) / turns);
        Ok(sample)
    }

    fn turns(&mut self, ms: u64) -> Result<Round, String> {
        let begin_ns = now_ns() + LEAD_MS * 1_000_000;
        let end_ns = begin_ns + ms * 1_000_000;
        let name = format!("{}/one", self.kind.name());
        let files: Vec<PathBuf> = (0..self.workers.len())
            .map(|number| self.dir.path().join(number.to_string()))
            .collect();
        if let Some((worker, followers)) = &mut self.followers {
            worker.begin_following(Follow {
                name: name.clone(),
                followers: *followers,
                end_ns,
            })?;
        }
        for ((worker, group), file) in self.workers.iter_mut().zip(&files) {
            worker.begin_turns(Turns {
                name: name.clone(),
                want: group.want,
                waiters: group.waiters,
                hold_us: group.hold_us,
                pause_us: group.pause_us,
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
        let seen = match &mut self.followers {
            Some((worker, _)) => worker.end_following(ms)?,
            None => Vec::new(),
        };
        let (mut records, mut waiters) = (Vec::new(), 0);
        for ((_, group), file) in self.workers.iter().zip(&files) {
            let bytes = fs::read(file).map_err(text)?;
            records.extend(Record::read_all(&bytes, waiters, group.want));
            waiters += group.waiters as u64;
        }
        records.sort_unstable_by_key(|record| record.turn.granted_ns);
        Ok(Round {
            records,
            turned,
            seen,
            begin_ns,
            end_ns,
        })
    }

    fn sample(&self, round: &Round) -> Result<Sample, String> {
        let Round {
            records,
            turned,
            begin_ns,
            end_ns,
            ..
        } = round;
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
            .filter(|record| (from_ns..*end_ns).contains(&record.turn.granted_ns))
            .copied()
            .collect();
        if settled.len() < 2 {
            return Err("there were no turns".to_owned());
        }
        let all_waiters = self.workers.iter().map(|(_, group)| group.waiters).sum();
        let mut sample = figures(&settled, all_waiters);
        sample.insert("overlaps", overlaps(records) as f64);
        let last = all_waiters.saturating_sub(1) as u64;
        let lone = records
            .iter()
            .filter(|record| record.waiter == last && record.turn.granted_ns >= from_ns);
        sample.insert("last_passed", most_passed(records, lone.clone()) as f64);
        sample.extend(lone_figures(lone));
        let crowd = settled.iter().filter(|record| record.waiter != last);
        let crowd: Vec<f64> = crowd.map(|record| wait_ns(record) as f64).collect();
        sample.insert("crowd_mean_ms", mean(crowd.into_iter()) / 1e6);
        sample.extend(followed(records, &round.seen));
        sample.insert(
            "turns_per_s",
            settled.len() as f64 / ((end_ns - from_ns) as f64 / 1e9),
        );
        let client_ns: u64 = turned.iter().map(|turned| turned.cost.processor_ns).sum();
        sample.insert("client_us", client_ns as f64 / 1e3 / records.len() as f64);
        Ok(sample)
    }
}

/// What the one of the last group saw. A wait that outlasts the round counts too: the others have left by then, so it is
/// shorter than it would have been.
fn lone_figures<'a>(turns: impl Iterator<Item = &'a Record>) -> Sample {
    let mut waits: Vec<u64> = turns.map(wait_ns).collect();
    waits.sort_unstable();
    let mean_ns = mean(waits.iter().map(|ns| *ns as f64)).max(1.0);
    let longest_ns = waits.last().copied().unwrap_or(0) as f64;
    Sample::from([
        ("last_turns", waits.len() as f64),
        ("last_p50_ms", quantile(&waits, 0.5) as f64 / 1e6),
        ("last_mean_ms", mean_ns / 1e6),
        ("last_longest_ms", longest_ns / 1e6),
        ("last_longest", longest_ns / mean_ns),
    ])
}

/// The most turns that others began during one wait of the lone one. No pause of the machine makes it larger.
fn most_passed<'a>(turns: &[Record], lone: impl Iterator<Item = &'a Record>) -> usize {
    let granted_before = |ns| turns.partition_point(|other| other.turn.granted_ns < ns);
    lone.map(|record| granted_before(record.turn.granted_ns) - granted_before(record.wanted_ns))
        .max()
        .unwrap_or(0)
}

/// How long after the resignation of one leader the followers knew the next one. Nothing where no task followed.
fn followed(records: &[Record], seen: &[SeenLeader]) -> Sample {
    let changes: HashMap<u64, u64> = records
        .windows(2)
        .map(|pair| (pair[1].turn.mark, pair[0].turn.releasing_ns))
        .collect();
    let mut after: Vec<u64> = seen
        .iter()
        .filter_map(|seen| seen.at_ns.checked_sub(*changes.get(&seen.term)?))
        .collect();
    after.sort_unstable();
    if after.is_empty() {
        return Sample::new();
    }
    Sample::from([
        ("known_p50_us", quantile(&after, 0.5) as f64 / 1e3),
        ("known_p99_us", quantile(&after, 0.99) as f64 / 1e3),
    ])
}

/// How many turns began while others had what excludes them.
fn overlaps(turns: &[Record]) -> usize {
    let (mut held, mut count): (Vec<&Record>, _) = (Vec::new(), 0);
    for turn in turns {
        held.retain(|other| other.turn.releasing_ns > turn.turn.granted_ns);
        count += usize::from(!fits(&held, turn));
        held.push(turn);
    }
    count
}

fn fits(held: &[&Record], new: &Record) -> bool {
    match new.want {
        Want::Read => held.iter().all(|other| other.want == Want::Read),
        Want::Permits { take, of } => {
            held.iter().map(|other| other.want.take()).sum::<u32>() + take <= of
        }
        Want::Transfer { .. } => held
            .iter()
            .all(|other| other.turn.mark & new.turn.mark == 0),
        _ => held.is_empty(),
    }
}

/// What the turns themselves tell, in the order in which they were granted.
fn figures(turns: &[Record], waiters: usize) -> Sample {
    let pairs = turns
        .windows(2)
        .map(|pair| (pair[0].turn.releasing_ns, pair[1].turn.granted_ns));
    let mut idle: Vec<u64> = pairs
        .map(|(releasing, granted)| granted.saturating_sub(releasing))
        .collect();
    idle.sort_unstable();
    let waits = turns.iter().map(|record| wait_ns(record) as f64);
    let longest = turns.iter().map(wait_ns).max().unwrap_or(0) as f64;
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
        ("overtaken", overtaken(turns) as f64),
    ])
}

fn wait_ns(record: &Record) -> u64 {
    record.turn.granted_ns - record.wanted_ns
}

/// How many turns went to a waiter that came after one which was surely in the queue by then and still waits.
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
            want: Want::Mutex,
            wanted_ns,
            turn: Turn {
                granted_ns,
                releasing_ns,
                queued_ns,
                mark: 0,
            },
        }
    }

    fn holds(want: Want, mark: u64, granted_ns: u64, releasing_ns: u64) -> Record {
        let mut hold = record(0, 0, 0, granted_ns, releasing_ns);
        (hold.want, hold.turn.mark) = (want, mark);
        hold
    }

    #[test]
    fn turns_that_overlap_are_counted() {
        let apart = [record(0, 0, 0, 10, 20), record(1, 0, 5, 30, 40)];
        assert_eq!(
            (overlaps(&apart), figures(&apart, 2)["idle_mean_us"]),
            (0, 0.01)
        );
        let together = [record(0, 0, 0, 10, 20), record(1, 0, 5, 19, 40)];
        assert_eq!(overlaps(&together), 1);
    }

    #[test]
    fn only_what_excludes_each_other_counts_as_an_overlap() {
        let (read, write) = (Want::Read, Want::Write);
        let readers = [holds(read, 0, 10, 30), holds(read, 0, 20, 40)];
        assert_eq!(overlaps(&readers), 0);
        let torn = [holds(read, 0, 10, 30), holds(write, 0, 20, 40)];
        assert_eq!(overlaps(&torn), 1);
        let one = Want::Permits { take: 1, of: 8 };
        let seven = Want::Permits { take: 7, of: 8 };
        let full = [holds(one, 0, 10, 30), holds(seven, 0, 20, 40)];
        assert_eq!(overlaps(&full), 0);
        let over = [full[0], full[1], holds(one, 0, 25, 50)];
        assert_eq!(overlaps(&over), 1);
        let names = Want::Transfer { of: 8 };
        let apart = [holds(names, 0b0011, 10, 30), holds(names, 0b1100, 20, 40)];
        assert_eq!(overlaps(&apart), 0);
        let shared = [holds(names, 0b0011, 10, 30), holds(names, 0b0110, 20, 40)];
        assert_eq!(overlaps(&shared), 1);
    }

    #[test]
    fn turns_of_others_during_a_wait_are_counted() {
        let turns = [
            record(0, 0, 0, 10, 20),
            record(0, 20, 0, 30, 40),
            record(1, 15, 0, 50, 60),
            record(0, 50, 0, 70, 80),
        ];
        assert_eq!(most_passed(&turns, turns[2..3].iter()), 1);
        assert_eq!(most_passed(&turns, turns[..0].iter()), 0);
    }

    #[test]
    fn a_follower_knows_so_long_after_the_resignation_before() {
        let leaders = [
            holds(Want::Lead, 7, 10, 20),
            holds(Want::Lead, 8, 5000, 6000),
        ];
        let seen = [
            SeenLeader {
                term: 8,
                at_ns: 3020,
            },
            SeenLeader {
                term: 9,
                at_ns: 9000,
            },
        ];
        assert_eq!(followed(&leaders, &seen)["known_p50_us"], 3.0);
        assert!(followed(&leaders, &[]).is_empty());
    }

    #[test]
    fn a_waiter_that_came_later_and_went_first_has_overtaken() {
        let in_order = [record(0, 0, 5, 30, 40), record(1, 10, 15, 50, 60)];
        assert_eq!(overtaken(&in_order), 0);
        let overtaking = [record(1, 10, 15, 30, 40), record(0, 0, 5, 50, 60)];
        assert_eq!(overtaken(&overtaking), 1);
    }
}
