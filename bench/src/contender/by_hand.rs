//! by hand: the very requests that leaselock sends, sent through the bare client.
//!
//! They are not written down here but overheard (see `overhear.rs`), so that they are the same
//! whatever the scripts become. Only the token is new in each turn.

use redis::Value;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::{Contender, Hold, Lock, Setup, Turn, bare_connection, held, text};

/// An acquisition and the release after it, word by word.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seen {
    pub acquire: Vec<String>,
    pub release: Vec<String>,
    pub name: String,
    pub token: String,
}

pub struct ByHand {
    connection: MultiplexedConnection,
    seen: Seen,
}

impl Contender for ByHand {
    type Lock = ByHandLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let connection = bare_connection(setup.url()).await?;
        let seen = setup.seen.clone().ok_or("nothing was overheard")?;
        Ok(ByHand { connection, seen })
    }

    fn lock(&self, name: &str) -> ByHandLock {
        let seen = &self.seen;
        let own = |arguments: &[String]| -> Arc<[String]> {
            arguments
                .iter()
                .map(|argument| argument.replace(&seen.name, name))
                .collect()
        };
        ByHandLock {
            connection: self.connection.clone(),
            acquire: own(&seen.acquire),
            release: own(&seen.release),
            token: seen.token.clone(),
            turns: 0,
        }
    }
}

pub struct ByHandLock {
    connection: MultiplexedConnection,
    acquire: Arc<[String]>,
    release: Arc<[String]>,
    token: String,
    turns: u64,
}

impl ByHandLock {
    async fn send(&mut self, words: &[String], token: &str) -> Result<(), String> {
        let mut call = redis::Cmd::new();
        for word in words {
            call.arg(if *word == self.token { token } else { word });
        }
        let answer: Value = call.query_async(&mut self.connection).await.map_err(text)?;
        let tag = match &answer {
            Value::Array(items) => items.first(),
            other => Some(other),
        };
        match tag {
            Some(Value::BulkString(tag)) if REFUSALS.contains(&tag.as_slice()) => {
                Err(format!("by hand: {answer:?}"))
            }
            Some(Value::Nil) | None => Err("by hand: no answer".to_owned()),
            Some(_) => Ok(()),
        }
    }
}

/// The tags of answers that grant and release nothing.
const REFUSALS: [&[u8]; 4] = [b"busy", b"waiting", b"expired", b"taken"];

impl Lock for ByHandLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        self.turns += 1;
        let (random, rest) = self.token.split_at(22);
        let token = format!("{:0width$}{rest}", self.turns, width = random.len());
        let (acquire, release) = (self.acquire.clone(), self.release.clone());
        self.send(&acquire, &token).await?;
        let turn = held(hold.clone()).await;
        self.send(&release, &token).await?;
        Ok(turn)
    }
}
