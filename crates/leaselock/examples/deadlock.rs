//! Two workers lock two accounts in opposite order. How do both of them finish?
//!
//! Each worker is an owner. One of the two gets the error `Deadlock`, lets go of what it holds, and begins again. The
//! other one goes on as soon as that is released.
//!
//! `cargo run -p leaselock --example deadlock [URL]`

use std::error::Error;
use std::sync::Arc;

use leaselock::{AcquireError, Client, Lease};
use tokio::sync::Barrier;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:deadlock")).await
}

/// Moves money between two accounts. Returns how often it had to begin again.
async fn transfer(
    client: Client,
    from: &str,
    to: &str,
    both_hold_one: Arc<Barrier>,
) -> Result<u32, AcquireError> {
    let me = client.owner(format!("from {from} to {to}"));
    let mut again = 0;
    loop {
        let first = client.mutex(from).owner(&me).acquire().await?;
        if again == 0 {
            both_hold_one.wait().await; // so that they meet, in this example
        }
        match client.mutex(to).owner(&me).acquire().await {
            Ok(second) => {
                // the transfer goes here
                release([second, first]).await;
                return Ok(again);
            }
            Err(error @ AcquireError::Deadlock { .. }) => {
                println!("{}: {error}", me.label());
                again += 1;
                release([first]).await; // the other one goes on
            }
            Err(error) => return Err(error),
        }
    }
}

async fn release(leases: impl IntoIterator<Item = Lease>) {
    for lease in leases {
        if let Err(error) = lease.release().await {
            println!("another client may have held it meanwhile: {error}");
        }
    }
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let both_hold_one = Arc::new(Barrier::new(2));
    let (one, two) = (Client::open(url)?, Client::open(url)?);
    let (there, back) = tokio::join!(
        transfer(one, "alice", "bob", Arc::clone(&both_hold_one)),
        transfer(two, "bob", "alice", both_hold_one),
    );
    let again = [there?, back?];
    println!("both have finished; they began again {again:?} times");
    assert_eq!(
        again.iter().filter(|again| **again > 0).count(),
        1,
        "one of them let go"
    );
    Ok(())
}
