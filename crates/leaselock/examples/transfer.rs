//! Can two workers transfer between the same two accounts in opposite directions, without a deadlock and without losing
//! a cent?
//!
//! Both accounts are locked under one lease, for an owner: a helper that locks one of them by itself gets it at once. The
//! database compares the fence of each account, and refuses a worker that froze for longer than its lease.
//!
//! `cargo run -p leaselock --example transfer [URL]`

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leaselock::{Client, Name, Owner, Sequencer};
use leaselock_fence::{FenceChecker, FenceRefused};

const TRANSFERS: u32 = 20;
const OPENING: i64 = 100;
const FEE: i64 = 1;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:")).await
}

pub(crate) async fn run(url: &str) -> Result<(), Failure> {
    let client = Client::open(url)?;
    let database = Arc::new(Database::new(["alice", "bob"])?);
    // Each worker names the account that pays first: opposite orders of the same two names.
    let workers = [("alice", "bob", 3), ("bob", "alice", 1)].map(|(from, to, amount)| {
        let (client, database) = (client.clone(), Arc::clone(&database));
        tokio::spawn(async move {
            for _ in 0..TRANSFERS {
                transfer(&client, &database, from, to, amount).await?;
            }
            Ok::<(), Failure>(())
        })
    });
    for worker in workers {
        worker.await??;
    }
    let each = i64::from(TRANSFERS);
    assert_eq!(database.balance("alice"), OPENING + each * (1 - 3 - FEE));
    assert_eq!(database.balance("bob"), OPENING + each * (3 - 1 - FEE));

    a_worker_freezes(&client, &database).await
}

/// Reads both balances, gives way to the other worker, and writes both: exactly what goes wrong without a lock.
async fn transfer(
    client: &Client,
    database: &Database,
    from: &str,
    to: &str,
    amount: i64,
) -> Result<(), Failure> {
    let me = client.owner(format!("transfer from {from} to {to}"));
    let both = client.mutex(from).owner(&me).along_with([to]);
    let lease = both.acquire_within(Duration::from_secs(20)).await?;
    let shown: Vec<Sequencer> = lease.sequencers().collect(); // in the order of the names
    let (payer, payee) = (database.read(&shown[0])?, database.read(&shown[1])?);
    tokio::task::yield_now().await;
    database.write(&[(&shown[0], payer - amount), (&shown[1], payee + amount)])?;
    charge_fee(client, &me, database, from).await?;
    lease.release().await?;
    Ok(())
}

/// Locks the account by itself, because others call it too. The owner of a transfer has the lock already.
async fn charge_fee(
    client: &Client,
    me: &Owner,
    database: &Database,
    account: &str,
) -> Result<(), Failure> {
    let lease = client.mutex(account).owner(me).acquire().await?;
    let shown = lease.sequencer().ok_or("fencing is on")?;
    let balance = database.read(&shown)?;
    database.write(&[(&shown, balance - FEE)])?;
    lease.release().await?; // the lock stays held while the transfer has it
    Ok(())
}

/// The worker reads and freezes, its leases expire, and a transfer takes place before it writes.
async fn a_worker_freezes(client: &Client, database: &Database) -> Result<(), Failure> {
    // Without renewal a lease is like that of a process which does not run.
    let frozen = client.mutex("alice").ttl(Duration::from_millis(100));
    let lease = frozen.renewal(false).along_with(["bob"]).acquire().await?;
    let late: Vec<Sequencer> = lease.sequencers().collect();
    let (alice, bob) = (database.read(&late[0])?, database.read(&late[1])?);
    lease.lost().await;
    transfer(client, database, "bob", "alice", 5).await?;

    let before = (database.balance("alice"), database.balance("bob"));
    let Err(refused) = database.write(&[(&late[0], alice - 7), (&late[1], bob + 7)]) else {
        return Err("the late transfer was not refused".into());
    };
    println!("{refused}");
    assert_eq!((database.balance("alice"), database.balance("bob")), before);
    Ok(())
}

/// The database: of each account the balance, and what it has seen of the lock.
struct Database(Mutex<HashMap<Name, (FenceChecker, i64)>>);

impl Database {
    fn new(accounts: [&str; 2]) -> Result<Self, Failure> {
        let mut rows = HashMap::new();
        for account in accounts {
            let name = Name::new(account)?;
            rows.insert(name.clone(), (FenceChecker::new(name), OPENING));
        }
        Ok(Self(Mutex::new(rows)))
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<Name, (FenceChecker, i64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn balance(&self, account: &str) -> i64 {
        self.rows()[account].1
    }

    /// A read counts too: it shuts out every earlier holder.
    fn read(&self, shown: &Sequencer) -> Result<i64, FenceRefused> {
        let mut rows = self.rows();
        let (checker, balance) = rows.get_mut(shown.name()).expect("an account");
        let _admission = checker.admit(shown)?; // kept in memory, as the balances are
        Ok(*balance)
    }

    /// One transaction: it writes all balances, or none when an account refuses the holder.
    fn write(&self, changes: &[(&Sequencer, i64)]) -> Result<(), FenceRefused> {
        let mut rows = self.rows(); // until the work is done
        for (shown, _) in changes {
            let (checker, _) = rows.get_mut(shown.name()).expect("an account");
            let _admission = checker.admit(shown)?;
        }
        for (shown, balance) in changes {
            rows.get_mut(shown.name()).expect("an account").1 = *balance;
        }
        Ok(())
    }
}
