//! raw, GCRA: a rate limiter as one plain script, with the algorithm of redis-cell (ITU-T I.371): the key holds the
//! moment at which the bucket is empty. It has one rate, no waits, and no protection from a clock that goes back.

use redis::Cmd;
use redis::aio::MultiplexedConnection;

use super::{Contender, Hold, Lock, Rate, Setup, Turn, Want, bare_connection, text};

/// KEYS[1]; ARGV: microseconds for a permit, and for a burst. Says whether there was a permit.
const TAKE: &str = "
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local empty = math.max(now, tonumber(redis.call('get', KEYS[1]) or 0)) + ARGV[1]
if empty - now > tonumber(ARGV[2]) then return 0 end
redis.call('set', KEYS[1], string.format('%.0f', empty), 'px', math.ceil((empty - now) / 1000))
return 1";

pub struct RawGcra {
    connection: MultiplexedConnection,
    take: String,
}

impl Contender for RawGcra {
    type Lock = RawGcraLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let mut connection = bare_connection(setup.url()).await?;
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(TAKE).to_owned();
        let take = load.query_async(&mut connection).await.map_err(text)?;
        Ok(RawGcra { connection, take })
    }

    fn lock(&self, name: &str) -> RawGcraLock {
        let rate = Rate {
            permits: 1,
            seconds: 1,
            burst: 1,
        };
        self.limiter(name, rate)
    }

    fn wanting(&self, name: &str, want: Want) -> Option<RawGcraLock> {
        match want {
            Want::Rate(rate) => Some(self.limiter(name, rate)),
            _ => None,
        }
    }
}

impl RawGcra {
    fn limiter(&self, name: &str, rate: Rate) -> RawGcraLock {
        let permit_us = u64::from(rate.seconds) * 1_000_000 / u64::from(rate.permits);
        let mut take = redis::cmd("EVALSHA");
        take.arg(&self.take)
            .arg(1)
            .arg(name)
            .arg(permit_us)
            .arg(permit_us * u64::from(rate.burst));
        RawGcraLock {
            connection: self.connection.clone(),
            take,
        }
    }
}

pub struct RawGcraLock {
    connection: MultiplexedConnection,
    take: Cmd,
}

impl Lock for RawGcraLock {
    async fn turn(&mut self, _: &Hold) -> Result<Turn, String> {
        let taken = self.take.query_async(&mut self.connection).await;
        taken.map(Turn::ended).map_err(text)
    }
}
