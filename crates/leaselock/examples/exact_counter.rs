//! How do several machines number invoices without a gap and without a number twice?
//!
//! Each takes its numbers from one counter. A change whose reply is lost is sent again and counts once.
//!
//! `cargo run -p leaselock --example exact_counter [URL]`

use std::collections::BTreeSet;
use std::error::Error;

use leaselock::Client;
use leaselock::counter::{Counter, CounterError};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:exact_counter")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::open(url)?; // a store in memory lives as long as one of its clients
    let mut machines = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let invoices = Client::open(url)?.counter("invoices");
        machines.spawn(async move {
            let mut numbers = Vec::new();
            for _ in 0..25 {
                numbers.push(next(&invoices).await?);
            }
            Ok::<_, CounterError>(numbers)
        });
    }
    let mut numbers = BTreeSet::new();
    while let Some(machine) = machines.join_next().await {
        numbers.extend(machine??);
    }
    assert_eq!(numbers, (1..=100).collect());
    assert_eq!(client.counter("invoices").get().await?, 100);
    println!("100 invoices of four machines, numbered from 1 to 100");
    Ok(())
}

/// The number of the next invoice. An error says that no number was used, or that the store cannot tell any more.
async fn next(invoices: &Counter) -> Result<i64, CounterError> {
    let mut outcome = invoices.incr().await;
    while let Err(CounterError::Unknown(unknown)) = outcome {
        eprintln!("{unknown}"); // the store does not reply; ask it again
        outcome = unknown.resolve().await;
    }
    outcome
}
