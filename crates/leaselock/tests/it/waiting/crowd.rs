//! Many waiters on one name.

use std::sync::{Arc, Mutex};

use leaselock::Client;
use testkit::{Server, clock};

use crate::support::{BEFORE_A_POLL, LONG, calls, leftovers, soon, until_queued};

/// Each has a client of its own, because the tasks of one client share a place.
const WAITERS: usize = 48;

/// They join the queue one after the other; each writes its number down before it lets go. The lease is longer than the
/// test, so only hand-overs move the queue, and a lost one would break the order or take a poll's time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_are_served_in_exactly_the_order_in_which_they_came() {
    let server = Server::start();
    let clients: Vec<Client> = (0..WAITERS)
        .map(|_| Client::open(&server.url()).unwrap())
        .collect();
    let lease = clients[0].mutex("job").ttl(LONG).acquire().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::with_capacity(WAITERS)));
    let mut waiters = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        let mutex = client.mutex("job").ttl(LONG);
        let served = Arc::clone(&served);
        waiters.push(tokio::spawn(async move {
            let lease = mutex.acquire().await.unwrap();
            served
                .lock()
                .unwrap()
                .push((number, lease.fence().unwrap()));
            lease.release().await.unwrap();
        }));
        until_queued(&clients[0], "job", number + 1).await;
    }
    server.cli(&["CONFIG", "RESETSTAT"]);
    let start = clock::now();
    lease.release().await.unwrap();
    for waiter in waiters {
        soon(waiter).await.unwrap();
    }
    let took = clock::now() - start;
    let (order, fences): (Vec<_>, Vec<_>) = served.lock().unwrap().iter().copied().unzip();
    assert_eq!(order, (0..WAITERS).collect::<Vec<_>>());
    assert!(fences.is_sorted(), "{fences:?}");
    assert!(took < BEFORE_A_POLL, "{took:?}: one lost message is enough");
    let scripts = calls(&server, "evalsha") + calls(&server, "eval");
    // A release each; the release of the first holder; and rare polls, by timer or to confirm.
    let hundredths = 100 * scripts / WAITERS;
    println!("{WAITERS} hand-overs in {took:?}, {hundredths} scripts per hundred");
    assert!((WAITERS..=3 * WAITERS).contains(&scripts), "{scripts}");
    assert_eq!(leftovers(&server), [""; 0]);
}
