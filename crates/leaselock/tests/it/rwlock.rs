//! The read-write lock on a server: what its keys and its commands are.

use leaselock::lease::Shared;
use leaselock::{AcquireError, Client, Lease, LeaseError, ReleaseError};
use testkit::Server;
use tokio::task::JoinHandle;

use crate::support::{LONG, calls, soon, until_queued};

fn reader(client: &Client) -> JoinHandle<Result<Lease<Shared>, AcquireError>> {
    let lock = client.rwlock("config").ttl(LONG);
    tokio::spawn(async move { lock.read().await })
}

fn clients<const N: usize>(server: &Server) -> [Client; N] {
    [(); N].map(|()| Client::open(&server.url()).unwrap())
}

/// How many requests found that they have to wait, in the scripts of the read-write lock.
fn polls(server: &Server) -> usize {
    calls(server, "zrank")
}

/// Another library's `SET NX` sees only that there is a key.
#[tokio::test]
async fn the_key_lives_no_longer_than_its_longest_hold() {
    let server = Server::start();
    let [client] = clients(&server);
    let lock = client.rwlock("config").renewal(false);
    let short = lock.clone().ttl(LONG).read().await.unwrap();
    let long = lock.ttl(10 * LONG).read().await.unwrap();
    let left = || server.cli(&["PTTL", "config"]).integer().unwrap();
    let most = i64::try_from(LONG.as_millis()).unwrap();
    assert!(left() > 9 * most);
    long.release().await.unwrap();
    assert!((1..=most + 1).contains(&left()), "{}", left());
    short.release().await.unwrap();
    assert_eq!(left(), -2);
}

/// A script that is late, or a clock that steps back, must not bring a hold to life again that others may have seen end.
#[tokio::test]
async fn an_expired_read_is_lost_although_it_is_still_in_the_set() {
    let server = Server::start();
    let [one, two] = clients(&server);
    let reader = one.rwlock("config").ttl(LONG).read().await.unwrap();
    let other = two.rwlock("config").ttl(LONG).read().await.unwrap();
    let members = server.cli(&["ZRANGE", "config", "1", "1"]);
    let token = members.list().unwrap()[0].text().unwrap().to_owned();
    server.cli(&["ZADD", "config", "XX", "1", &token]);
    let extended = reader.extend(LONG).await;
    assert!(matches!(extended, Err(LeaseError::Lost(_))), "{extended:?}");
    assert!(!reader.is_held() && other.is_held());
    // Nor is it released as if it had been held.
    let members = server.cli(&["ZRANGE", "config", "-1", "-1"]);
    let token = members.list().unwrap()[0].text().unwrap().to_owned();
    server.cli(&["ZADD", "config", "XX", "1", &token]);
    let released = other.release().await;
    assert!(
        matches!(released, Err(ReleaseError::NotHeld(_))),
        "{released:?}"
    );
}

/// Seen from the second time on: at the first one each client finds out whether it may publish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_lets_in_many_readers_by_one_message_each_and_none_of_them_polls() {
    let server = Server::start();
    let [one, two, three] = clients(&server);
    let counts = || (polls(&server), calls(&server, "publish"));
    for round in 0..3 {
        let writer = one.rwlock("config").ttl(LONG).write().await.unwrap();
        let readers = [&two, &three, &two, &three].map(reader);
        until_queued(&one, "config", 4).await;
        let before = counts();
        writer.release().await.unwrap();
        let mut held = Vec::new();
        for reader in readers {
            held.push(soon(reader).await.unwrap().unwrap());
        }
        let after = counts();
        if round > 0 {
            assert_eq!((after.0 - before.0, after.1 - before.1), (0, 4));
        }
        for reader in held {
            reader.release().await.unwrap();
        }
    }
}

/// Its read is extended meanwhile; the renewals are its only other requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_waits_costs_one_request_and_one_message() {
    let server = Server::start();
    let [one, two] = clients(&server);
    let counts = || (polls(&server), calls(&server, "publish"));
    for round in 0..3 {
        let other = one.rwlock("config").ttl(LONG).read().await.unwrap();
        let up = two.rwlock("config").ttl(LONG).upgradable_read().await;
        let before = polls(&server);
        let upgrade = tokio::spawn(up.unwrap().upgrade());
        until_queued(&one, "config", 1).await;
        let waiting = counts();
        other.release().await.unwrap();
        let writing = soon(upgrade).await.unwrap().unwrap();
        let after = counts();
        if round > 0 {
            assert_eq!(waiting.0 - before, 1);
            assert_eq!((after.0 - waiting.0, after.1 - waiting.1), (0, 1));
        }
        writing.release().await.unwrap();
    }
}

#[tokio::test]
async fn under_memory_pressure_reads_are_extended_and_released_and_none_is_granted() {
    let server = Server::start();
    let [client] = clients(&server);
    let lock = client.rwlock("config").ttl(LONG);
    let readers = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for reader in readers {
        reader.extend(2 * LONG).await.unwrap();
        assert!(lock.try_read().await.is_err());
        reader.release().await.unwrap();
    }
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    lock.write().await.unwrap().release().await.unwrap();
}

/// The mutex of that name meets a set where it expects a string, also in a call for many names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mutex_and_its_batch_leave_the_readers_and_their_fence_alone() {
    let server = Server::start();
    let [one, two] = clients(&server);
    let names: Vec<String> = (0..32).map(|number| format!("config-{number}")).collect();
    let mut readers = Vec::new();
    for name in &names {
        readers.push(one.rwlock(name).ttl(LONG).read().await.unwrap());
    }
    let mut tries = Vec::new();
    for name in &names {
        let mutex = two.mutex(name);
        tries.push(tokio::spawn(async move { mutex.try_acquire().await }));
    }
    for tried in tries {
        assert!(tried.await.unwrap().unwrap().is_none());
    }
    for (name, first) in names.iter().zip(&readers) {
        let second = two.rwlock(name).ttl(LONG).read().await.unwrap();
        assert!(first.is_held() && second.fence() == first.fence(), "{name}");
    }
}
