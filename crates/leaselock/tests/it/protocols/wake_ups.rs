//! Waiters of python-redis-lock and Redisson are woken by our releases, and ours by theirs, without asking again and
//! again. The others are played by commands that say on the wire what those libraries say.

use leaselock::clock::Clock;
use leaselock::error::BreakError;
use leaselock::inspect::BreakOptions;
use leaselock::interop::Protocol;
use leaselock::{AcquireError, Client, Lease};
use redis::aio::MultiplexedConnection;
use testkit::Server;
use testkit::resp::Connection;
use tokio::task::JoinHandle;

use super::job;
use crate::engine::shared_cluster;
use crate::support::{LONG, by_message, calls, channels, eventually, soon};

fn waiter(client: &Client, protocol: Protocol) -> JoinHandle<Result<Lease, AcquireError>> {
    let lock = job(client, protocol);
    tokio::spawn(async move { lock.acquire().await })
}

async fn raw(server: &Server) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    connecting.await.unwrap()
}

/// So many connections block on a list.
async fn blocked(server: &Server, count: usize) {
    let wanted = format!("blocked_clients:{count}\r");
    eventually("they block", async || {
        server
            .cli(&["INFO", "clients"])
            .text()
            .unwrap()
            .contains(&wanted)
    })
    .await;
}

/// As python-redis-lock does it: the list anew with one element, which ends after a second, and the lock deleted.
fn release_as_python_does(server: &Server) {
    server.cli(&["DEL", "lock-signal:job"]);
    server.cli(&["LPUSH", "lock-signal:job", "1"]);
    server.cli(&["PEXPIRE", "lock-signal:job", "1000"]);
    server.cli(&["DEL", "lock:job"]);
}

#[tokio::test]
async fn a_waiter_of_python_redis_lock_wakes_when_we_release() {
    let server = Server::start();
    let lease = job(
        &Client::open(&server.url()).unwrap(),
        Protocol::PythonRedisLock,
    );
    let lease = lease.acquire().await.unwrap();
    let mut its = raw(&server).await;
    let waiting = tokio::spawn(async move {
        let mut take = redis::cmd("BLPOP");
        take.arg("lock-signal:job").arg(60);
        take.query_async::<(String, String)>(&mut its).await
    });
    blocked(&server, 1).await;
    lease.release().await.unwrap();
    let (list, _) = soon(waiting).await.unwrap().unwrap();
    assert_eq!(list, "lock-signal:job");
}

#[tokio::test]
async fn our_waiter_wakes_when_python_redis_lock_releases_and_asks_twice_until_then() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    server.cli(&["SET", "lock:job", "theirs", "EX", "60"]);
    let waiting = waiter(&client, Protocol::PythonRedisLock);
    blocked(&server, 1).await;
    eventually("it has tried again since it listens", async || {
        calls(&server, "setnx") >= 2
    })
    .await;
    release_as_python_does(&server);
    let lease = by_message(waiting).await.unwrap().unwrap();
    assert_eq!(
        calls(&server, "setnx"),
        3,
        "once more than before it was woken"
    );
    lease.release().await.unwrap();
}

/// Else its element would be gone, and a waiter of theirs would sleep on.
#[tokio::test]
async fn a_waiter_of_ours_that_went_away_takes_nothing_that_would_wake_another() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    server.cli(&["SET", "lock:job", "theirs", "EX", "60"]);
    let waiting = waiter(&client, Protocol::PythonRedisLock);
    blocked(&server, 1).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    release_as_python_does(&server); // perhaps before our connection has heard that no task waits
    let mut its = raw(&server).await;
    let mut take = redis::cmd("BLPOP");
    take.arg("lock-signal:job").arg(60);
    let (list, _): (String, String) = soon(take.query_async(&mut its)).await.unwrap();
    assert_eq!(list, "lock-signal:job");
    blocked(&server, 0).await;
}

/// A future that its owner does not poll must not keep what would wake another.
#[tokio::test]
async fn a_waiter_of_ours_that_is_not_polled_leaves_the_wake_up_to_another() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    server.cli(&["SET", "lock:job", "theirs", "EX", "60"]);
    let lock = job(&client, Protocol::PythonRedisLock);
    let mut idle = Box::pin(lock.acquire());
    let has_tried = async {
        blocked(&server, 1).await;
        let tried = async || calls(&server, "setnx") >= 2;
        eventually("it has tried again since it listens", tried).await;
    };
    tokio::select! {
        early = &mut idle => panic!("{early:?}"),
        () = has_tried => {}
    }
    let mut its = raw(&server).await;
    let waiting = tokio::spawn(async move {
        let mut take = redis::cmd("BLPOP");
        take.arg("lock-signal:job").arg(60);
        take.query_async::<(String, String)>(&mut its).await
    });
    blocked(&server, 2).await;
    release_as_python_does(&server);
    let (list, _) = soon(waiting).await.unwrap().unwrap();
    assert_eq!(list, "lock-signal:job");
    soon(idle).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_break_wakes_those_who_wait_for_the_lock_in_its_protocol() {
    for (protocol, key, set) in [
        (
            Protocol::PythonRedisLock,
            "lock:job",
            ["SET", "lock:job", "theirs"].as_slice(),
        ),
        (Protocol::Redisson, "job", &["HSET", "job", "2f1c…:1", "1"]),
    ] {
        let server = Server::start();
        let client = Client::open(&server.url()).unwrap();
        server.cli(set);
        server.cli(&["PEXPIRE", key, "60000"]);
        let waiting = waiter(&client, protocol);
        let tries = if protocol == Protocol::Redisson {
            "exists"
        } else {
            "setnx"
        };
        let listens = async || calls(&server, tries) >= 2;
        eventually("it has tried again since it listens", listens).await;
        let terms = BreakOptions::default().protocol(protocol);
        let foreign = client.break_lease(key, terms.clone()).await;
        assert!(matches!(foreign, Err(BreakError::Foreign { .. })));
        let broken = client.break_lease(key, terms.now().foreign()).await;
        assert_eq!(broken.unwrap().remaining, None, "{protocol}");
        let lease = by_message(waiting).await.unwrap().unwrap();
        lease.release().await.unwrap();
        let free = BreakOptions::default().protocol(protocol);
        let free = client.break_lease(key, free).await;
        assert!(matches!(free, Err(BreakError::NotHeld { .. })), "{free:?}");
    }
}

