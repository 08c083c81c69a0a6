//! The semaphore on a server: what its keys are, and what their loss means.

use leaselock::{AcquireError, Client};
use testkit::Server;

use crate::support::{LONG, calls, eventually, soon, until_queued};

const USAGE: &str = "{pool}:ll:usage";

/// What is used is counted from the holds: the numbers beside them only save that work.
#[tokio::test]
async fn permits_are_counted_from_the_holds_when_the_usage_is_lost_or_wrong() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let pool = client.semaphore("pool", 4).ttl(LONG);
    let held = [
        pool.acquire_many(2).await.unwrap(),
        pool.acquire().await.unwrap(),
    ];
    server.cli(&["DEL", USAGE]);
    assert!(pool.try_acquire_many(2).await.unwrap().is_none());
    let last = pool.try_acquire().await.unwrap().unwrap();
    for wrong in ["0 0", "0 2", "1 1", "none"] {
        server.cli(&["HSET", USAGE, "sum", wrong]);
        assert!(pool.try_acquire().await.unwrap().is_none(), "{wrong}");
    }
    // What is left of holds that ended without a script goes with the next count.
    server.cli(&[
        "HSET", USAGE, "sum", "0 9", "gone1", "1", "gone2", "2", "gone3", "3", "gone4", "4",
    ]);
    assert!(pool.try_acquire().await.unwrap().is_none());
    assert_eq!(server.cli(&["HGET", USAGE, "gone1"]).text(), None);
    server.cli(&["DEL", USAGE]);
    for permit in held {
        permit.release().await.unwrap();
    }
    assert!(pool.try_acquire_many(4).await.unwrap().is_none());
    last.release().await.unwrap();
    pool.try_acquire_many(4)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn pinning_the_number_of_an_idle_semaphore_keeps_it_for_the_whole_time() {
    let server = Server::start();
    let pool = Client::open(&server.url()).unwrap().semaphore("pool", 4);
    pool.set_permits(9).await.unwrap();
    for permits in [9, 7] {
        server.cli(&["PEXPIRE", USAGE, "60000"]); // as after many days
        pool.set_permits(permits).await.unwrap();
        let left_ms = server.cli(&["PTTL", USAGE]).integer().unwrap();
        assert!(left_ms > 600_000_000, "{permits}: {left_ms}");
    }
}

#[tokio::test]
async fn under_memory_pressure_permits_are_extended_and_released_and_none_is_granted() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let pool = client.semaphore("pool", 2).ttl(LONG);
    let permit = pool.acquire().await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    permit.extend(2 * LONG).await.unwrap();
    let refused = pool.try_acquire().await;
    assert!(
        matches!(refused, Err(AcquireError::Store { .. })),
        "{refused:?}"
    );
    permit.release().await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    pool.acquire_many(2).await.unwrap().release().await.unwrap();
}

/// The key is gone with the last of them, and no script has removed their numbers.
#[tokio::test]
async fn what_crashed_holders_leave_in_the_usage_goes_with_the_next_grant() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let pool = client.semaphore("pool", 9).ttl(LONG);
    let held = [(); 5].map(|()| pool.try_acquire());
    for permit in held {
        std::mem::forget(permit.await.unwrap().unwrap());
    }
    assert_eq!(server.cli(&["HLEN", USAGE]).integer(), Some(7));
    server.cli(&["DEL", "pool"]);
    let permit = pool.acquire_many(9).await.unwrap();
    assert_eq!(server.cli(&["HLEN", USAGE]).integer(), Some(3));
    permit.release().await.unwrap();
}

/// Every request says how many there are, so a new number needs no step of its own.
#[tokio::test]
async fn the_latest_request_says_how_many_permits_there_are() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let (old, new) = (client.semaphore("pool", 1), client.semaphore("pool", 3));
    let (old, new) = (old.ttl(LONG), new.ttl(LONG));
    let one = old.acquire().await.unwrap();
    assert!(old.try_acquire().await.unwrap().is_none());
    let more = [new.acquire().await.unwrap(), new.acquire().await.unwrap()];
    // Fewer take nothing away, and nothing is granted until enough are back.
    assert!(old.try_acquire().await.unwrap().is_none());
    assert!(more.iter().all(|permit| permit.is_held()));
    for permit in more {
        permit.release().await.unwrap();
        assert!(old.try_acquire().await.unwrap().is_none());
    }
    one.release().await.unwrap();
    old.acquire().await.unwrap().release().await.unwrap();
}

