//! Owners: what they cost, and what their guards ask of the lease together.

use std::sync::mpsc;
use std::thread;

use leaselock::detached::Handle;
use leaselock::once::OnceStart;
use leaselock::{AcquireError, Client, Lease, LeaseError};
use testkit::Server;

use crate::support::{LONG, PATIENCE, calls, eventually, introduced, millis, pttl, soon};

fn scripts(server: &Server) -> usize {
    calls(server, "evalsha") + calls(server, "eval") + calls(server, "fcall")
}

#[tokio::test]
async fn a_pair_within_a_pair_costs_no_request() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let me = client.owner("import 42");
    let mutex = client.mutex("job").ttl(LONG).owner(&me);
    mutex.acquire().await.unwrap().release().await.unwrap(); // both scripts are loaded then
    let outer = mutex.acquire().await.unwrap();
    introduced(&server, &client).await;
    let before = scripts(&server);
    for _ in 0..10_000 {
        let inner = mutex.acquire().await.unwrap();
        inner.release().await.unwrap();
    }
    assert_eq!(scripts(&server), before);
    outer.release().await.unwrap();
    assert_eq!(scripts(&server), before + 1);
    assert_eq!(pttl(&server, "job"), -2);
}

/// Of the living ones: what a guard asked for ends with it.
#[tokio::test]
async fn a_lease_is_renewed_for_the_longest_ttl_of_its_guards_and_for_the_shortest_hold() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let me = client.owner("import 42");
    let mutex = client.mutex("job").ttl(LONG / 2).owner(&me);
    let outer = mutex.acquire().await.unwrap();
    let longer = mutex.clone().ttl(10 * LONG).acquire().await.unwrap();
    eventually("it is renewed for the longer one", async || {
        pttl(&server, "job") > 60_000 && outer.remaining() > 2 * LONG
    })
    .await;
    longer.extend(LONG / 4).await.unwrap();
    assert_eq!(outer.ttl(), LONG / 2, "that of the other guard");
    drop(longer);
    let bounded = mutex.clone().ttl(LONG / 4).max_hold(LONG / 4);
    let bounded = bounded.acquire().await.unwrap();
    assert!(outer.remaining() <= LONG / 4 && outer.ttl() == LONG / 2);
    drop(bounded);
    eventually("it is held longer again", async || {
        outer.remaining() > LONG / 4
    })
    .await;
    outer.release().await.unwrap();
}

#[tokio::test]
async fn a_hold_without_renewal_is_renewed_once_a_guard_asks_for_it() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let me = client.owner("import 42");
    let mutex = client.mutex("job").ttl(millis(400)).owner(&me);
    let outer = mutex.clone().renewal(false).acquire().await.unwrap();
    let inner = mutex.acquire().await.unwrap();
    let deadline = outer.deadline();
    eventually("a renewal", async || outer.deadline() > deadline).await;
    drop(inner);
    soon(outer.lost()).await;
}

#[tokio::test]
async fn a_guard_promises_nothing_that_the_hold_does_not_have() {
    let client = Client::open("mem:").unwrap();
    let other = Client::open("mem:").unwrap();
    let me = client.owner("import 42");
    let mutex = client.mutex("job").ttl(LONG).owner(&me);
    let outer = mutex.clone().fencing(false).acquire().await.unwrap();
    let says = |error: AcquireError| {
        assert!(matches!(error, AcquireError::Invalid(_)), "{error:?}");
        error.to_string()
    };
    assert!(says(mutex.acquire().await.unwrap_err()).contains("without a fencing token"));
    let copied = mutex.clone().fencing(false).min_replicas(1, millis(100));
    let refused = says(copied.acquire().await.unwrap_err());
    assert!(refused.contains("replicas"), "{refused}");
    let foreign = other.mutex("job").owner(&me);
    assert!(says(foreign.acquire().await.unwrap_err()).contains("of another client"));
    let bad = client.owner("a\nb");
    assert!(
        says(client.mutex("x").owner(&bad).acquire().await.unwrap_err())
            .contains("no control characters")
    );
    outer.release().await.unwrap();
}

