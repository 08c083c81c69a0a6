//! How is an order charged once, although two workers want to charge it and one of them freezes?
//!
//! `once` keeps workers from doing the same work: one runs, and all get its receipt. That the money moves once is the
//! bank's doing. It checks the sequencer of each run, and so refuses the worker that thaws when its lease is long over.
//!
//! `cargo run -p leaselock --example payment_once [URL]`

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaselock::once::{Once, OnceError, OnceRun, OnceStart};
use leaselock::{Client, LeaseView, Name, Sequencer};
use leaselock_fence::FenceChecker;

/// Any error that can go to another thread, as the body of `once` returns it.
type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:payment_once")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Failure> {
    let client = Client::open(url)?; // a store in memory lives as long as one of its clients
    let bank = Arc::new(Bank::default());
    two_workers_at_once(url, &bank).await?;
    the_first_worker_freezes(&client, &bank).await
}

/// The payment of an order. Its run holds the lock of the same name, which the bank knows.
fn payment(client: &Client, order: &str) -> Once {
    client.once(format!("pay/{order}"))
}

/// Both want to charge order 1; each is a client of its own, as on two machines.
async fn two_workers_at_once(url: &str, bank: &Arc<Bank>) -> Result<(), Failure> {
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (url, bank) = (url.to_owned(), Arc::clone(bank));
            tokio::spawn(async move {
                let client = Client::open(&url).map_err(|error| error.to_string())?;
                let paid = payment(&client, "order-1");
                let paid = paid.run(|run| async move { pay(&bank, "order-1", &run) });
                paid.await.map_err(|error| error.to_string())
            })
        })
        .collect();
    for worker in workers {
        assert_eq!(worker.await??.value, b"charge 1 of order-1");
    }
    assert_eq!(bank.charges("order-1"), 1);
    Ok(())
}

/// Charges the order, unless an earlier run did so before it crashed. Returns the receipt.
fn pay(bank: &Bank, order: &str, run: &LeaseView<OnceRun>) -> Result<String, Failure> {
    let shown = sequencer_of(run)?;
    if !bank.is_paid(order, &shown)? {
        bank.charge(order, &shown)?;
    }
    Ok(format!("charge {} of {order}", bank.charges(order)))
}

/// The first worker freezes between checking and charging, for longer than its lease.
async fn the_first_worker_freezes(client: &Client, bank: &Arc<Bank>) -> Result<(), Failure> {
    let order = "order-2";
    // A lease that may not last longer is like that of a process which does not run.
    let short = Duration::from_millis(100);
    let frozen = payment(client, order).ttl(short).max_hold(short);
    let OnceStart::Run(frozen) = frozen.begin().await? else {
        return Err("no worker has paid the order".into());
    };
    let late = frozen.sequencer().ok_or("a run has a fencing token")?;
    assert!(!bank.is_paid(order, &late)?);
    frozen.lost().await;

    // The second worker checks too. Then the first one thaws and charges, before the second does.
    let second = payment(client, order);
    let paid = second.run(|run| {
        let (bank, late) = (Arc::clone(bank), late.clone());
        async move {
            assert!(!bank.is_paid(order, &sequencer_of(&run)?)?);
            assert!(
                bank.charge(order, &late).is_err(),
                "a late worker moved money"
            );
            pay(&bank, order, &run)
        }
    });
    assert_eq!(paid.await?.value, b"charge 1 of order-2");

    // Nor can the first one put a receipt of its own in place of that.
    let stale = frozen.finish(Ok(b"a late receipt".to_vec())).await;
    assert!(matches!(stale, Err(OnceError::Stale { .. })), "{stale:?}");
    assert_eq!(bank.charges(order), 1);
    Ok(())
}

fn sequencer_of(run: &LeaseView<OnceRun>) -> Result<Sequencer, &'static str> {
    run.sequencer().ok_or("a run has a fencing token")
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
    fn is_paid(&self, order: &str, shown: &Sequencer) -> Result<bool, Failure> {
        self.admitted(order, shown, |order| order.charges > 0)
    }

    fn charge(&self, order: &str, shown: &Sequencer) -> Result<(), Failure> {
        self.admitted(order, shown, |order| order.charges += 1)
    }

    fn admitted<T>(
        &self,
        order: &str,
        shown: &Sequencer,
        act: impl FnOnce(&mut Order) -> T,
    ) -> Result<T, Failure> {
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
