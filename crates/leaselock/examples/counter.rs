//! Do increments of a plain file get lost when several tasks make them under a lock?
//!
//! `cargo run -p leaselock --example counter [URL]`

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use leaselock::{Client, Fence, Mutex};

const TASKS: usize = 4;
const INCREMENTS: usize = 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("counter");
    fs::write(&file, "0")?;

    let mutex = Client::open(url)?.mutex("counter");
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (mutex, file) = (mutex.clone(), file.clone());
            tokio::spawn(async move {
                let outcome = increment(&mutex, &file).await;
                outcome.map_err(|error| error.to_string())
            })
        })
        .collect();
    let mut turns = Vec::new();
    for task in tasks {
        turns.extend(task.await??);
    }

    assert_eq!(read(&file)?, TASKS * INCREMENTS, "increments were lost");
    // Each turn noted what it found in the file, and its fence: both tell the same order.
    turns.sort_unstable();
    assert!(turns.windows(2).all(|pair| pair[0].1 < pair[1].1));
    Ok(())
}

/// Reads, gives way to the others, and writes: exactly what loses increments without a lock.
async fn increment(
    mutex: &Mutex,
    file: &Path,
) -> Result<Vec<(usize, Option<Fence>)>, Box<dyn Error>> {
    let mut turns = Vec::with_capacity(INCREMENTS);
    for _ in 0..INCREMENTS {
        let lease = mutex.acquire_within(Duration::from_secs(5)).await?;
        let found = read(file)?;
        tokio::task::yield_now().await;
        fs::write(file, (found + 1).to_string())?;
        turns.push((found, lease.fence()));
        lease.release().await?;
    }
    Ok(turns)
}

fn read(file: &Path) -> Result<usize, Box<dyn Error>> {
    Ok(fs::read_to_string(file)?.parse()?)
}
