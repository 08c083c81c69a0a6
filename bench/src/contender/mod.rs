//! Who is measured: each contender in a file of its own, all behind one trait.

pub mod by_hand;
pub mod distkit;
pub mod distributed_lock;
pub mod governor;
pub mod hold;
pub mod leaselock;
pub mod raw;
pub mod raw_count;
pub mod raw_gcra;
pub mod raw_parallel;
pub mod raw_queue;
pub mod redis_lock;
pub mod redlock;
pub mod rslock;
pub mod scriptless;
pub mod want;

use std::future::Future;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::now_ns;
pub use hold::Hold;
pub use want::{Rate, Want};

/// The lease that every contender asks for, unless the library has its own unchangeable idea.
pub const TTL: Duration = Duration::from_secs(10);

/// A way to lock a name.
pub trait Contender: Send + Sync + Sized + 'static {
    type Lock: Lock;

    /// Connects, where connecting is not a part of the first use.
    fn connect(setup: &Setup) -> impl Future<Output = Result<Self, String>>;

    /// What a program keeps for one name as long as it runs.
    fn lock(&self, name: &str) -> Self::Lock;

    /// The same for what is more than a mutex; `None` of what the contender does not have.
    fn wanting(&self, name: &str, want: Want) -> Option<Self::Lock> {
        (want == Want::Mutex).then(|| self.lock(name))
    }
}

/// One name, as one task uses it.
pub trait Lock: Send + 'static {
    /// Takes the lock, waiting for it, keeps it for `hold` and gives it back.
    fn turn(&mut self, hold: &Hold) -> impl Future<Output = Result<Turn, String>> + Send;
}

/// When the lock was had. Exclusion holds if no other turn's times lie between.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    pub granted_ns: u64,
    pub releasing_ns: u64,
    /// When it was surely in the queue, if the contender can tell; 0 when it never was or cannot tell.
    pub queued_ns: u64,
    /// Of several names, which ones, as bits; of a leader, its term; of a try at a limiter, how many permits it got; else 0.
    pub mark: u64,
}

impl Turn {
    /// A turn that held nothing, and ended just now.
    pub fn ended(mark: u64) -> Turn {
        let now_ns = now_ns();
        Turn {
            granted_ns: now_ns,
            releasing_ns: now_ns,
            queued_ns: 0,
            mark,
        }
    }
}

/// What is done under the lock: nothing, for so long.
pub async fn held(hold: Hold) -> Turn {
    let granted_ns = now_ns();
    // Without a timer there is no hold, which the turns themselves show.
    hold.pass().await.ok();
    Turn {
        granted_ns,
        releasing_ns: now_ns(),
        queued_ns: 0,
        mark: 0,
    }
}

