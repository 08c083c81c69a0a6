//! Many leases held and renewed at once: by leaselock, and by hand with one call for each hundred.

use std::sync::Arc;
use std::time::Duration;

use leaselock::{Client, Lease};
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::{Answer, Cost, Meter};
use crate::contender::{Kind, Setup, bare_connection, text};

/// How many acquisitions are under way at once.
const AT_ONCE: usize = 256;
/// How many leases one call by hand renews.
const TOGETHER: usize = 100;

/// KEYS and tokens side by side; says how many were renewed.
const RENEW: &str = "
local renewed = 0
for i, key in ipairs(KEYS) do
  if redis.call('get', key) == ARGV[i + 1] then renewed = renewed + redis.call('pexpire', key, ARGV[1]) end
end
return renewed";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hold {
    pub count: usize,
    pub ttl_ms: u64,
    pub prefix: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kept {
    pub lost: u64,
    pub cost: Cost,
    pub rss: u64,
}

/// What this process holds.
#[derive(Default)]
pub struct Leases {
    held: Vec<Lease>,
    _client: Option<Client>,
    by_hand: Option<ByHand>,
}

impl Leases {
    pub async fn hold(&mut self, setup: &Setup, job: &Hold) -> Result<Answer, String> {
        if setup.kind == Kind::Raw {
            let connection = bare_connection(setup.url()).await?;
            let rss_before = rss()?;
            let mut by_hand = ByHand::new(connection, job).await?;
            by_hand.take().await?;
            self.by_hand = Some(by_hand);
            return Ok(Answer::Held {
                rss_before,
                rss_after: rss()?,
            });
        }
        let client = Client::open(setup.url()).map_err(text)?;
        // The first lease brings the connections and the client's own thread, which are not counted.
        self.held.push(
            client
                .mutex(format!("{}first", job.prefix))
                .acquire()
                .await
                .map_err(text)?,
        );
        self.held.reserve_exact(job.count);
        let rss_before = rss()?;
        let mut under_way = JoinSet::new();
        for number in 1..job.count {
            if under_way.len() == AT_ONCE {
                self.take(under_way.join_next().await)?;
            }
            let mutex = client
                .mutex(format!("{}{number}", job.prefix))
                .ttl(Duration::from_millis(job.ttl_ms));
            under_way.spawn(async move { mutex.acquire().await });
        }
        while let Some(taken) = under_way.join_next().await {
            self.take(Some(taken))?;
        }
        self._client = Some(client);
        Ok(Answer::Held {
            rss_before,
            rss_after: rss()?,
        })
    }

    fn take(
        &mut self,
        taken: Option<Result<Result<Lease, leaselock::AcquireError>, tokio::task::JoinError>>,
    ) -> Result<(), String> {
        let lease = taken
            .ok_or("none is under way")?
            .map_err(text)?
            .map_err(text)?;
        self.held.push(lease);
        Ok(())
    }

    pub async fn watch(&mut self, ms: u64) -> Result<Kept, String> {
        let meter = Meter::start();
        let span = Duration::from_millis(ms);
        let lost = match &mut self.by_hand {
            Some(by_hand) => by_hand.renew_for(span).await?,
            None => {
                tokio::time::sleep(span).await;
                self.held.iter().filter(|lease| !lease.is_held()).count() as u64
            }
        };
        Ok(Kept {
            lost,
            cost: meter.read(),
            rss: rss()?,
        })
    }
}

struct ByHand {
    connection: MultiplexedConnection,
    renew: String,
    keys: Arc<[(String, String)]>,
    ttl_ms: u64,
}

impl ByHand {
    async fn new(mut connection: MultiplexedConnection, job: &Hold) -> Result<ByHand, String> {
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(RENEW).to_owned();
        let renew = load.query_async(&mut connection).await.map_err(text)?;
        let key = |number| (format!("{}{number}", job.prefix), format!("{number:031}"));
        let keys = (0..job.count).map(key).collect();
        Ok(ByHand {
            connection,
            renew,
            keys,
            ttl_ms: job.ttl_ms,
        })
    }

    async fn take(&mut self) -> Result<(), String> {
        for together in self.keys.chunks(TOGETHER) {
            let mut pipe = redis::pipe();
            for (key, token) in together {
                pipe.cmd("SET")
                    .arg(key)
                    .arg(token)
                    .arg("NX")
                    .arg("PX")
                    .arg(self.ttl_ms)
                    .ignore();
            }
            pipe.query_async::<()>(&mut self.connection)
                .await
                .map_err(text)?;
        }
        Ok(())
    }

    /// Each lease every third of its ttl, the calls spread evenly. Says how many were lost at the end.
    async fn renew_for(&mut self, span: Duration) -> Result<u64, String> {
        let calls = self.keys.len().div_ceil(TOGETHER);
        let between = Duration::from_millis(self.ttl_ms / 3) / u32::try_from(calls).unwrap_or(1);
        let mut tick = tokio::time::interval(between);
        let rounds = span.as_nanos() / (between.as_nanos() * calls as u128).max(1);
        let mut lost = 0;
        for _ in 0..rounds.max(1) {
            lost = 0;
            for together in self.keys.chunks(TOGETHER) {
                tick.tick().await;
                let mut call = redis::cmd("EVALSHA");
                call.arg(&self.renew).arg(together.len());
                call.arg(together.iter().map(|(key, _)| key).collect::<Vec<_>>());
                call.arg(self.ttl_ms)
                    .arg(together.iter().map(|(_, token)| token).collect::<Vec<_>>());
                let renewed: usize = call.query_async(&mut self.connection).await.map_err(text)?;
                lost += (together.len() - renewed) as u64;
            }
        }
        Ok(lost)
    }
}

/// Resident memory of this process in bytes.
fn rss() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(text)?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .ok_or("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().map_err(text)?;
    Ok(kib * 1024)
}
