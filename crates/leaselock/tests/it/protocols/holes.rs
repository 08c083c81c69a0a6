//! The hole of each way, shown: why the native one is the default.

use std::time::Duration;

use leaselock::interop::{DEFAULT_LATENCY_GUARD, Protocol};
use leaselock::{AcquireError, Client, ErrorKind, Lost, LostReason, ReleaseError};
use testkit::{Fault, Proxy, Server, Way};

use super::job;
use crate::support::{LONG, eventually, millis, pttl, soon};

const SECOND: Duration = Duration::from_secs(1);

fn client(server: &Server) -> Client {
    Client::open(&server.url()).unwrap()
}

/// The server's clock: here as good as any other.
fn unix_ms(server: &Server) -> u128 {
    let time = server.cli(&["TIME"]);
    let part = |at: usize| {
        time.list().unwrap()[at]
            .text()
            .unwrap()
            .parse::<u128>()
            .unwrap()
    };
    part(0) * 1000 + part(1) / 1000
}

/// What lies under a key.
fn value(server: &Server, key: &str) -> Option<String> {
    server.cli(&["GET", key]).text().map(str::to_owned)
}

/// A member of the fleet that does just what the way says, with a clock that is two minutes ahead.
#[tokio::test]
async fn setnx_getset_lets_two_in_when_a_clock_is_ahead() {
    let server = Server::start();
    let lease = job(&client(&server), Protocol::SetnxGetset)
        .acquire()
        .await
        .unwrap();
    let its_now = unix_ms(&server) + 120_000;
    let mine = (its_now + 10_000).to_string();
    assert_eq!(server.cli(&["SETNX", "job", &mine]).integer(), Some(0));
    let seen: u128 = value(&server, "job").unwrap().parse().unwrap();
    assert!(seen < its_now, "to that clock it has ended");
    let before = server.cli(&["GETSET", "job", &mine]);
    assert_eq!(
        before.text().unwrap().parse(),
        Ok(seen),
        "so it has taken over"
    );
    assert!(lease.is_held(), "and the first one holds as well");
}

#[tokio::test]
async fn setnx_getset_takes_over_a_lock_whose_time_has_passed_and_waits_for_one_whose_time_has_not()
{
    let server = Server::start();
    let lock = job(&client(&server), Protocol::SetnxGetset);
    server.cli(&["SET", "job", &(unix_ms(&server) + 60_000).to_string()]);
    assert!(lock.try_acquire().await.unwrap().is_none());
    server.cli(&["SET", "job", &format!("{}.25", unix_ms(&server) - 1)]); // some write fractions
    let lease = lock.try_acquire().await.unwrap().unwrap();
    lease.release().await.unwrap();
    assert_eq!(value(&server, "job"), None);
    server.cli(&["SET", "job", "a token"]);
    let refusal = lock.try_acquire().await.unwrap_err();
    let AcquireError::Store { source, .. } = &refusal else {
        panic!("{refusal:?}");
    };
    assert_eq!(source.kind(), ErrorKind::WrongType);
    assert_eq!(value(&server, "job").as_deref(), Some("a token"));
}

/// The unlock begins when `left` of the lease is left, is on its way when the lock ends, and arrives when another has
/// it. True: that one's lock is still there.
async fn a_late_unlock_spares_the_next_holder(protocol: Protocol, left: Duration) -> bool {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let builder = Client::builder().url(&proxy.url());
    let slow = builder.request_timeout(LONG).open().unwrap();
    let lock = job(&slow, protocol).ttl(2 * SECOND).renewal(false);
    let lease = lock.acquire().await.unwrap();
    eventually("so much is left", async || lease.remaining() < left).await;
    proxy.set(Way::ToServer, Fault::Hold);
    let releasing = tokio::spawn(lease.release());
    let other = job(&client(&server), protocol);
    let next = soon(other.acquire()).await.unwrap();
    proxy.heal();
    drop(soon(releasing).await.unwrap());
    let spared = other.holder().await.unwrap().is_some();
    drop(next);
    spared
}

