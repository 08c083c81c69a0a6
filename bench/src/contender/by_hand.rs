//! by hand: the very requests that leaselock sends, sent through the bare client.
//!
//! They are not written down here but captured (see `capture.rs`), so that they are the same
//! whatever the scripts become. Only the token is new in each turn, and on several servers the
//! fencing token that is proposed.

use redis::Value;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::raw_parallel::ask;
use super::{Contender, Hold, Lock, Setup, Turn, Want, bare_connection, held};
use crate::clock::now_ns;

/// An acquisition and what follows it up to the release, word by word.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seen {
    pub requests: Vec<Vec<String>>,
    pub name: String,
    pub token: String,
}

pub struct ByHand {
    connections: Vec<MultiplexedConnection>,
    seen: Seen,
    since_ns: u64,
}

impl Contender for ByHand {
    type Lock = ByHandLock;

    async fn connect(setup: &Setup) -> Result<Self, String> {
        let mut connections = Vec::new();
        for url in &setup.urls {
            connections.push(bare_connection(url).await?);
        }
        let seen = setup.seen.clone().ok_or("nothing was captured")?;
        Ok(ByHand {
            connections,
            seen,
            since_ns: now_ns(),
        })
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
            connections: self.connections.clone(),
            requests: seen.requests.iter().map(|words| own(words)).collect(),
            token: seen.token.clone(),
            since_ns: self.since_ns,
            turns: 0,
        }
    }

    /// Whatever was captured.
    fn wanting(&self, name: &str, _: Want) -> Option<ByHandLock> {
        Some(self.lock(name))
    }
}

pub struct ByHandLock {
    connections: Vec<MultiplexedConnection>,
    requests: Arc<[Arc<[String]>]>,
    token: String,
    since_ns: u64,
    turns: u64,
}

impl ByHandLock {
    async fn send(&mut self, words: &[String], token: &str) -> Result<(), String> {
        let mut call = redis::Cmd::new();
        for word in words {
            if *word == self.token {
                call.arg(token);
            } else if let Some(proposal) = proposal(word, self.since_ns) {
                call.arg(proposal);
            } else {
                call.arg(word);
            }
        }
        let done = ask(&mut self.connections, &call, is_done).await?;
        done.then_some(())
            .ok_or_else(|| format!("by hand: {words:?} did nothing"))
    }
}

/// On several servers a fencing token is proposed, in microseconds, and each must be larger than the
/// one before: so much has passed since the one that was captured.
fn proposal(word: &str, since_ns: u64) -> Option<u64> {
    let seen: u64 = word.parse().ok().filter(|_| word.len() == 16)?;
    Some(seen + (now_ns() - since_ns) / 1000)
}

fn is_done(answer: &Value) -> bool {
    let tag = match answer {
        Value::Array(items) => items.first(),
        other => Some(other),
    };
    match tag {
        Some(Value::BulkString(tag)) => !REFUSALS.contains(&tag.as_slice()),
        Some(Value::Nil) | None => false,
        Some(_) => true,
    }
}

/// The tags of answers that grant and release nothing.
const REFUSALS: [&[u8]; 6] = [
    b"busy",
    b"waiting",
    b"expired",
    b"taken",
    b"separate",
    b"never",
];

impl Lock for ByHandLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        self.turns += 1;
        let (random, rest) = self.token.split_at(22);
        let token = format!("{:0width$}{rest}", self.turns, width = random.len());
        let requests = self.requests.clone();
        let (release, before) = requests.split_last().ok_or("nothing was captured")?;
        for request in before {
            self.send(request, &token).await?;
        }
        let turn = held(hold.clone()).await;
        self.send(release, &token).await?;
        Ok(turn)
    }
}
