//! How do I test my own code that holds a lock, without a server: a lease that is lost in the middle of the work, and a
//! store that is down?
//!
//! With the store in memory and a clock that the test moves. A server has a clock of its own, so the URL can only be
//! `mem:` or `mem:name` here. A store that goes down is a folder that the test takes away.
//!
//! `cargo run -p leaselock --example testing_your_code [URL]`

use std::error::Error;
use std::fs;
use std::time::Duration;

use leaselock::clock::Clock;
use leaselock::{Client, LostReason, Mutex, OperationError};

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
    StoreDown,
    LostBefore(usize, LostReason),
}

impl Importer {
    /// Imports row by row, and stops between two rows when the lease is lost.
    async fn import(
        &self,
        rows: &[&str],
        mut each: impl AsyncFnMut(&str),
    ) -> Result<Import, Box<dyn Error>> {
        let lease = match self.mutex.try_acquire().await {
            Ok(Some(lease)) => lease,
            Ok(None) => return Ok(Import::SomebodyElse),
            Err(error) if error.is_transient() => return Ok(Import::StoreDown),
            Err(error) => return Err(error.into()),
        };
        for (number, row) in rows.iter().enumerate() {
            if let Err(lost) = lease.check() {
                return Ok(Import::LostBefore(number, lost.reason));
            }
            each(row).await;
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
    losses(url).await?;
    outages().await
}

/// Time passes when the test says so.
async fn losses(url: &str) -> Result<(), Box<dyn Error>> {
    let clock = Clock::manual();
    let client = Client::builder().url(url).clock(clock.clone()).open()?;
    let ttl = Duration::from_secs(10);
    let mutex = client.mutex("import").ttl(ttl).renewal(false);
    let importer = Importer {
        mutex: mutex.clone(),
    };

    let done = importer.import(&["a", "b"], async |_| {}).await?;
    assert_eq!(done, Import::Done);

    // Another holder has it.
    let other = mutex.try_acquire().await?.ok_or("it is free")?;
    let busy = importer.import(&["a"], async |_| {}).await?;
    assert_eq!(busy, Import::SomebodyElse);

    // Its lease expires: a bit more than the ttl passes, in no time.
    assert!(other.is_held() && other.remaining() < ttl);
    clock.advance(ttl + Duration::from_millis(1));
    assert!(!other.is_held());
    assert_eq!(other.lost().await.reason, LostReason::Expired);
    let next = mutex.try_acquire().await?.ok_or("it ran out")?;
    assert!(next.fence() > other.fence());
    next.release().await?;

    // The lease expires in the middle of the work: the second row takes too long.
    let slow = async |row: &str| {
        if row == "b" {
            clock.advance(ttl);
        }
    };
    let stopped = importer.import(&["a", "b", "c"], slow).await?;
    assert_eq!(stopped, Import::LostBefore(2, LostReason::Expired));
    Ok(())
}

/// No store is there from the first, and one goes down in the middle of the work and comes back.
async fn outages() -> Result<(), Box<dyn Error>> {
    let nowhere = Client::open("redis://127.0.0.1:1/")?; // no server listens on port 1
    let mutex = nowhere.mutex("import");
    let refused = Importer { mutex }.import(&["a"], async |_| {}).await?;
    assert_eq!(refused, Import::StoreDown);

    let scratch = tempfile::tempdir()?;
    let (folder, away) = (scratch.path().join("locks"), scratch.path().join("away"));
    let client = Client::open(&format!("file://{}", folder.display()))?;
    let ttl = Duration::from_millis(500);
    let importer = Importer {
        mutex: client.mutex("import").ttl(ttl),
    };
    let outage = async |row: &str| {
        if row == "b" {
            fs::rename(&folder, &away).expect("the folder");
            fs::write(&folder, "a file in its place").expect("the scratch folder");
            while fs::remove_dir_all(&away).is_err() {} // the client may have made a file meanwhile
            tokio::time::sleep(ttl).await; // renewals fail meanwhile
        }
    };
    let stopped = importer.import(&["a", "b", "c"], outage).await?;
    let lost = Import::LostBefore(2, LostReason::StoreUnreachable);
    assert_eq!(stopped, lost);

    fs::remove_file(&folder)?; // the next request makes the folder anew
    let done = importer.import(&["c"], async |_| {}).await?;
    assert_eq!(done, Import::Done);
    Ok(())
}