#[tokio::test]
async fn a_waiter_of_redisson_wakes_when_we_release() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lease = job(&client, Protocol::Redisson).acquire().await.unwrap();
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let config = redis::AsyncConnectionConfig::new().set_push_sender(said);
    let its = redis::Client::open(server.url() + "?protocol=resp3").unwrap();
    let connecting = its.get_multiplexed_async_connection_with_config(&config);
    let mut its = connecting.await.unwrap();
    its.subscribe("redisson_lock__channel:{job}").await.unwrap();
    lease.release().await.unwrap();
    let message = loop {
        let push = soon(heard.recv()).await.unwrap();
        if push.kind == redis::PushKind::Message {
            break push.data;
        }
    };
    assert_eq!(message[1], redis::Value::BulkString(b"0".to_vec()));
    assert_eq!(
        server.cli(&["EXISTS", "job"]).integer(),
        Some(0),
        "and finds it free"
    );
}

#[tokio::test]
async fn our_waiter_wakes_when_redisson_releases_and_asks_twice_until_then() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    server.cli(&["HSET", "job", "2f1c…:1", "1"]);
    server.cli(&["PEXPIRE", "job", "60000"]);
    let waiting = waiter(&client, Protocol::Redisson);
    let listens = |server: &Server| channels(server).iter().any(|one| one.contains("{job}"));
    eventually("it listens", async || listens(&server)).await;
    eventually("it has tried again since it listens", async || {
        calls(&server, "exists") >= 2
    })
    .await;
    server.cli(&["PUBLISH", "redisson_lock__channel:{job}", "1"]); // of a read lock
    server.cli(&["DEL", "job"]);
    server.cli(&["PUBLISH", "redisson_lock__channel:{job}", "0"]);
    let lease = by_message(waiting).await.unwrap().unwrap();
    assert_eq!(
        calls(&server, "exists"),
        3,
        "once more than before it was woken"
    );
    lease.release().await.unwrap();
    eventually("it listens no more", async || !listens(&server)).await;
}

/// The clock of the waiter stands still, so none of its timers brings it about.
#[tokio::test]
async fn where_the_server_tells_what_happens_to_keys_our_waiter_wakes_when_another_deletes_its_lock()
 {
    for (protocol, key) in [
        (Protocol::SetnxGetset, "job"),
        (Protocol::setex_renamenx(), "job:real_lock"),
        (Protocol::WatchMulti, "job:real_lock"),
        (Protocol::SetnxPexpire, "job"),
    ] {
        let server = Server::start();
        let builder = Client::builder().url(&server.url()).clock(Clock::manual());
        let client = builder.open().unwrap();
        server.cli(&["CONFIG", "SET", "notify-keyspace-events", "Kg"]);
        let theirs = "99999999999999"; // a token, or a time that is far away
        server.cli(&["SET", key, theirs, "PX", "60000"]);
        let (said, mut looked) = tokio::sync::mpsc::unbounded_channel();
        let lock = job(&client, protocol).on_wait(move |_| said.send(()).unwrap());
        let waiting = tokio::spawn(async move { lock.acquire().await });
        for _look in ["before it listens", "since it listens"] {
            soon(looked.recv()).await.unwrap();
        }
        server.cli(&["DEL", key]);
        let lease = soon(waiting).await.unwrap().unwrap();
        lease.release().await.unwrap();
        let listens = || channels(&server).iter().any(|one| one.ends_with(key));
        eventually("it listens no more", async || !listens()).await;
    }
}

#[tokio::test]
async fn on_a_cluster_a_waiter_of_redisson_hears_our_release_by_the_channel_of_the_slot() {
    let cluster = shared_cluster();
    let client = Client::open(&cluster.url()).unwrap();
    let mutex = client.mutex("sharded").protocol(Protocol::Redisson);
    let lease = mutex.ttl(LONG).acquire().await.unwrap();
    let mut its = Connection::open(cluster.owner_of("sharded").port(), LONG).unwrap();
    let listens = its.call(&["SSUBSCRIBE", "redisson_lock__channel:{sharded}"]);
    if listens.unwrap().is_error() {
        return; // no server before 7.0 has such channels
    }
    lease.release().await.unwrap();
    let heard = its.receive().unwrap();
    assert_eq!(heard.list().unwrap()[2].text(), Some("0"));
}