/// The hold of a process that was killed: nothing releases it, and the key lives on with the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permits_of_a_holder_that_crashed_come_back_at_their_own_end() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let pool = client.semaphore("pool", 3).ttl(LONG);
    let held = pool.acquire().await.unwrap();
    let time = server.cli(&["TIME"]);
    let part = |at: usize| {
        time.list().unwrap()[at]
            .text()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let ends_us = part(0) * 1_000_000 + part(1) + 500_000;
    let crashed = format!("{}.deadbeef2", "c".repeat(22));
    server.cli(&["ZADD", "pool", &ends_us.to_string(), &crashed]);
    assert!(pool.try_acquire().await.unwrap().is_none());
    let both = soon(pool.acquire_many(2)).await.unwrap();
    assert_eq!(server.cli(&["ZSCORE", "pool", &crashed]).text(), None);
    both.release().await.unwrap();
    held.release().await.unwrap();
}

/// Another library's `SET NX` sees only that there is a key.
#[tokio::test]
async fn the_key_lives_no_longer_than_its_longest_hold() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let pool = client.semaphore("pool", 2).renewal(false);
    let short = pool.clone().ttl(LONG).acquire().await.unwrap();
    let long = pool.ttl(10 * LONG).acquire().await.unwrap();
    let left = || server.cli(&["PTTL", "pool"]).integer().unwrap();
    let most = i64::try_from(LONG.as_millis()).unwrap();
    assert!(left() > 9 * most);
    long.release().await.unwrap();
    assert!((1..=most + 1).contains(&left()), "{}", left());
    short.release().await.unwrap();
    assert_eq!(left(), -2);
}

/// Without the usage a release does not know how many permits there are: it tells the head to poll, which says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_keeps_its_position_when_the_usage_is_lost_before_a_release() {
    let server = Server::start();
    let [one, two] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let pool = one.semaphore("pool", 2).ttl(LONG);
    let held = [pool.acquire().await.unwrap(), pool.acquire().await.unwrap()];
    let waits = two.semaphore("pool", 2).ttl(LONG);
    let waits = tokio::spawn(async move { waits.acquire_many(2).await });
    until_queued(&one, "pool", 1).await;
    // Order, token and the time of the latest poll.
    let entry = || {
        let queue = server.cli(&["ZRANGE", "{pool}:ll:queue", "0", "0"]);
        let entry = queue
            .list()
            .unwrap()
            .first()
            .map(|entry| entry.text().unwrap().to_owned());
        entry.map(|entry| (entry[..16].to_owned(), entry[47..63].to_owned()))
    };
    let (ticket, polled) = entry().unwrap();
    server.cli(&["DEL", USAGE]);
    let [first, last] = held;
    first.release().await.unwrap();
    eventually("it has polled", async || {
        entry().is_some_and(|(_, at)| at > polled)
    })
    .await;
    assert_eq!(entry().unwrap().0, ticket);
    last.release().await.unwrap();
    soon(waits).await.unwrap().unwrap().release().await.unwrap();
}

/// No other fits then. Otherwise a release would ask for every waiter in the queue whether it is alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_reads_no_waiter_behind_the_one_that_takes_the_last_permit() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let pool = client.semaphore("pool", 1).ttl(LONG);
    let held = pool.acquire().await.unwrap();
    let waiters: Vec<_> = (0..8)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.acquire().await.unwrap().release().await })
        })
        .collect();
    until_queued(&client, "pool", 8).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    held.release().await.unwrap();
    for waiter in waiters {
        soon(waiter).await.unwrap().unwrap();
    }
    // A poll asks for the first waiter too, so more of them do no harm here.
    let (asked, scripts) = (calls(&server, "pubsub|numsub"), calls(&server, "evalsha"));
    assert!(asked <= scripts, "{asked} in {scripts} scripts");
}
