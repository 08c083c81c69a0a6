//! rslock on one server, told what to do by lines of JSON: ../README.md has the words.
//!
//! `peers rslock PORT`

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use rslock::{Lock, LockError, LockManager};
use serde_json::{Value, json};

/// As `Cargo.toml` asks for, which no other version meets.
const VERSION: &str = "0.10.0";
/// The longest pause between two tries.
const DELAY: Duration = Duration::from_millis(50);

type Broken = Box<dyn Error>;

fn main() -> Result<(), Broken> {
    let words: Vec<String> = std::env::args().collect();
    let [_, library, port] = &words[..] else {
        return Err("give the library and the port".into());
    };
    if library != "rslock" {
        return Err(format!("a library that nobody knows: {library}").into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut peer = Peer {
        manager: LockManager::new(vec![format!("redis://127.0.0.1:{port}/")]),
        locks: Vec::new(),
    };
    say(&json!({ "version": VERSION }))?;
    for line in io::stdin().lock().lines() {
        let order = serde_json::from_str(&line?)?;
        let answer = runtime.block_on(peer.obey(&order));
        say(&answer.unwrap_or_else(|error| json!({ "broken": error.to_string() })))?;
    }
    Ok(())
}

fn say(words: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{words}")?;
    out.flush()
}

struct Peer {
    manager: LockManager,
    locks: Vec<Lock>,
}

impl Peer {
    async fn obey(&mut self, order: &Value) -> Result<Value, Broken> {
        match order["do"].as_str() {
            Some("acquire") => self.acquire(order).await,
            Some("extend") => {
                let lock = self.lock(order)?;
                let extended = self.manager.extend(lock, ttl(order)?).await;
                refused_or(extended.map(|_| json!({ "done": true })))
            }
            Some("release") => {
                // It does not say whether the lock was still there.
                self.manager.unlock(self.lock(order)?).await;
                Ok(json!({ "done": true }))
            }
            _ => Err(format!("a word that nobody knows: {order}").into()),
        }
    }

    async fn acquire(&mut self, order: &Value) -> Result<Value, Broken> {
        let name = order["name"].as_str().ok_or("no name")?;
        let tries = order["tries"].as_u64().ok_or("no tries")?;
        self.manager.set_retry(u32::try_from(tries)?, DELAY);
        let got = self.manager.lock(name, ttl(order)?).await;
        refused_or(got.map(|lock| {
            self.locks.push(lock);
            json!({ "got": self.locks.len() })
        }))
    }

    fn lock(&self, order: &Value) -> Result<&Lock, Broken> {
        let number = usize::try_from(order["lock"].as_u64().ok_or("no lock")?)?;
        let lock = number.checked_sub(1).and_then(|at| self.locks.get(at));
        lock.ok_or_else(|| "a lock that was never got".into())
    }
}

fn ttl(order: &Value) -> Result<Duration, Broken> {
    let millis = order["ttl_ms"].as_u64().ok_or("no ttl_ms")?;
    Ok(Duration::from_millis(millis))
}

fn refused_or(answer: Result<Value, LockError>) -> Result<Value, Broken> {
    match answer {
        Err(LockError::Unavailable) => Ok(json!({ "refused": "Unavailable" })),
        other => Ok(other?),
    }
}