/// It would end the lease for guards that are not asked.
#[tokio::test]
async fn a_lease_with_other_guards_is_not_detached() {
    let client = Client::open("mem:").unwrap();
    let me = client.owner("import 42");
    let mutex = client.mutex("job").ttl(LONG).owner(&me);
    let outer = mutex.acquire().await.unwrap();
    let inner = mutex.acquire().await.unwrap();
    let refused = inner.detach().await.unwrap_err().to_string();
    assert!(refused.contains("other guards"), "{refused}");
    assert!(outer.is_held());
    let handle = outer.detach().await.unwrap();
    assert!(
        mutex.try_acquire().await.unwrap().is_none(),
        "it is no hold of the owner any more"
    );
    client.attach(handle).release().await.unwrap();
}

/// Another process may hold it by then.
#[tokio::test]
async fn every_guard_of_a_lease_that_was_taken_away_says_so_when_it_is_released() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let me = client.owner("import 42");
    let mutex = client.mutex("job").ttl(LONG).owner(&me);
    let guards: [Lease; 3] = [
        mutex.acquire().await.unwrap(),
        mutex.acquire().await.unwrap(),
        mutex.acquire().await.unwrap(),
    ];
    server.cli(&["DEL", "job"]);
    guards[1].extend(LONG).await.unwrap_err();
    for guard in guards {
        guard.release().await.unwrap_err();
    }
    mutex.acquire().await.unwrap().release().await.unwrap();
}

/// The borrower extends it to more than the lender's ttl.
async fn is_lent(handle: Result<Handle, LeaseError>, borrower: &Client, server: &Server) {
    let lent = borrower.attach(handle.unwrap());
    lent.extend(2 * LONG).await.unwrap();
    assert!(
        pttl(server, lent.handle().name().as_str()) > 60_000,
        "{lent:?}"
    );
}

#[tokio::test]
async fn a_lease_of_every_mode_can_be_lent() {
    let server = Server::start();
    let [one, two] = [0, 1].map(|_| Client::open(&server.url()).unwrap());
    let lock = |name: &str| one.rwlock(name).ttl(LONG);
    let mutex = one.mutex("mutex").ttl(LONG).acquire().await.unwrap();
    let writing = lock("writing").write().await.unwrap();
    let reading = lock("reading").read().await.unwrap();
    let upgradable = lock("upgradable").upgradable_read().await.unwrap();
    let pool = one.semaphore("pool", 3).ttl(LONG);
    let permits = pool.acquire_many(2).await.unwrap();
    let leading = one.election("job").ttl(LONG).campaign().await.unwrap();
    let OnceStart::Run(run) = one.once("once").ttl(LONG).begin().await.unwrap() else {
        panic!("it has run")
    };
    is_lent(run.lend(), &two, &server).await;
    is_lent(mutex.lend(), &two, &server).await;
    is_lent(writing.lend(), &two, &server).await;
    is_lent(reading.lend(), &two, &server).await;
    is_lent(upgradable.lend(), &two, &server).await;
    is_lent(permits.lend(), &two, &server).await;
    is_lent(leading.lend(), &two, &server).await;
    reading.release().await.unwrap();
    permits.release().await.unwrap();
    leading.release().await.unwrap();
    for name in ["reading", "pool", "job"] {
        assert_eq!(
            pttl(&server, name),
            -2,
            "{name}: the lender ends it for all"
        );
    }
}

/// A hook that is called under the owner's lock waits for itself.
#[test]
fn a_hook_may_use_its_own_owner() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let (told, hears) = mpsc::channel();
    // A thread that waits for itself is not waited for.
    thread::spawn(move || {
        client.block_on(async {
            let me = client.owner("import 42");
            let mutex = client.mutex("job").ttl(LONG).owner(&me);
            let outer = mutex.acquire().await.unwrap();
            outer.on_deadline(move |_| drop(me.to_inherit()));
            let inner = mutex.clone().ttl(2 * LONG).acquire().await.unwrap();
            inner.release().await.unwrap();
            outer.release().await.unwrap();
        });
        told.send(()).unwrap();
    });
    hears.recv_timeout(PATIENCE).expect("all of it returns");
}
