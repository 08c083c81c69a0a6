//! How do three hosts use at most ten connections of one database together, although none knows of the others?
//!
//! Each host asks the same semaphore. A report that needs four connections gets them as one, in its turn, and the
//! permits of a host that crashes come back at the end of their ttl.
//!
//! `cargo run -p leaselock --example connection_pool [URL]`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leaselock::{Client, Semaphore};

const CONNECTIONS: u32 = 10;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:connection_pool")).await
}

/// What the database sees.
#[derive(Default)]
struct Database {
    open: AtomicU32,
    most: AtomicU32,
    served: AtomicU32,
}

impl Database {
    async fn query(&self, connections: u32) {
        let open = self.open.fetch_add(connections, Ordering::SeqCst) + connections;
        self.most.fetch_max(open, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2)).await; // the query takes this long
        self.open.fetch_sub(connections, Ordering::SeqCst);
        self.served.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let database = Arc::new(Database::default());
    let mut hosts = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let pool = Client::open(url)?.semaphore("database/connections", CONNECTIONS);
        for request in 0..20 {
            let (pool, database) = (pool.clone(), Arc::clone(&database));
            // Every tenth request is a report, which needs four connections at a time.
            let connections = if request % 10 == 9 { 4 } else { 1 };
            hosts.spawn(async move {
                let served = serve(&pool, &database, connections).await;
                served.map_err(|error| error.to_string())
            });
        }
    }
    while let Some(served) = hosts.join_next().await {
        served??;
    }
    assert_eq!(database.served.load(Ordering::SeqCst), 60);
    let most = database.most.load(Ordering::SeqCst);
    assert!(most <= CONNECTIONS, "{most}");
    println!("60 requests of three hosts, {most} connections at most");
    Ok(())
}

async fn serve(
    pool: &Semaphore,
    database: &Database,
    connections: u32,
) -> Result<(), Box<dyn Error>> {
    let permit = pool.acquire_many(connections).await?;
    tokio::select! {
        () = database.query(connections) => {}
        lost = permit.lost() => return Err(lost.into()), // another host may have the connections now
    }
    permit.release().await?;
    Ok(())
}
