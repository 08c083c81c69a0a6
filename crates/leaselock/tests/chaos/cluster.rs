//! A cluster whose primaries die and whose slots wander while many take locks.

mod failover;
mod migration;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaselock::{Client, Mutex};
use testkit::{Recorder, clock};
use tokio::task::JoinHandle;

use crate::figures::Grants;

/// Anything that does not depend on a lease's end happens within this, on a machine that does something else as well.
const PATIENCE: Duration = Duration::from_secs(30);

/// Takes one lock after the other until told to stop, and writes down what it sees.
struct Worker {
    name: String,
    /// The leases that it had.
    grants: Arc<Grants>,
    /// What went wrong, in words.
    errors: Arc<std::sync::Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Worker {
    fn start(
        client: Client,
        name: &str,
        ttl: Duration,
        recorder: &Recorder,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let (grants, errors) = (Arc::default(), Arc::default());
        let work = Work {
            mutex: client.mutex(name).ttl(ttl),
            name: name.to_owned(),
            recorder: recorder.clone(),
            grants: Arc::clone(&grants),
            errors: Arc::clone(&errors),
        };
        let stop = Arc::clone(stop);
        let task = tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                work.one_turn().await;
            }
            client.close().await;
        });
        Worker {
            name: name.to_owned(),
            grants,
            errors,
            task,
        }
    }

    fn grants(&self) -> usize {
        self.grants.count()
    }

    /// What went wrong, in all its time.
    async fn ends(self) -> Vec<String> {
        self.task.await.unwrap();
        std::mem::take(&mut self.errors.lock().unwrap())
    }
}

struct Work {
    mutex: Mutex,
    name: String,
    recorder: Recorder,
    grants: Arc<Grants>,
    errors: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Work {
    async fn one_turn(&self) {
        let attempt = self.recorder.invoke(&self.name);
        let lease = match self.mutex.acquire_within(PATIENCE).await {
            Ok(lease) => lease,
            Err(error) => {
                attempt.failed();
                return self.errors.lock().unwrap().push(error.to_string());
            }
        };
        let now = clock::now();
        attempt.granted(lease.fence().unwrap().get(), now + lease.remaining());
        self.grants.add();
        // The work that is protected.
        tokio::time::sleep(Duration::from_millis(2)).await;
        attempt.release();
        match lease.release().await {
            Ok(()) => attempt.released(),
            Err(error) => self.errors.lock().unwrap().push(error.to_string()),
        }
    }
}

/// Polls until it is so.
async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = clock::now() + PATIENCE;
    while !condition().await {
        assert!(clock::now() < end, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await; // between two checks of the condition
    }
}
