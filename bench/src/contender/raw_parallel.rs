//! raw in parallel: what raw does, on several servers at once; it goes on with what a majority has said.

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult};

use super::raw::{delete_mine, set};
use super::{Contender, Hold, Lock, Setup, Turn, bare_connection, held, raw, text};

pub struct RawParallel {
    connections: Vec<MultiplexedConnection>,
    delete_mine: String,
}

impl Contender for RawParallel {
    type Lock = RawParallelLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let (mut connections, mut script) = (Vec::new(), String::new());
        for url in &setup.urls {
            let mut connection = bare_connection(url).await?;
            script = raw::load(&mut connection).await?;
            connections.push(connection);
        }
        Ok(RawParallel {
            connections,
            delete_mine: script,
        })
    }

    fn lock(&self, name: &str) -> RawParallelLock {
        RawParallelLock {
            connections: self.connections.clone(),
            delete_mine: self.delete_mine.clone(),
            name: name.to_owned(),
            turns: 0,
        }
    }
}

pub struct RawParallelLock {
    connections: Vec<MultiplexedConnection>,
    delete_mine: String,
    name: String,
    turns: u64,
}

/// True as soon as a majority has said yes. What is still on its way arrives before whatever comes later.
pub async fn ask<R: redis::FromRedisValue>(
    connections: &mut [MultiplexedConnection],
    command: &Cmd,
    yes: impl Fn(&R) -> bool,
) -> Result<bool, String> {
    if let [one] = connections {
        return command
            .query_async(one)
            .await
            .map(|answer| yes(&answer))
            .map_err(text);
    }
    let needed = connections.len() / 2 + 1;
    let mut answers: FuturesUnordered<_> = connections
        .iter_mut()
        .map(|connection| command.query_async::<R>(connection))
        .collect();
    let mut agreed = 0;
    while let Some(answer) = answers.next().await {
        let answer: RedisResult<R> = answer;
        agreed += usize::from(yes(&answer.map_err(text)?));
        if agreed == needed {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Lock for RawParallelLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        self.turns += 1;
        let token = format!("{:031}", self.turns);
        let set = set(&self.name, &token);
        let granted = ask(&mut self.connections, &set, Option::<String>::is_some).await?;
        granted.then_some(()).ok_or("raw does not wait")?;
        let turn = held(hold.clone()).await;
        let delete = delete_mine(&self.delete_mine, &self.name, &token);
        let deleted = ask(&mut self.connections, &delete, |deleted: &u64| {
            *deleted == 1
        })
        .await?;
        deleted
            .then_some(turn)
            .ok_or_else(|| "raw lost its key".to_owned())
    }
}
