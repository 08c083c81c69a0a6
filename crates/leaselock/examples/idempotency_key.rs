//! How does a shop charge an order once, although the customer presses the button three times and a worker dies?
//!
//! The order is the key. One request charges, and all get its receipt. After a crash no request charges again before
//! the bank was asked.
//!
//! `cargo run -p leaselock --example idempotency_key [URL]`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leaselock::Client;
use leaselock::once::{Once, OnceError, OnceStart};
use leaselock::options::OnCrash;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:idempotency_key")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    three_clicks(url).await?;
    a_worker_dies(url).await
}

/// The work of one order, by one of several web servers.
fn charge_of(client: &Client, order: &str, cents: u32) -> Once {
    client
        .once(format!("charge/{order}"))
        .fingerprint(format!("{order}: {cents} cents"))
        .on_crash(OnCrash::Refuse)
        .keep_for(Duration::from_secs(24 * 60 * 60))
}

/// What is charged, and how often.
#[derive(Default)]
struct Bank(AtomicU32);

impl Bank {
    fn charge(&self, order: &str) -> String {
        let number = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        format!("charge {number} of {order}")
    }

    fn charges(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

async fn three_clicks(url: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::open(url)?; // a store in memory lives as long as one of its clients
    let bank = Arc::new(Bank::default());
    let clicks: Vec<_> = (0..3)
        .map(|_| {
            let (url, bank) = (url.to_owned(), Arc::clone(&bank));
            tokio::spawn(async move {
                let client = Client::open(&url).map_err(|error| error.to_string())?;
                let charge = charge_of(&client, "order-1", 4200);
                let charged =
                    charge.run(|_| async move { Ok::<_, String>(bank.charge("order-1")) });
                charged.await.map_err(|error| error.to_string())
            })
        })
        .collect();
    for click in clicks {
        let receipt = click.await??;
        assert_eq!(receipt.value, b"charge 1 of order-1");
    }
    assert_eq!(bank.charges(), 1);

    // The same key for another request is a mistake of the program, and no second charge.
    let other = charge_of(&client, "order-1", 9900);
    let refused = other.run(|_| async { Ok::<_, String>("receipt") }).await;
    assert!(matches!(refused, Err(OnceError::Mismatch { .. })));
    Ok(())
}

async fn a_worker_dies(url: &str) -> Result<(), Box<dyn Error>> {
    let (bank, client) = (Bank::default(), Client::open(url)?);
    let charge = charge_of(&client, "order-2", 4200);
    if let OnceStart::Run(run) = charge.begin().await? {
        bank.charge("order-2");
        drop(run); // the process dies here: the money has moved, and the store was not told
    }
    let refused = charge.run(|_| async { Ok::<_, String>("receipt") }).await;
    assert!(matches!(
        refused,
        Err(OnceError::Crashed { attempt: 1, .. })
    ));

    // An operator asks the bank. It has charged, so the result is put in place of a second charge.
    assert_eq!(bank.charges(), 1);
    charge.forget().await?;
    let settled = charge.run(|_| async { Ok::<_, String>("charge 1 of order-2") });
    assert!(settled.await?.ran_here);
    let later = charge.run(|_| async { Ok::<_, String>("receipt") }).await?;
    assert_eq!(later.value, b"charge 1 of order-2");
    Ok(())
}
