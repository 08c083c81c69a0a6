//! How does a resource refuse a holder that is late?
//!
//! The resource here is a file. It keeps the largest fencing token that it has seen, and who showed it, and refuses
//! a holder with a smaller one: on reads as well as on writes. docs/fencing.md has the same in SQL and for Redis.
//!
//! `cargo run -p leaselock --example fencing [URL]`

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leaselock::{Client, Fence, Mutex};
use rustix::fs::{FlockOperation, flock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let balance = Guarded::new(folder.path().join("balance"));
    let mutex = Client::connect(url)?.mutex("balance");

    // The first holder reads 0, wants to add 100, and freezes.
    let (slow, slow_fence) = takes_and_freezes(&mutex).await?;
    let seen_by_slow = number(&balance.read(slow_fence, "slow")?)?;

    // Its lease runs out. The second holder reads, and by that alone shuts the first one out.
    slow.lost().await;
    let quick = mutex.acquire_within(Duration::from_secs(1)).await?;
    let quick_fence = quick.fence().ok_or("fencing is on")?;
    assert!(quick_fence > slow_fence);
    let seen_by_quick = number(&balance.read(quick_fence, "quick")?)?;

    // The first one thaws and writes what it had worked out: refused, although no holder has written since it read.
    let late = balance.write(slow_fence, "slow", &(seen_by_slow + 100).to_string());
    assert!(matches!(late, Err(Refused::Stale { .. })), "{late:?}");
    // It may not even look, or it could tell others what is not true any more.
    let late = balance.read(slow_fence, "slow");
    assert!(matches!(late, Err(Refused::Stale { .. })), "{late:?}");

    balance.write(quick_fence, "quick", &(seen_by_quick + 7).to_string())?;
    // Should a number ever repeat, after a server lost its data, its first owner stays the only one.
    let twin = balance.write(quick_fence, "twin", "0");
    assert!(matches!(twin, Err(Refused::Stale { .. })), "{twin:?}");

    assert_eq!(number(&balance.read(quick_fence, "quick")?)?, 7);
    quick.release().await?;
    Ok(())
}

/// Without renewal a lease is like that of a process which does not run.
async fn takes_and_freezes(mutex: &Mutex) -> Result<(leaselock::Lease, Fence), Box<dyn Error>> {
    let frozen = mutex.clone().ttl(Duration::from_millis(100)).renewal(false);
    let lease = frozen.acquire_within(Duration::from_secs(1)).await?;
    let fence = lease.fence().ok_or("fencing is on")?;
    Ok((lease, fence))
}

fn number(text: &str) -> Result<u64, std::num::ParseIntError> {
    if text.is_empty() { Ok(0) } else { text.parse() }
}

/// A file with a value and, in its first line, the largest fencing token seen and its owner.
struct Guarded {
    path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("stale: fencing token {seen} of {owner} was here already")]
    Stale { seen: u64, owner: String },
    #[error(transparent)]
    File(#[from] io::Error),
}

impl Guarded {
    fn new(path: impl AsRef<Path>) -> Self {
        Guarded {
            path: path.as_ref().to_owned(),
        }
    }

    /// Reads the value and keeps the fence: from here on a holder with a smaller one is refused.
    fn read(&self, fence: Fence, owner: &str) -> Result<String, Refused> {
        self.checked(fence, owner, None)
    }

    fn write(&self, fence: Fence, owner: &str, value: &str) -> Result<(), Refused> {
        self.checked(fence, owner, Some(value)).map(drop)
    }

    /// Compares and writes in one step: no other process comes in between as long as the file is locked.
    fn checked(&self, fence: Fence, owner: &str, value: Option<&str>) -> Result<String, Refused> {
        let mut file = self.locked()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let (head, old) = text.split_once('\n').unwrap_or(("", ""));
        let (bar, by) = head.split_once(' ').unwrap_or(("0", ""));
        let bar = bar.parse().map_err(io::Error::other)?;
        if fence.get() < bar || (fence.get() == bar && owner != by) {
            let owner = by.to_owned();
            return Err(Refused::Stale { seen: bar, owner });
        }
        let value = value.unwrap_or(old).to_owned();
        file.rewind()?;
        file.set_len(0)?;
        file.write_all(format!("{fence} {owner}\n{value}").as_bytes())?;
        Ok(value)
    }

    fn locked(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&self.path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }
}
