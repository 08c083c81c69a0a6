//! Servers that are not there.

use leaselock::clock::Clock;
use leaselock::{AcquireError, Client, ErrorKind};
use testkit::{Fault, Proxy, Server, Way};

use crate::support::{LONG, eventually, leftovers, millis, soon};

/// A port that a server had and none has.
fn nobody() -> String {
    let server = Server::start();
    server.url()
}

fn kind_of(error: &AcquireError) -> ErrorKind {
    match error {
        AcquireError::Store { source, .. } | AcquireError::Unknown { source, .. } => source.kind(),
        other => panic!("{other:?}"),
    }
}

/// The bounds are promises about time: at least as long as asked for, and by far not as long as a lease.
#[tokio::test]
async fn a_server_that_is_down_is_unreachable_after_the_wait_that_was_asked_for() {
    let client = Client::open(&nobody()).unwrap();
    let mutex = client.mutex("job").ttl(LONG);
    let clock = Clock::boot();
    let took = async |outcome: &mut dyn FnMut() -> std::pin::Pin<
        Box<dyn Future<Output = Result<(), AcquireError>>>,
    >| {
        let start = clock.now();
        let error = soon(outcome()).await.unwrap_err();
        assert!(
            matches!(error, AcquireError::Store { .. }),
            "surely nothing is held: {error:?}"
        );
        assert_eq!(kind_of(&error), ErrorKind::Unreachable);
        assert!(error.to_string().contains("job"), "{error}");
        clock.now().saturating_since(start)
    };
    let (one, two, three) = (mutex.clone(), mutex.clone(), mutex.clone());
    let tried = took(&mut move || {
        let mutex = one.clone();
        Box::pin(async move { mutex.try_acquire().await.map(drop) })
    })
    .await;
    let bounded = took(&mut move || {
        let mutex = two.clone();
        Box::pin(async move { mutex.acquire_within(millis(300)).await.map(drop) })
    })
    .await;
    let patient = took(&mut move || {
        let mutex = three.clone();
        Box::pin(async move { mutex.acquire().await.map(drop) })
    })
    .await;
    println!("try {tried:?}, within 300 ms {bounded:?}, for ever {patient:?}");
    assert!(bounded >= millis(300), "{bounded:?}");
    assert!(patient >= millis(2_000), "{patient:?}");
    assert!(tried < patient && bounded < patient);
}

/// L3: whatever the network does, a bounded wait overshoots by one request timeout. The bound has a second to spare
/// for a slow machine; without a bound on what the last request may take it would be missed by more.
#[tokio::test]
async fn a_bounded_wait_overshoots_by_one_request_at_most() {
    let server = Server::start();
    let clock = Clock::boot();
    let (limit, request) = (millis(100), millis(2_000));
    for is_queued in [false, true] {
        let proxy = Proxy::to(server.port());
        let client = Client::builder()
            .url(&proxy.url())
            .request_timeout(request)
            .open()
            .unwrap();
        let looking = Client::open(&server.url()).unwrap();
        server.cli(&["SET", "job", "theirs"]); // behind a foreign holder the head polls often, so a poll is under way
        let limit = if is_queued { 10 * limit } else { limit };
        if !is_queued {
            proxy.set(Way::Both, Fault::HalfOpen);
        }
        let mutex = client.mutex("job").ttl(LONG);
        let start = clock.now();
        let waiting = tokio::spawn(async move { mutex.acquire_within(limit).await });
        if is_queued {
            crate::support::until_queued(&looking, "job", 1).await;
            proxy.set(Way::Both, Fault::HalfOpen);
        }
        let error = soon(waiting).await.unwrap().unwrap_err();
        let took = clock.now().saturating_since(start);
        assert!(
            !matches!(error, AcquireError::TimedOut { .. }),
            "nobody knows: {error:?}"
        );
        println!("queued {is_queued}: {took:?}");
        assert!(
            took >= limit && took < limit + request + millis(1_000),
            "{took:?}"
        );
    }
}

#[tokio::test]
async fn a_client_that_was_built_before_its_server_was_up_works_when_it_is() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    server.kill();
    let error = soon(client.mutex("job").try_acquire()).await.unwrap_err();
    assert_eq!(kind_of(&error), ErrorKind::Unreachable);
    let mutex = client.mutex("job").ttl(LONG);
    let waiting = tokio::spawn(async move { mutex.acquire_within(LONG).await });
    server.restart();
    soon(waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    assert_eq!(leftovers(&server), [""; 0]);
}

#[tokio::test]
async fn every_operation_says_that_the_server_is_gone_and_a_lease_is_held_until_its_deadline() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let mutex = client.mutex("job").ttl(millis(2_000));
    let (one, two) = (
        mutex.acquire().await.unwrap(),
        client.mutex("b").acquire().await.unwrap(),
    );
    let other = client.mutex("c").acquire().await.unwrap();
    server.kill();
    assert!(one.extend(millis(2_000)).await.is_err() && one.is_held());
    assert!(soon(two.release()).await.is_err());
    assert!(soon(other.detach()).await.is_err());
    assert!(soon(client.inspect("job")).await.is_err());
    assert!(soon(client.list("*")).await.is_err());
    assert!(soon(client.mutex("job").holder()).await.is_err());
    let lost = soon(one.lost()).await;
    assert_eq!(lost.reason, leaselock::LostReason::StoreUnreachable);
    eventually("it counts nothing as held", async || {
        client.held().is_empty()
    })
    .await;
}
