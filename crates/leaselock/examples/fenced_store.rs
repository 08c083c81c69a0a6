//! How does a store refuse a holder that is late?
//!
//! The store is a folder of files with a fence checker. It admits the newest holder, and refuses one whose lease has
//! ended: on reads as well as on writes. docs/fencing-sql.md and docs/fencing-resources.md have the same for SQL, Redis and HTTP.
//!
//! `cargo run -p leaselock --example fenced_store [URL]`

use std::error::Error;
use std::time::Duration;

use leaselock::{Client, Lease, Mutex, Sequencer};
use leaselock_fence::{FenceRefused, FileFenceChecker, FileFenceError};

/// The file with the balance.
const BALANCE: &str = "balance";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mutex = Client::open(url)?.mutex("account/42");

    // The first holder reads 0, wants to add 100, and freezes.
    let frozen = acquire_and_freeze(&mutex).await?;
    let store = FileFenceChecker::new(folder.path(), frozen.name().clone());
    let late = frozen.sequencer().ok_or("fencing is on")?;
    let read_late = balance(&store, &late)?;

    // Its lease expires. The second holder reads, and by that alone shuts the first one out.
    frozen.lost().await;
    let lease = mutex.acquire_within(Duration::from_secs(1)).await?;
    let shown = lease.sequencer().ok_or("fencing is on")?;
    let read = balance(&store, &shown)?;

    // The first one thaws and writes what it had worked out: refused, although no holder has written since it read.
    let outcome = store.write(&late, BALANCE, (read_late + 100).to_string().as_bytes());
    let Err(FileFenceError::Refused(refused @ FenceRefused::Stale { .. })) = outcome else {
        return Err(format!("the late write was not refused: {outcome:?}").into());
    };
    println!("{refused}");
    // It may not even read: what it reads may be changed before it uses it.
    assert!(store.read(&late, BALANCE).is_err());

    store.write(&shown, BALANCE, (read + 7).to_string().as_bytes())?;
    assert_eq!(balance(&store, &shown)?, 7);
    lease.release().await?;
    Ok(())
}

/// Without renewal a lease is like that of a process which does not run.
async fn acquire_and_freeze(mutex: &Mutex) -> Result<Lease, Box<dyn Error>> {
    let frozen = mutex.clone().ttl(Duration::from_millis(100)).renewal(false);
    Ok(frozen.acquire_within(Duration::from_secs(1)).await?)
}

fn balance(store: &FileFenceChecker, shown: &Sequencer) -> Result<u64, Box<dyn Error>> {
    match store.read(shown, BALANCE)? {
        None => Ok(0),
        Some(digits) => Ok(String::from_utf8(digits)?.parse()?),
    }
}
