//! How do I test my own code that holds a lock, without a server and without sleeping?
//!
//! With the store in memory and a clock that the test moves. A server has a clock of its own, so the URL can only be
//! `mem:` or `mem:name` here.
//!
//! `cargo run -p leaselock --example testing_your_code [URL]`

use std::error::Error;
use std::time::Duration;

use leaselock::clock::Clock;
use leaselock::{Client, LostReason, Mutex};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:")).await
}

/// The code under test: it takes the lock that it is given, and knows neither store nor clock.
struct Importer {
    mutex: Mutex,
}

#[derive(Debug, PartialEq, Eq)]
enum Import {
    Done,
    SomebodyElse,
    LostBefore(usize),
}

impl Importer {
    /// Imports row by row, and stops between two rows when the lease is lost.
    async fn import(
        &self,
        rows: &[&str],
        mut each: impl FnMut(&str),
    ) -> Result<Import, Box<dyn Error>> {
        let Some(lease) = self.mutex.try_acquire().await? else {
            return Ok(Import::SomebodyElse);
        };
        for (number, row) in rows.iter().enumerate() {
            if lease.lost().is_lost() {
                return Ok(Import::LostBefore(number));
            }
            each(row);
        }
        lease.release().await?;
        Ok(Import::Done)
    }
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    if !url.starts_with("mem:") {
        return Err(
            "a server and a folder have clocks of their own; only mem: follows a manual one".into(),
        );
    }
    let clock = Clock::manual();
    let client = Client::builder().url(url).clock(clock.clone()).open()?;
    let ttl = Duration::from_secs(10);
    let mutex = client.mutex("import").ttl(ttl).renewal(false);
    let importer = Importer {
        mutex: mutex.clone(),
    };

    assert_eq!(importer.import(&["a", "b"], |_| {}).await?, Import::Done);

    // Somebody else holds it.
    let other = mutex.try_acquire().await?.ok_or("it is free")?;
    assert_eq!(importer.import(&["a"], |_| {}).await?, Import::SomebodyElse);

    // Their lease runs out: a bit more than the ttl passes, in no time.
    assert!(other.is_held() && other.remaining() < ttl);
    clock.advance(ttl + Duration::from_millis(1));
    assert!(!other.is_held());
    assert_eq!(other.lost().await.reason, LostReason::Expired);
    let next = mutex.try_acquire().await?.ok_or("it ran out")?;
    assert!(next.fence() > other.fence());
    next.release().await?;

    // The lease runs out in the middle of the work: the second row takes too long.
    let slow = |row: &str| {
        if row == "b" {
            clock.advance(ttl);
        }
    };
    let stopped = importer.import(&["a", "b", "c"], slow).await?;
    assert_eq!(stopped, Import::LostBefore(2));
    Ok(())
}
