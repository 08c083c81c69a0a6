//! Turns at one name that many want.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Cost, Meter};
use crate::clock::now_ns;
use crate::contender::{Contender, Hold, Lock, Turn, Want, text};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Turns {
    pub name: String,
    pub want: Want,
    pub waiters: usize,
    /// How long the lock is kept.
    pub hold_us: u64,
    /// Between giving it back and wanting it again.
    pub pause_us: u64,
    /// All processes begin together,
    pub begin_ns: u64,
    /// and none wants it any more after this.
    pub end_ns: u64,
    /// Where the turns are written down.
    pub file: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Turned {
    pub turns: u64,
    pub failures: u64,
    /// What the first failure said.
    pub failed: Option<String>,
    pub cost: Cost,
}

/// One turn as it is written down: who, and when.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    pub waiter: u64,
    pub want: Want,
    pub wanted_ns: u64,
    pub turn: Turn,
}

const FIELDS: usize = 6;

impl Record {
    fn fields(&self) -> [u64; FIELDS] {
        [
            self.waiter,
            self.wanted_ns,
            self.turn.granted_ns,
            self.turn.releasing_ns,
            self.turn.queued_ns,
            self.turn.mark,
        ]
    }

    /// All records of one process; `waiters` is added to their numbers.
    pub fn read_all(bytes: &[u8], waiters: u64, want: Want) -> Vec<Record> {
        let numbers = bytes
            .chunks_exact(8)
            .map(|eight| u64::from_le_bytes(eight.try_into().unwrap_or_default()));
        let numbers: Vec<u64> = numbers.collect();
        let record = |fields: &[u64]| Record {
            waiter: fields[0] + waiters,
            want,
            wanted_ns: fields[1],
            turn: Turn {
                granted_ns: fields[2],
                releasing_ns: fields[3],
                queued_ns: fields[4],
                mark: fields[5],
            },
        };
        numbers.chunks_exact(FIELDS).map(record).collect()
    }
}

pub async fn run<C: Contender>(contender: &C, job: &Turns) -> Result<Turned, String> {
    let locks: Option<Vec<C::Lock>> = (0..job.waiters)
        .map(|_| contender.wanting(&job.name, job.want))
        .collect();
    let locks = locks.ok_or_else(|| job.want.missing())?;
    tokio::time::sleep(Duration::from_nanos(job.begin_ns.saturating_sub(now_ns()))).await;
    let meter = Meter::start();
    let waiting = locks.into_iter().enumerate();
    let tasks: Vec<_> = waiting
        .map(|(waiter, lock)| tokio::spawn(turn_until(waiter as u64, lock, job.clone())))
        .collect();
    let mut ran = Vec::new();
    for task in tasks {
        ran.push(task.await.map_err(text)??);
    }
    let cost = meter.read();
    let failures: Vec<String> = ran
        .iter()
        .flat_map(|(_, failures)| failures.clone())
        .collect();
    let records: Vec<Record> = ran.into_iter().flat_map(|(records, _)| records).collect();
    let bytes: Vec<u8> = records
        .iter()
        .flat_map(Record::fields)
        .flat_map(u64::to_le_bytes)
        .collect();
    fs::write(&job.file, bytes).map_err(text)?;
    Ok(Turned {
        turns: records.len() as u64,
        failures: failures.len() as u64,
        failed: failures.into_iter().next(),
        cost,
    })
}

/// The turns of one waiter, and what its failures said.
type Ran = (Vec<Record>, Vec<String>);

async fn turn_until<L: Lock>(waiter: u64, mut lock: L, job: Turns) -> Result<Ran, String> {
    let hold = Hold::of(Duration::from_micros(job.hold_us)).map_err(text)?;
    let pause = Hold::of(Duration::from_micros(job.pause_us)).map_err(text)?;
    let (mut records, mut failures) = (Vec::new(), Vec::new());
    let mut wanted_ns = now_ns();
    while wanted_ns < job.end_ns {
        match lock.turn(&hold).await {
            // A try that got nothing is no turn.
            Ok(turn) if matches!(job.want, Want::Rate(_)) && turn.mark == 0 => {}
            Ok(turn) => records.push(Record {
                waiter,
                want: job.want,
                wanted_ns,
                turn,
            }),
            Err(failure) => failures.push(failure),
        }
        pause.pass().await.map_err(text)?;
        wanted_ns = now_ns();
    }
    Ok((records, failures))
}
