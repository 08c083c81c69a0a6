//! A contender in a process of its own, so that its processor time and memory are measured alone.
//!
//! It reads one job a line from standard input and writes one answer a line to standard output.

mod follow;
mod leases;
mod pairs;
mod turns;

use std::io::{BufRead as _, Write as _};

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::clock::processor_ns;
use crate::contender::{
    Contender, Kind, Setup, by_hand::ByHand, distkit::Distkit, distributed_lock::DistributedLock,
    governor::Governor, leaselock::Leaselock, raw::Raw, raw_count::RawCount, raw_gcra::RawGcra,
    raw_parallel::RawParallel, raw_queue::RawQueue, redis_lock::RedisLock, redlock::Redlock,
    rslock::Rslock, scriptless::Scriptless, text,
};

pub use follow::{Follow, SeenLeader};
pub use leases::{Hold, Kept};
pub use pairs::{Paired, Pairs};
pub use turns::{Record, Turned, Turns};

#[derive(Debug, Serialize, Deserialize)]
pub enum Job {
    Pairs(Pairs),
    Turns(Turns),
    /// Follows who leads, and says when each leader was seen.
    Follow(Follow),
    /// Takes leases and holds them from now on.
    Hold(Hold),
    /// Watches over the leases that are held for so many milliseconds.
    Watch {
        ms: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    Pairs(Paired),
    Turns(Turned),
    Followed(Vec<SeenLeader>),
    Held { rss_before: u64, rss_after: u64 },
    Watched(Kept),
    Failed(String),
}

/// What a piece of work cost this process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Cost {
    pub wall_ns: u64,
    pub processor_ns: u64,
}

/// Counts the cost from its creation on.
struct Meter {
    wall_ns: u64,
    processor_ns: u64,
}

impl Meter {
    fn start() -> Meter {
        Meter {
            wall_ns: crate::clock::now_ns(),
            processor_ns: processor_ns(),
        }
    }

    fn read(&self) -> Cost {
        Cost {
            wall_ns: crate::clock::now_ns() - self.wall_ns,
            processor_ns: processor_ns() - self.processor_ns,
        }
    }
}

/// The child's main function; it ends when its standard input does.
pub fn run(setup: &Setup) -> Result<(), String> {
    // As many threads as processors: what `#[tokio::main]` gives a program.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(text)?;
    match setup.kind {
        Kind::Raw => serve::<Raw>(&runtime, setup),
        Kind::RawParallel => serve::<RawParallel>(&runtime, setup),
        Kind::ByHand | Kind::ByHandUnfenced => serve::<ByHand>(&runtime, setup),
        Kind::RawQueue => serve::<RawQueue>(&runtime, setup),
        Kind::Leaselock | Kind::LeaselockUnfenced | Kind::Before | Kind::BeforeUnfenced => {
            serve::<Leaselock>(&runtime, setup)
        }
        Kind::Scriptless(_) => serve::<Scriptless>(&runtime, setup),
        Kind::Rslock => serve::<Rslock>(&runtime, setup),
        Kind::RedisLock => serve::<RedisLock>(&runtime, setup),
        Kind::Redlock => serve::<Redlock>(&runtime, setup),
        Kind::DistributedLock => serve::<DistributedLock>(&runtime, setup),
        Kind::Distkit => serve::<Distkit>(&runtime, setup),
        Kind::Governor => serve::<Governor>(&runtime, setup),
        Kind::RawGcra => serve::<RawGcra>(&runtime, setup),
        Kind::RawCount | Kind::RawCounts => serve::<RawCount>(&runtime, setup),
        Kind::RedisSemaphore
        | Kind::NodeRedlock
        | Kind::RedlockUniversal
        | Kind::RedisLeader
        | Kind::NodeIdempotency
        | Kind::RateLimiterFlexible
        | Kind::Bottleneck
        | Kind::LimitsFixed
        | Kind::LimitsMoving
        | Kind::PyrateLimiter
        | Kind::Powertools => Err("it is no library of Rust".to_owned()),
    }
}

fn serve<C: Contender>(runtime: &Runtime, setup: &Setup) -> Result<(), String> {
    let contender = runtime.block_on(C::connect(setup))?;
    let mut leases = leases::Leases::default();
    for line in std::io::stdin().lock().lines() {
        let job: Job = serde_json::from_str(&line.map_err(text)?).map_err(text)?;
        let answer = match job {
            Job::Pairs(job) => runtime
                .block_on(pairs::run(&contender, &job))
                .map(Answer::Pairs),
            Job::Turns(job) => runtime
                .block_on(turns::run(&contender, &job))
                .map(Answer::Turns),
            Job::Follow(job) => runtime
                .block_on(follow::run(setup, &job))
                .map(Answer::Followed),
            Job::Hold(job) => runtime.block_on(leases.hold(setup, &job)),
            Job::Watch { ms } => runtime.block_on(leases.watch(ms)).map(Answer::Watched),
        };
        let answer = answer.unwrap_or_else(Answer::Failed);
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &answer).map_err(text)?;
        out.write_all(b"\n")
            .and_then(|()| out.flush())
            .map_err(text)?;
    }
    Ok(())
}
