//! How do many programs read a configuration of several parts, and never half of an old and half of a new one?
//!
//! Readers share the lock; the program that writes has it alone. Readers show a sequencer too, larger than that of the
//! writer before them. So a writer that has lost its lease is refused once one of them was there.
//!
//! `cargo run -p leaselock --example shared_config [URL]`

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaselock::{Client, Name, RwLock, Sequencer};
use leaselock_fence::{FenceChecker, FenceRefused};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:shared_config")).await
}

const NAME: &str = "config";

/// Two parts, stored one after the other, and what the storage has seen of the lock.
struct Storage(Mutex<(FenceChecker, [u32; 2])>);

impl Storage {
    /// Reads or writes a part. A read counts too: from then on no earlier writer may change anything.
    fn part(
        &self,
        shown: Option<Sequencer>,
        at: usize,
        value: Option<u32>,
    ) -> Result<u32, FenceRefused> {
        let shown = shown.expect("fencing is on by default");
        let mut storage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (checker, parts) = &mut *storage;
        let _admission = checker.admit(&shown)?; // it is stored in memory, beside the parts
        if let Some(value) = value {
            parts[at] = value;
        }
        Ok(parts[at])
    }
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let checker = FenceChecker::new(Name::new(NAME)?);
    let storage = Arc::new(Storage(Mutex::new((checker, [0, 0]))));
    let mut programs = tokio::task::JoinSet::new();
    for program in 0..6 {
        let (lock, storage) = (Client::open(url)?.rwlock(NAME), Arc::clone(&storage));
        programs.spawn(async move {
            for _ in 0..10 {
                let done = match program {
                    0 => write(&lock, &storage).await,
                    _ => read(&lock, &storage).await,
                };
                done.map_err(|error| error.to_string())?;
            }
            Ok::<(), String>(())
        });
    }
    while let Some(program) = programs.join_next().await {
        program??;
    }
    let lease = Client::open(url)?.mutex(NAME).acquire().await?;
    assert_eq!(storage.part(lease.sequencer(), 0, None)?, 10);
    println!("10 writes, 50 reads, none of half a configuration");
    Ok(())
}

async fn write(lock: &RwLock, storage: &Storage) -> Result<(), Box<dyn Error>> {
    let lease = lock.write().await?;
    let next = storage.part(lease.sequencer(), 0, None)? + 1;
    storage.part(lease.sequencer(), 0, Some(next))?;
    tokio::time::sleep(Duration::from_millis(1)).await; // between the parts they differ
    storage.part(lease.sequencer(), 1, Some(next))?;
    lease.release().await?;
    Ok(())
}

async fn read(lock: &RwLock, storage: &Storage) -> Result<(), Box<dyn Error>> {
    let lease = lock.read().await?;
    let first = storage.part(lease.sequencer(), 0, None)?;
    tokio::time::sleep(Duration::from_millis(1)).await; // a writer would come in here
    let second = storage.part(lease.sequencer(), 1, None)?;
    assert_eq!(first, second, "half of one and half of the other");
    lease.release().await?;
    Ok(())
}
