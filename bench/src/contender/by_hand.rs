//! by hand: the very requests that leaselock sends, sent through the bare client.
//!
//! They are not written down here but captured (see `capture.rs`), so that they are the same
//! whatever the scripts become. Only the token is new in each turn, and on several servers the
//! fencing token that is proposed.

use redis::Value;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::raw_parallel::ask;
use super::want::fresh;
use super::{Contender, Hold, Lock, Setup, Turn, Want, bare_connection, held};
use crate::clock::now_ns;

/// An acquisition and what follows it up to the release, word by word.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seen {
    pub want: Want,
    pub requests: Vec<Vec<String>>,
    pub name: String,
    /// What is new in each turn; `None` of what has no token.
    pub token: Option<String>,
}

impl Seen {
    /// What stands for the token in this turn.
    pub fn token_of(&self, turn: u64) -> String {
        let seen = self.token.as_deref().unwrap_or_default();
        let (random, rest) = seen.split_at_checked(22).unwrap_or_default();
        format!("{turn:0width$}{rest}", width = random.len())
    }
}

pub struct ByHand {
    connections: Vec<MultiplexedConnection>,
    seen: Seen,
    since_ns: u64,
    /// How many there are so far.
    locks: AtomicU64,
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
            locks: AtomicU64::new(0),
        })
    }

    fn lock(&self, name: &str) -> ByHandLock {
        let seen = &self.seen;
        // Of work that was done the result lies under the name that was seen.
        let name = match seen.want {
            Want::Told => &seen.name,
            _ => name,
        };
        let mut requests = seen.requests.clone();
        if seen.want == Want::Count {
            // Changes that are in flight at the same time are those of several clients.
            let number = self.locks.fetch_add(1, Ordering::Relaxed);
            requests[0][LATEST_KEY] += &format!("/{number}");
        }
        ByHandLock {
            connections: self.connections.clone(),
            requests: with_name(&requests, &seen.name, name),
            name: name.to_owned(),
            seen: seen.clone(),
            since_ns: self.since_ns,
            turns: 0,
        }
    }

    /// Whatever was captured.
    fn wanting(&self, name: &str, _: Want) -> Option<ByHandLock> {
        Some(self.lock(name))
    }
}

/// One request, word by word.
pub type Words = Arc<[String]>;
type Requests = Arc<[Words]>;

pub fn with_name(requests: &[Vec<String>], seen: &str, name: &str) -> Requests {
    let own = |words: &Vec<String>| words.iter().map(|word| word.replace(seen, name)).collect();
    requests.iter().map(own).collect()
}

pub struct ByHandLock {
    connections: Vec<MultiplexedConnection>,
    requests: Requests,
    name: String,
    seen: Seen,
    since_ns: u64,
    turns: u64,
}

/// Where a change of a counter has the key of its client and its number: behind EVALSHA, the script, how many keys, and
/// the counter's key.
const LATEST_KEY: usize = 4;
const CHANGE_NUMBER: usize = 5;

impl ByHandLock {
    async fn send(&mut self, words: &[String], token: &str) -> Result<(), String> {
        let mut call = redis::Cmd::new();
        for (place, word) in words.iter().enumerate() {
            if self.seen.want == Want::Count && place == CHANGE_NUMBER {
                // A change of a counter needs a larger number than the one before.
                call.arg(now_ns() / 1000);
            } else if self.seen.token.as_ref() == Some(word) {
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
const REFUSALS: [&[u8]; 11] = [
    b"busy",
    b"waiting",
    b"expired",
    b"taken",
    b"separate",
    b"never",
    b"running",
    b"crashed",
    b"stale",
    b"late",
    b"overflow",
];

impl Lock for ByHandLock {
    async fn turn(&mut self, hold: &Hold) -> Result<Turn, String> {
        self.turns += 1;
        let token = self.seen.token_of(self.turns);
        let requests = match self.seen.want {
            Want::Run => with_name(&self.seen.requests, &self.seen.name, &fresh(&self.name)),
            _ => self.requests.clone(),
        };
        let (release, before) = requests.split_last().ok_or("nothing was captured")?;
        for request in before {
            self.send(request, &token).await?;
        }
        let turn = held(hold.clone()).await;
        self.send(release, &token).await?;
        Ok(turn)
    }
}