#[tokio::test]
async fn setex_renamenx_deletes_the_lock_of_the_next_holder_when_its_unlock_is_late() {
    let unguarded = Protocol::SetexRenamenx {
        latency_guard: Duration::ZERO,
    };
    assert!(!a_late_unlock_spares_the_next_holder(unguarded, LONG).await);
}

#[tokio::test]
async fn the_latency_guard_of_setex_renamenx_leaves_a_lock_alone_that_is_about_to_end() {
    let left = DEFAULT_LATENCY_GUARD - millis(50);
    assert!(a_late_unlock_spares_the_next_holder(Protocol::setex_renamenx(), left).await);
}

#[tokio::test]
async fn a_late_unlock_of_the_ways_that_compare_spares_the_next_holder() {
    for protocol in [
        Protocol::Native,
        Protocol::WatchMulti,
        Protocol::SetnxPexpire,
        Protocol::PythonRedisLock,
        Protocol::Redisson,
    ] {
        assert!(
            a_late_unlock_spares_the_next_holder(protocol, LONG).await,
            "{protocol}"
        );
    }
}

/// Two locks on one connection: the second one's transaction forgets what the first one watches.
#[tokio::test]
async fn a_watch_is_broken_by_a_second_use_of_its_connection() {
    let server = Server::start();
    let redis = redis::Client::open(server.url()).unwrap();
    let mut shared = redis.get_multiplexed_async_connection().await.unwrap();
    server.cli(&["SET", "job", "mine"]);
    let mut say = async |words: &str| -> redis::Value {
        let mut command = redis::Cmd::new();
        for word in words.split(' ') {
            command.arg(word);
        }
        command.query_async(&mut shared).await.unwrap()
    };
    say("WATCH job").await;
    say("GET job").await; // mine, so it may be deleted
    for words in ["MULTI", "DEL another", "EXEC"] {
        say(words).await; // the second use
    }
    server.cli(&["SET", "job", "the next holder's"]);
    for words in ["MULTI", "DEL job", "EXEC"] {
        say(words).await;
    }
    assert_eq!(value(&server, "job"), None, "another's lock is gone");
}

#[tokio::test]
async fn watch_multi_has_a_connection_for_each_lock_and_says_when_there_are_too_many() {
    let server = Server::start();
    let ours = client(&server);
    let lock = |number: usize| {
        let name = format!("job{number}");
        ours.mutex(name).protocol(Protocol::WatchMulti).ttl(LONG)
    };
    let mut leases = Vec::new();
    for number in 0..64 {
        leases.push(lock(number).try_acquire().await.unwrap().unwrap());
    }
    let refusal = lock(64).try_acquire().await.unwrap_err().to_string();
    assert!(
        refusal.contains("64") && refusal.contains("setex-renamenx"),
        "{refusal}"
    );
    leases.pop().unwrap().release().await.unwrap();
    lock(64)
        .try_acquire()
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    // Broken by an operator, or taken after its end: read, and left alone.
    server.cli(&["SET", "job7:real_lock", "the next holder's"]);
    let taken = leases.remove(7).release().await.unwrap_err();
    assert!(matches!(
        taken,
        ReleaseError::NotHeld(Lost {
            reason: LostReason::TakenOver,
            ..
        })
    ));
    assert!(value(&server, "job7:real_lock").is_some());
}

/// What `SETNX` and `EXPIRE` leave as two commands when their sender dies in between.
#[tokio::test]
async fn a_lock_set_without_its_end_is_held_for_ever_unless_both_are_one_step() {
    let server = Server::start();
    let ours = client(&server);
    server.cli(&["SETNX", "job", "of one who died"]);
    assert_eq!(pttl(&server, "job"), -1);
    let lock = job(&ours, Protocol::SetnxPexpire);
    let busy = lock.acquire_within(millis(500)).await;
    assert!(matches!(busy, Err(AcquireError::TimedOut { .. })));
    assert_eq!(lock.holder().await.unwrap().unwrap().remaining, None);
    server.cli(&["DEL", "job"]);
    let lease = lock.acquire().await.unwrap();
    assert!(
        pttl(&server, "job") > 0,
        "as one step it has an end from the beginning"
    );
    lease.release().await.unwrap();
}
