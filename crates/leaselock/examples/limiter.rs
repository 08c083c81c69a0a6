//! How do several workers stay below the rate of an API, although none knows of the others?
//!
//! Each asks the same limiter before a call. Those who come too early wait for their turn, in order of arrival.
//!
//! `cargo run -p leaselock --example limiter [URL]`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leaselock::Client;
use leaselock::clock::Clock;
use leaselock::limiter::{LimiterError, Rate, RateDecision};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:limiter")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    const CALLS: u32 = 30;
    let client = Client::open(url)?; // a store in memory lives as long as one of its clients
    let (calls, start) = (Arc::new(AtomicU32::new(0)), Clock::boot().now());
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        // Fifty calls a second, and ten at once after a pause.
        let api = Client::open(url)?.limiter("api", Rate::per_second(50).burst(10));
        let calls = Arc::clone(&calls);
        workers.spawn(async move {
            for _ in 0..CALLS / 3 {
                api.acquire().await?;
                calls.fetch_add(1, Ordering::SeqCst); // the call
            }
            Ok::<_, LimiterError>(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    let calls = calls.load(Ordering::SeqCst);
    let took = Clock::boot().now().saturating_since(start);
    assert_eq!(calls, CALLS);
    // Twenty of them had to wait, 20 ms each.
    assert!(took >= Duration::from_millis(400), "{took:?}");
    println!("{calls} calls of three workers in {took:?}");

    // A caller that cannot wait learns when to come again.
    let login = client.limiter("login:alice", Rate::per_hour(5));
    let mut allowed = 0;
    let retry_after = loop {
        match login.try_acquire().await? {
            RateDecision::Allowed { .. } => allowed += 1,
            RateDecision::Limited { retry_after } => break retry_after,
        }
    };
    assert!(allowed == 5 && retry_after <= Duration::from_secs(12 * 60));
    println!("five logins, and the next one in {retry_after:?}");
    Ok(())
}
