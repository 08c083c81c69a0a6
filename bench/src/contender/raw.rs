//! raw: `SET NX PX` and a compare-and-delete through the bare client, without any lock logic.

use redis::Cmd;
use redis::aio::MultiplexedConnection;

use super::{Contender, Hold, Lock, Setup, TTL, Turn, bare_connection, held, text};

const DELETE_MINE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// Tells the server the compare-and-delete, and gives back what it is called there.
pub async fn load(connection: &mut MultiplexedConnection) -> Result<String, String> {
    let load = redis::cmd("SCRIPT").arg("LOAD").arg(DELETE_MINE).to_owned();
    load.query_async(connection).await.map_err(text)
}

pub fn set(name: &str, token: &str) -> Cmd {
    let mut set = redis::cmd("SET");
    set.arg(name)
        .arg(token)
        .arg("NX")
        .arg("PX")
        .arg(TTL.as_millis() as u64);
    set
}

pub fn delete_mine(script: &str, name: &str, token: &str) -> Cmd {
    let mut delete = redis::cmd("EVALSHA");
    delete.arg(script).arg(1).arg(name).arg(token);
    delete
}

pub struct Raw {
    connection: MultiplexedConnection,
    delete_mine: String,
}

impl Contender for Raw {
    type Lock = RawLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let mut connection = bare_connection(setup.url()).await?;
        let delete_mine = load(&mut connection).await?;
        Ok(Raw {
            connection,
            delete_mine,
        })
    }

    fn lock(&self, name: &str) -> RawLock {
        RawLock {
            connection: self.connection.clone(),
            delete_mine: self.delete_mine.clone(),
            name: name.to_owned(),
            turns: 0,
        }
    }
}

pub struct RawLock {
    connection: MultiplexedConnection,
    delete_mine: String,
    name: String,
    turns: u64,
}

impl Lock for RawLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        self.turns += 1;
        let token = format!("{:031}", self.turns);
        let set = set(&self.name, &token);
        let granted: Option<String> = set.query_async(&mut self.connection).await.map_err(text)?;
        granted.ok_or("raw does not wait")?;
        let turn = held(hold.clone()).await;
        let delete = delete_mine(&self.delete_mine, &self.name, &token);
        let deleted: u64 = delete
            .query_async(&mut self.connection)
            .await
            .map_err(text)?;
        (deleted == 1)
            .then_some(turn)
            .ok_or_else(|| "raw lost its key".to_owned())
    }
}
