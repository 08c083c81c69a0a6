//! How is an order charged once, although two workers want to charge it and one of them freezes?
//!
//! The lock keeps workers from doing the same work. That the money moves once is the bank's doing: it checks the
//! fencing token, and so refuses the worker that thaws when its lease is long over.
//!
//! `cargo run -p leaselock --example payment_once [URL]`

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaselock::fence_checker::FenceChecker;
use leaselock::{Client, Lease, Name, Sequencer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:payment_once")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let bank = Arc::new(Bank::default());
    two_workers_at_once(url, &bank).await?;
    the_first_worker_freezes(url, &bank).await?;
    Ok(())
}

/// Both want to charge order 1; each is a client of its own, as on two machines.
async fn two_workers_at_once(url: &str, bank: &Arc<Bank>) -> Result<(), Box<dyn Error>> {
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (url, bank) = (url.to_owned(), Arc::clone(bank));
            tokio::spawn(async move {
                pay(&url, &bank, "order-1")
                    .await
                    .map_err(|error| error.to_string())
            })
        })
        .collect();
    let mut paid = 0;
    for worker in workers {
        paid += u32::from(worker.await??);
    }
    assert_eq!((paid, bank.charges("order-1")), (1, 1));
    Ok(())
}

/// Charges the order unless that was done. True when this call did it.
async fn pay(url: &str, bank: &Bank, order: &str) -> Result<bool, Box<dyn Error>> {
    let client = Client::connect(url)?;
    let mutex = client.mutex(format!("pay/{order}"));
    let lease = mutex.acquire_within(Duration::from_secs(1)).await?;
    let shown = sequencer_of(&lease)?;
    let open = !bank.is_paid(order, &shown)?;
    if open {
        bank.charge(order, &shown)?;
    }
    lease.release().await?;
    Ok(open)
}

/// The first worker freezes between looking and charging, for longer than its lease.
async fn the_first_worker_freezes(url: &str, bank: &Bank) -> Result<(), Box<dyn Error>> {
    let order = "order-2";
    let mutex = Client::connect(url)?.mutex(format!("pay/{order}"));
    // Without renewal a lease is like that of a process which does not run.
    let frozen = mutex.clone().ttl(Duration::from_millis(100)).renewal(false);
    let first = frozen.acquire_within(Duration::from_secs(1)).await?;
    let shown_by_first = sequencer_of(&first)?;
    assert!(!bank.is_paid(order, &shown_by_first)?);
    first.lost().await;

    let second = mutex.acquire_within(Duration::from_secs(1)).await?;
    let shown_by_second = sequencer_of(&second)?;
    assert!(!bank.is_paid(order, &shown_by_second)?);

    // The first one thaws and charges, before the second does. The lock could not stop that; the bank does.
    let late = bank.charge(order, &shown_by_first);
    assert!(late.is_err(), "a stale worker moved money");
    bank.charge(order, &shown_by_second)?;
    second.release().await?;
    assert_eq!(bank.charges(order), 1);
    Ok(())
}

fn sequencer_of(lease: &Lease) -> Result<Sequencer, &'static str> {
    lease.sequencer().ok_or("fencing is on by default")
}

/// Checks the sequencer of every request, also of those that only read.
#[derive(Default)]
struct Bank {
    orders: Mutex<HashMap<String, Order>>,
}

struct Order {
    checker: FenceChecker,
    charges: u32,
}

impl Bank {
    fn is_paid(&self, order: &str, shown: &Sequencer) -> Result<bool, Box<dyn Error>> {
        self.admitted(order, shown, |order| order.charges > 0)
    }

    fn charge(&self, order: &str, shown: &Sequencer) -> Result<(), Box<dyn Error>> {
        self.admitted(order, shown, |order| order.charges += 1)
    }

    fn admitted<T>(
        &self,
        order: &str,
        shown: &Sequencer,
        act: impl FnOnce(&mut Order) -> T,
    ) -> Result<T, Box<dyn Error>> {
        let protects = Name::new(format!("pay/{order}"))?;
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let order = orders.entry(order.to_owned()).or_insert_with(|| Order {
            checker: FenceChecker::new(protects),
            charges: 0,
        });
        let _admission = order.checker.admit(shown)?; // the bank keeps it in memory, with the charges
        Ok(act(order))
    }

    fn charges(&self, order: &str) -> u32 {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.get(order).map_or(0, |order| order.charges)
    }
}
