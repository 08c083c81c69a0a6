//! Can two workers transfer between the same two accounts in opposite directions, without a deadlock and without losing
//! a cent?
//!
//! `cargo run -p leaselock --example transfer [URL]`

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use leaselock::Client;

const TRANSFERS: u32 = 20;
const OPENING: i64 = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    for account in ["alice", "bob"] {
        write(folder.path(), account, OPENING)?;
    }
    let client = Client::open(url)?;
    // Each worker names the account that pays first: opposite orders of the same two names.
    let workers = [("alice", "bob", 3), ("bob", "alice", 1)].map(|(from, to, amount)| {
        let (client, folder) = (client.clone(), folder.path().to_owned());
        tokio::spawn(async move {
            for _ in 0..TRANSFERS {
                let done = transfer(&client, &folder, from, to, amount).await;
                done.map_err(|error| error.to_string())?;
            }
            Ok::<(), String>(())
        })
    });
    for worker in workers {
        worker.await??;
    }
    let (alice, bob) = (read(folder.path(), "alice")?, read(folder.path(), "bob")?);
    assert_eq!(alice + bob, 2 * OPENING, "money was lost or made");
    assert_eq!(alice, OPENING - 2 * i64::from(TRANSFERS));
    Ok(())
}

/// Reads both balances, gives way to the other worker, and writes both: exactly what goes wrong without a lock.
async fn transfer(
    client: &Client,
    folder: &Path,
    from: &str,
    to: &str,
    amount: i64,
) -> Result<(), Box<dyn Error>> {
    let both = client
        .mutex(format!("account:{from}"))
        .along_with([format!("account:{to}")]);
    let lease = both.acquire_within(Duration::from_secs(20)).await?;
    let (payer, payee) = (read(folder, from)?, read(folder, to)?);
    tokio::task::yield_now().await;
    lease.lost().check()?; // a database would compare the fence of each account: lease.fences()
    write(folder, from, payer - amount)?;
    write(folder, to, payee + amount)?;
    lease.release().await?;
    Ok(())
}

fn read(folder: &Path, account: &str) -> Result<i64, Box<dyn Error>> {
    Ok(fs::read_to_string(folder.join(account))?.parse()?)
}

fn write(folder: &Path, account: &str, balance: i64) -> Result<(), Box<dyn Error>> {
    Ok(fs::write(folder.join(account), balance.to_string())?)
}
