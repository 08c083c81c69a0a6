//! What a majority cannot have is refused before anything is sent, with the reason.

use leaselock::interop::Protocol;
use leaselock::limiter::Rate;
use leaselock::{AcquireError, Client, ErrorKind, Mutex};

use super::Nodes;
use crate::support::{LONG, calls, millis};

/// Each must be refused by `validate` too, with the same text.
macro_rules! refused {
    ($reason:literal: $($operation:expr),+ ; $($validated:expr),*) => {
        $(
            let error = $operation.await.map(drop).unwrap_err();
            let text = format!("{error}");
            assert!(text.contains($reason), "{}: {text}", stringify!($operation));
            assert!(text.contains("redis://") || text.contains("one server"), "the way out: {text}");
        )+
        $({
            let error = $validated.clone().validate().map(drop).unwrap_err();
            assert!(error.to_string().contains($reason), "{}: {error}", stringify!($validated));
            let reason = error.unsupported().expect("it is unsupported");
            assert!(!reason.is_empty());
        })*
    };
}

fn sent(nodes: &Nodes) -> usize {
    let one = |server| calls(server, "evalsha") + calls(server, "eval") + calls(server, "scan");
    nodes.0.iter().map(one).sum()
}

#[tokio::test]
async fn what_a_majority_cannot_have_is_refused_before_anything_is_sent() {
    let nodes = Nodes::start(3);
    let client = nodes.quorum();
    let pool = client.semaphore("pool", 3);
    refused!("one permit too many": pool.acquire(), pool.try_acquire(), pool.set_permits(2), pool.permits(); pool);
    let config = client.rwlock("config");
    refused!("no queue": config.read(), config.upgradable_read(); config);
    let election = client.election("scheduler");
    refused!("no one place": election.campaign(), election.leader(); election);
    let mut observer = client.election("scheduler").observe();
    refused!("no one place": observer.changed(););
    let charge = client.once("charge");
    refused!("not on a record": charge.begin(), charge.state(), charge.forget(); charge);
    let nightly = client.cron("nightly");
    let tick = std::time::UNIX_EPOCH + LONG;
    refused!("not on a record": nightly.claim(tick), nightly.state(); nightly);
    let latch = client.latch("ready", 2);
    refused!("not one sum": latch.arrive("a"), latch.wait(), latch.state(); latch);
    let barrier = client.barrier("phase", 2);
    refused!("not one sum": barrier.wait(); barrier);
    let limiter = client.limiter("api", Rate::new(5, LONG));
    refused!("not one sum": limiter.acquire(), limiter.try_acquire(); limiter);
    let counter = client.counter("visits");
    refused!("not one sum": counter.incr(), counter.get(); counter);
    refused!("no majority agrees": client.list("*"););
    let mutex = || client.mutex("job");
    refused!("priority": mutex().priority(1).acquire(); mutex().priority(1));
    let copies = || mutex().min_replicas(1, millis(10));
    refused!("min_replicas": copies().acquire(); copies());
    let fsynced = || mutex().fsynced(0, millis(10));
    refused!("fsynced": fsynced().acquire(); fsynced());
    let redlock = || mutex().protocol(Protocol::WatchMulti);
    refused!("protocol": redlock().acquire(); redlock());
    assert_eq!(sent(&nodes), 0, "nothing was sent");

    let strict = nodes.builder().strict(LONG).open().unwrap_err();
    assert!(strict.to_string().contains("strict mode"), "{strict}");
    let status = client.strict_status().await.unwrap_err();
    assert_eq!(status.kind(), ErrorKind::Unsupported);
    assert_eq!(client.session_descriptor().map(drop), None);
    let AcquireError::Invalid(refused) = pool.acquire().await.unwrap_err() else {
        panic!("it is refused as it stands")
    };
    assert_eq!(
        refused.unsupported(),
        Some(
            "two majorities may have one server in common, so one permit too many could be granted"
        )
    );
}

/// The same code serves a store and a majority, as a configuration value decides.
#[tokio::test]
async fn one_function_serves_one_store_and_a_majority() {
    async fn settles(client: &Client) {
        let mutex: Mutex = client.mutex("job").ttl(LONG);
        let lease = mutex.acquire().await.unwrap();
        assert!(mutex.try_acquire().await.unwrap().is_none());
        lease.release().await.unwrap();
    }
    let nodes = Nodes::start(3);
    settles(&nodes.quorum()).await;
    settles(&Client::open("mem:").unwrap()).await;
    settles(&Client::connect(&nodes.0[0].url()).await.unwrap()).await;
}

#[tokio::test]
async fn a_majority_that_replies_is_connected_and_one_that_does_not_is_an_error_within_two_seconds()
{
    let mut nodes = Nodes::start(3);
    let urls = nodes.urls().join(" ");
    let client = Client::connect(&urls).await.unwrap();
    nodes.0.truncate(2);
    client.ping().await.unwrap();
    assert!(Client::connect(&urls).await.is_ok(), "two of three");
    nodes.0.truncate(1);
    let error = client.ping().await.unwrap_err();
    assert_eq!(error.votes().len(), 3, "{error}");
    let error = Client::connect(&urls).await.unwrap_err();
    assert!(
        matches!(error, leaselock::error::RequestError::Store(_)),
        "{error}"
    );
}