/// The contenders by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Raw,
    /// On several servers at once.
    RawParallel,
    ByHand,
    ByHandUnfenced,
    RawQueue,
    /// Plain commands in place of the acquire script.
    Scriptless(scriptless::Form),
    Leaselock,
    LeaselockUnfenced,
    /// Another build of leaselock, in the program that `--before` names.
    Before,
    BeforeUnfenced,
    Rslock,
    RedisLock,
    Redlock,
    DistributedLock,
    Distkit,
    /// Those that run in Node (`peers/node`).
    RedisSemaphore,
    NodeRedlock,
    RedlockUniversal,
    RedisLeader,
    NodeIdempotency,
    RateLimiterFlexible,
    Bottleneck,
    /// Those that run in Python (`peers/python`).
    LimitsFixed,
    LimitsMoving,
    PyrateLimiter,
    Powertools,
    /// In one process, without a server.
    Governor,
    /// The algorithm of redis-cell as a script.
    RawGcra,
    RawCount,
    /// Several at once.
    RawCounts,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Raw => "raw",
            Kind::RawParallel => "raw in parallel",
            Kind::ByHand => "by hand",
            Kind::ByHandUnfenced => "by hand, unfenced",
            Kind::RawQueue => "raw-queue",
            Kind::Scriptless(form) => form.name(),
            Kind::Leaselock => "leaselock",
            Kind::LeaselockUnfenced => "leaselock, unfenced",
            Kind::Before => "before",
            Kind::BeforeUnfenced => "before, unfenced",
            Kind::Rslock => "rslock",
            Kind::RedisLock => "redis-lock",
            Kind::Redlock => "redlock",
            Kind::DistributedLock => "distributed-lock",
            Kind::Distkit => "distkit",
            Kind::RedisSemaphore => "redis-semaphore",
            Kind::NodeRedlock => "redlock (npm)",
            Kind::RedlockUniversal => "redlock-universal",
            Kind::RedisLeader => "redis-leader",
            Kind::NodeIdempotency => "node-idempotency",
            Kind::RateLimiterFlexible => "rate-limiter-flexible",
            Kind::Bottleneck => "bottleneck",
            Kind::LimitsFixed => "limits, fixed window",
            Kind::LimitsMoving => "limits, moving window",
            Kind::PyrateLimiter => "pyrate-limiter",
            Kind::Powertools => "powertools",
            Kind::Governor => "governor",
            Kind::RawGcra => "raw, GCRA",
            Kind::RawCount => "raw, INCRBY",
            Kind::RawCounts => "raw, 20 INCRBY at once",
        }
    }

    /// What the library is called in `peers/node`, if it runs there.
    pub fn in_node(self) -> Option<&'static str> {
        match self {
            Kind::RedisSemaphore => Some("redis-semaphore"),
            Kind::NodeRedlock => Some("redlock"),
            Kind::RedlockUniversal => Some("redlock-universal"),
            Kind::RedisLeader => Some("redis-leader"),
            Kind::NodeIdempotency => Some("node-idempotency"),
            Kind::RateLimiterFlexible => Some("rate-limiter-flexible"),
            Kind::Bottleneck => Some("bottleneck"),
            _ => None,
        }
    }

    /// The same for `peers/python`.
    pub fn in_python(self) -> Option<&'static str> {
        match self {
            Kind::LimitsFixed => Some("limits-fixed"),
            Kind::LimitsMoving => Some("limits-moving"),
            Kind::PyrateLimiter => Some("pyrate-limiter"),
            Kind::Powertools => Some("powertools"),
            _ => None,
        }
    }

    /// How many of what is measured one turn does.
    pub fn at_once(self) -> u64 {
        match self {
            Kind::RawCounts => raw_count::AT_ONCE,
            _ => 1,
        }
    }

    /// Commands that this contender has in scripts only: the server counts what a script calls like
    /// what a client sends, and only the second is a round trip.
    pub fn inside_scripts(self, want: Want) -> Inside {
        match self {
            Kind::Scriptless(form) => form.inside_scripts(),
            // It has scripts for its semaphore, and none for its read-write lock.
            Kind::DistributedLock if matches!(want, Want::Read | Want::Write) => Inside::Nothing,
            Kind::DistributedLock if want.take() > 0 => Inside::AllButScripts,
            Kind::RedisLock if want != Want::Mutex => Inside::AllButScripts,
            Kind::RedisLeader
            | Kind::NodeIdempotency
            | Kind::Powertools
            | Kind::Governor
            | Kind::RawCount
            | Kind::RawCounts => Inside::Nothing,
            // These two acquire by a script, and release without one.
            Kind::Distkit if want == Want::Read => Inside::AllBut("zrem"),
            Kind::RedisSemaphore if want == (Want::Permits { take: 1, of: 4 }) => {
                Inside::AllBut("zrem")
            }
            Kind::Distkit
            | Kind::RedisSemaphore
            | Kind::NodeRedlock
            | Kind::RedlockUniversal
            | Kind::RateLimiterFlexible
            | Kind::Bottleneck
            | Kind::LimitsFixed
            | Kind::LimitsMoving
            | Kind::PyrateLimiter
            | Kind::RawGcra
            | Kind::Leaselock
            | Kind::LeaselockUnfenced
            | Kind::Before
            | Kind::BeforeUnfenced
            | Kind::ByHand
            | Kind::ByHandUnfenced
            | Kind::RawQueue => Inside::AllButScripts,
            _ => Inside::GetAndDelete,
        }
    }
}

impl Kind {
    /// The same of the other build, if this is measured in two.
    pub fn before(self) -> Option<Kind> {
        match self {
            Kind::Leaselock => Some(Kind::Before),
            Kind::LeaselockUnfenced => Some(Kind::BeforeUnfenced),
            _ => None,
        }
    }

    /// What the process is called.
    pub fn as_child(self) -> Kind {
        match self {
            Kind::Before => Kind::Leaselock,
            Kind::BeforeUnfenced => Kind::LeaselockUnfenced,
            other => other,
        }
    }
}

/// Which of the server's counts are calls from inside scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// There are no scripts.
    Nothing,
    /// Everything that touches keys.
    AllButScripts,
    /// Everything that touches keys, but for this command.
    AllBut(&'static str),
    /// The usual compare-and-delete.
    GetAndDelete,
    /// Leaselock's release of a free lock: that, and a check of the queue.
    Release,
}

/// What a child knows of its contender.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    pub kind: Kind,
    /// One, but for those who ask several servers.
    pub urls: Vec<String>,
    /// For [`Kind::ByHand`] and [`Kind::Scriptless`]: what leaselock was seen to send.
    pub seen: Option<by_hand::Seen>,
}

impl Setup {
    pub fn url(&self) -> &str {
        &self.urls[0]
    }
}

/// The bare client with `TCP_NODELAY`, as leaselock has it: without, it would be slower.
pub async fn bare_connection(url: &str) -> Result<redis::aio::MultiplexedConnection, String> {
    bare_client(url)?
        .get_multiplexed_async_connection()
        .await
        .map_err(text)
}

pub fn bare_client(url: &str) -> Result<redis::Client, String> {
    use redis::IntoConnectionInfo as _;
    let info = url.into_connection_info().map_err(text)?;
    let settings = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    redis::Client::open(info.set_tcp_settings(settings)).map_err(text)
}

pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
