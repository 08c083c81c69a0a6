//! raw, INCRBY: a counter through the bare client, one change in each request or several in a pipeline. A reply that is lost
//! leaves open whether the change counts.

use redis::aio::MultiplexedConnection;

use super::{Contender, Hold, Kind, Lock, Setup, Turn, Want, bare_connection, text};

/// How many changes a pipeline has.
pub const AT_ONCE: u64 = 20;

pub struct RawCount {
    connection: MultiplexedConnection,
    kind: Kind,
}

impl Contender for RawCount {
    type Lock = RawCountLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let connection = bare_connection(setup.url()).await?;
        let kind = setup.kind;
        Ok(RawCount { connection, kind })
    }

    fn lock(&self, name: &str) -> RawCountLock {
        let mut changes = redis::pipe();
        for _ in 0..self.kind.at_once() {
            changes.cmd("INCRBY").arg(name).arg(1);
        }
        RawCountLock {
            connection: self.connection.clone(),
            changes,
        }
    }

    fn wanting(&self, name: &str, want: Want) -> Option<RawCountLock> {
        (want == Want::Count).then(|| self.lock(name))
    }
}

pub struct RawCountLock {
    connection: MultiplexedConnection,
    changes: redis::Pipeline,
}

impl Lock for RawCountLock {
    async fn turn(&mut self, _: &Hold) -> Result<Turn, String> {
        let counted: Vec<i64> = self
            .changes
            .query_async(&mut self.connection)
            .await
            .map_err(text)?;
        let last = counted.last().ok_or("nothing was counted")?;
        (*last > 0)
            .then(|| Turn::ended(0))
            .ok_or_else(|| "it counts backwards".to_owned())
    }
}
