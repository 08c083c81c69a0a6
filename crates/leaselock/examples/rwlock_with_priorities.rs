//! How does a read-write lock serve urgent requests first, in words of the program's own?
//!
//! The program says how urgent a request is, and one function turns that into a priority: the larger one is served
//! first, and requests of one priority in the order in which they came. Readers that are next to each other in the
//! queue are let in together. An urgent request overtakes those that wait, and takes nothing from those that hold.
//!
//! `cargo run -p leaselock --example rwlock_with_priorities [URL]`

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaselock::lease::Shared;
use leaselock::{AcquireError, Client, Lease, RwLock};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("mem:rwlock_with_priorities")).await
}

/// How soon a request should be served. A stream of interactive ones would keep the others waiting for ever.
#[derive(Debug, Clone, Copy)]
enum Urgency {
    Batch,
    Normal,
    Interactive,
}

impl Urgency {
    /// With gaps, for words that a later version adds. Programs that share a lock must agree about these numbers.
    fn priority(self) -> i32 {
        match self {
            Urgency::Batch => -10,
            Urgency::Normal => 0,
            Urgency::Interactive => 10,
        }
    }
}

/// A read-write lock whose requests say how urgent they are.
#[derive(Clone)]
struct UrgencyLock(RwLock);

impl UrgencyLock {
    async fn read(&self, urgency: Urgency) -> Result<Lease<Shared>, AcquireError> {
        self.0.clone().priority(urgency.priority()).read().await
    }

    async fn write(&self, urgency: Urgency) -> Result<Lease, AcquireError> {
        self.0.clone().priority(urgency.priority()).write().await
    }
}

#[derive(Debug, Clone, Copy)]
enum Access {
    Read,
    Write,
}

const NAME: &str = "search-index";

/// In the order in which they come, while another program writes.
const REQUESTS: [(&str, Urgency, Access); 5] = [
    ("nightly rebuild", Urgency::Batch, Access::Write),
    ("dashboard", Urgency::Normal, Access::Read),
    ("report", Urgency::Normal, Access::Read),
    ("price change", Urgency::Interactive, Access::Write),
    ("customer's page", Urgency::Interactive, Access::Read),
];

/// What the requests share in this example.
#[derive(Clone)]
struct Scene {
    served: Arc<Mutex<Vec<&'static str>>>,
    all_readers: Arc<Barrier>,
}

impl Scene {
    fn serve(&self, who: &'static str) {
        println!("{who} is served");
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.push(who);
    }

    async fn request(
        self,
        lock: UrgencyLock,
        (who, urgency, access): (&'static str, Urgency, Access),
    ) -> Result<(), String> {
        let lease: Lease<()> = match access {
            Access::Read => lock.read(urgency).await.map(Lease::from),
            Access::Write => lock.write(urgency).await.map(Lease::from),
        }
        .map_err(|error| error.to_string())?;
        self.serve(who);
        if let Access::Read = access {
            self.all_readers.wait().await; // ends only when all three read at the same time
        }
        lease.release().await.map_err(|error| error.to_string())
    }
}

pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::open(url)?;
    let scene = Scene {
        served: Arc::default(),
        all_readers: Arc::new(Barrier::new(3)),
    };
    let writing = UrgencyLock(client.rwlock(NAME))
        .write(Urgency::Normal)
        .await?;
    let mut programs = JoinSet::new();
    for (before, request) in REQUESTS.into_iter().enumerate() {
        let lock = UrgencyLock(Client::open(url)?.rwlock(NAME));
        programs.spawn(scene.clone().request(lock, request));
        while client.inspect(NAME).await?.queue.len() <= before {
            tokio::time::sleep(Duration::from_millis(1)).await; // until it waits, so that the order is known
        }
    }
    writing.release().await?;
    while let Some(program) = programs.join_next().await {
        program??;
    }

    let served = scene.served.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!((served[0], served[4]), ("price change", "nightly rebuild"));
    println!("the price change first, then all readers together, and the rebuild last");
    Ok(())
}
