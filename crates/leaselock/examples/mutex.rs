//! How do I take a lock, work under it, and release it?
//!
//! `cargo run -p leaselock --example mutex [URL]`

use std::error::Error;
use std::time::Duration;

use leaselock::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::open(url)?;
    let mutex = client
        .mutex("invoices/2026-07")
        .ttl(Duration::from_secs(30));

    // Waits in the queue; from here on the client renews the lease in the background.
    let lease = mutex.acquire_within(Duration::from_secs(1)).await?;
    let fence = lease.fence().ok_or("fencing is on by default")?;

    let settled = tokio::select! {
        settled = settle_invoices() => settled,
        lost = lease.lost() => return Err(lost.into()), // stop: the lease is gone
    };
    assert_eq!(settled, 3);
    println!("settled {settled} invoices under the fencing token {fence}");

    // While it is held, no other client gets it.
    assert!(mutex.try_acquire().await?.is_none(), "two holders");

    lease.release().await?; // says whether it was still ours

    // The next grant has a larger fencing token.
    let next = mutex.try_acquire().await?.ok_or("it was released")?;
    assert!(next.fence() > Some(fence), "fences only grow");
    println!("released; the next grant has a larger fencing token");
    next.release().await?;
    Ok(())
}

/// The work. What it changes should check the fence: see the example `fenced_store`.
async fn settle_invoices() -> u32 {
    tokio::time::sleep(Duration::from_millis(20)).await;
    3
}
