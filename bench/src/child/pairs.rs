//! Acquire and release of free locks, over and over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Cost, Meter};
use crate::clock::now_ns;
use crate::contender::{Contender, Hold, Want, text};
use crate::figures::quantile;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pairs {
    /// How many tasks.
    pub tasks: usize,
    pub ms: u64,
    /// What the names begin with: each task has its own, or all have this one.
    pub prefix: String,
    pub one_name: bool,
    pub want: Want,
}

impl Pairs {
    fn name(&self, task: usize) -> String {
        match self.one_name {
            true => self.prefix.clone(),
            false => format!("{}{task}", self.prefix),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Paired {
    pub pairs: u64,
    pub cost: Cost,
    pub p50_ns: u64,
    pub p99_ns: u64,
}

pub async fn run<C: Contender>(contender: &C, job: &Pairs) -> Result<Paired, String> {
    let locks: Option<Vec<C::Lock>> = (0..job.tasks)
        .map(|task| contender.wanting(&job.name(task), job.want))
        .collect();
    let locks = locks.ok_or_else(|| job.want.missing())?;
    let stop = Arc::new(AtomicBool::new(false));
    let meter = Meter::start();
    let tasks: Vec<_> = locks
        .into_iter()
        .map(|lock| tokio::spawn(pair_until(lock, stop.clone())))
        .collect();
    tokio::time::sleep(Duration::from_millis(job.ms)).await;
    stop.store(true, Ordering::Relaxed);
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.map_err(text)??);
    }
    let cost = meter.read();
    latencies.sort_unstable();
    Ok(Paired {
        pairs: latencies.len() as u64,
        cost,
        p50_ns: quantile(&latencies, 0.5),
        p99_ns: quantile(&latencies, 0.99),
    })
}

async fn pair_until<L: crate::contender::Lock>(
    mut lock: L,
    stop: Arc<AtomicBool>,
) -> Result<Vec<u64>, String> {
    let mut latencies = Vec::new();
    let mut before_ns = now_ns();
    while !stop.load(Ordering::Relaxed) {
        lock.turn(&Hold::NONE).await?;
        let after_ns = now_ns();
        latencies.push(after_ns - before_ns);
        before_ns = after_ns;
    }
    Ok(latencies)
}
