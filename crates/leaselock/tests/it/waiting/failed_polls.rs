//! What `on_wait` is told when polls fail: a wait goes on, and its caller knows with which trouble.

use std::sync::{Arc, Mutex};

use leaselock::ErrorKind;
use leaselock::interop::Protocol;
use leaselock::options::Waiting;
use testkit::Server;

use crate::quorum::Nodes;
use crate::support::{LONG, eventually, millis};

type Told = Arc<Mutex<Vec<Waiting>>>;

/// Waits in the background, and keeps what it is told.
fn waits(mutex: leaselock::Mutex) -> (Told, tokio::task::JoinHandle<()>) {
    let told = Told::default();
    let ear = Arc::clone(&told);
    let mutex = mutex
        .ttl(LONG)
        .on_wait(move |waiting| ear.lock().unwrap().push(waiting.clone()));
    let task = tokio::spawn(async move { drop(mutex.acquire().await) });
    (told, task)
}

async fn has_heard(told: &Told, what: &str, fits: impl Fn(&Waiting) -> bool) -> Waiting {
    eventually(what, async || told.lock().unwrap().iter().any(&fits)).await;
    let told = told.lock().unwrap();
    told.iter().rfind(|waiting| fits(waiting)).unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_poll_is_told_with_its_error_and_what_was_known_before() {
    let server = Server::start();
    let holder = leaselock::Client::open(&server.url()).unwrap();
    let lease = holder.mutex("job").ttl(LONG).acquire().await.unwrap();
    let builder = || {
        leaselock::Client::builder()
            .url(&server.url())
            .request_timeout(millis(300))
    };
    // Alone, together with another task of the client, and in a way that has no queue.
    let (alone, together, foreign) = (
        builder().open().unwrap(),
        builder().open().unwrap(),
        builder().open().unwrap(),
    );
    let waiters = [
        waits(alone.mutex("job")),
        waits(together.mutex("job")),
        waits(together.mutex("job")),
        waits(foreign.mutex("job").protocol(Protocol::SetnxPexpire)),
    ];
    for (told, _) in &waiters {
        let first = has_heard(told, "an answer", |waiting| waiting.error.is_none()).await;
        assert!(first.position > 0);
    }
    let paused = server.pause();
    for (told, _) in &waiters {
        let failed = has_heard(told, "a failure", |waiting| waiting.error.is_some()).await;
        assert_eq!(failed.error.unwrap().kind(), ErrorKind::NoReply);
        assert!(failed.position > 0 && failed.remaining.is_none());
    }
    let before: Vec<usize> = waiters
        .iter()
        .map(|(told, _)| told.lock().unwrap().len())
        .collect();
    drop(paused);
    for ((told, _), before) in waiters.iter().zip(before) {
        eventually("an answer after it", async || {
            told.lock().unwrap()[before..]
                .iter()
                .any(|waiting| waiting.error.is_none())
        })
        .await;
    }
    for (_, task) in waiters {
        task.abort();
    }
    lease.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vote_that_finds_no_majority_is_told_with_its_error() {
    let nodes = Nodes::start(3);
    let holder = nodes.quorum();
    let lease = holder
        .mutex("job")
        .ttl(millis(3_000))
        .acquire()
        .await
        .unwrap();
    let waiting = nodes
        .builder()
        .node_timeout(millis(300))
        .request_timeout(millis(600))
        .open()
        .unwrap();
    let (told, task) = waits(waiting.mutex("job"));
    has_heard(&told, "an answer", |waiting| waiting.error.is_none()).await;
    nodes.0[0].kill();
    nodes.0[1].kill();
    let failed = has_heard(&told, "a failure", |waiting| waiting.error.is_some()).await;
    assert_eq!(failed.error.unwrap().votes().len(), 3);
    assert_eq!(failed.position, 1);
    task.abort();
    drop(lease);
}
