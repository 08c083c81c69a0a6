//! How do many programs read a configuration of several parts, and never half of an old and half of a new one?
//!
//! Readers share the lock; the program that writes has it alone. Its fencing token is larger than that of the readers
//! before it, so a writer that has lost its lease is refused once one reader of the next phase was there.
//!
//! `cargo run -p leaselock --example shared_config [URL]`

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaselock::{Client, Fence};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:shared_config")).await
}

/// Two parts, stored one after the other, and the largest fencing token that was seen.
#[derive(Default)]
struct Storage {
    parts: Mutex<[u32; 2]>,
    seen: Mutex<Option<Fence>>,
}

impl Storage {
    /// A read counts too: from then on no earlier writer may change anything.
    fn admit(&self, fence: Option<Fence>) -> Result<(), String> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if fence < *seen {
            return Err(format!("{fence:?} is stale, {seen:?} was here"));
        }
        *seen = fence;
        Ok(())
    }

    fn part(&self, at: usize) -> u32 {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)[at]
    }

    fn store(&self, at: usize, value: u32) {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)[at] = value;
    }
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let storage = Arc::new(Storage::default());
    let mut programs = tokio::task::JoinSet::new();
    for program in 0..6 {
        let (lock, storage) = (Client::connect(url)?.rwlock("config"), Arc::clone(&storage));
        programs.spawn(async move {
            for _ in 0..10 {
                if program == 0 {
                    let lease = lock.write().await.map_err(|error| error.to_string())?;
                    storage.admit(lease.fence())?;
                    let next = storage.part(0) + 1;
                    storage.store(0, next);
                    tokio::time::sleep(Duration::from_millis(1)).await; // between the parts they differ
                    storage.store(1, next);
                    lease.release().await.map_err(|error| error.to_string())?;
                } else {
                    let lease = lock.read().await.map_err(|error| error.to_string())?;
                    storage.admit(lease.fence())?;
                    let first = storage.part(0);
                    tokio::time::sleep(Duration::from_millis(1)).await; // a writer would come in here
                    assert_eq!(first, storage.part(1), "half of one and half of the other");
                    lease.release().await.map_err(|error| error.to_string())?;
                }
            }
            Ok::<(), String>(())
        });
    }
    while let Some(program) = programs.join_next().await {
        program??;
    }
    assert_eq!(storage.part(0), 10);
    println!("10 writes, 50 reads, none of half a configuration");
    Ok(())
}
