//! Servers that answer but refuse: each refusal is an error of its own kind, at once, and never "busy".

use leaselock::error::RequestError;
use leaselock::{AcquireError, Client, ErrorKind, Lost, LostReason, ReleaseError};
use testkit::Server;

use crate::support::{LONG, leftovers, soon, until_queued, waiter};

/// Every way of acquiring meets the same refusal.
async fn refused_as(client: &Client, kind: ErrorKind) {
    let mutex = client.mutex("job").ttl(LONG);
    for outcome in [
        soon(mutex.try_acquire()).await.map(drop),
        soon(mutex.acquire()).await.map(drop),
        soon(mutex.acquire_within(crate::support::millis(50)))
            .await
            .map(drop),
    ] {
        match outcome {
            Err(AcquireError::Store { name, source }) => {
                assert_eq!((name.as_str(), source.kind()), ("job", kind), "{source}");
            }
            other => panic!("{kind:?} was expected: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_over_its_memory_limit_refuses_acquisitions_but_extends_and_releases() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let held = client.mutex("held").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&client, "held", LONG);
    until_queued(&client, "held", 1).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    refused_as(&client, ErrorKind::OutOfMemory).await;
    held.extend(2 * LONG).await.unwrap();
    held.release().await.unwrap();
    // Handed over although memory is used up: something was freed before.
    soon(next).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(leftovers(&server), [""; 0]);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    client
        .mutex("job")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_replica_refuses_as_read_only_and_a_lease_survives_until_it_is_primary_again() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let held = client.mutex("held").ttl(LONG).acquire().await.unwrap();
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    refused_as(&client, ErrorKind::ReadOnly).await;
    let extension = held.extend(2 * LONG).await.unwrap_err();
    assert!(extension.to_string().contains("replica"), "{extension}");
    assert!(held.is_held(), "an error is not a loss");
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    held.extend(2 * LONG).await.unwrap();
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_missing_and_a_wrong_password_are_told_from_a_server_that_is_down() {
    let server = Server::builder().password("opensesame").start();
    let port = server.port();
    for url in [
        format!("redis://127.0.0.1:{port}/"),
        format!("redis://:wrong@127.0.0.1:{port}/"),
        format!("redis://nobody:wrong@127.0.0.1:{port}/"),
    ] {
        refused_as(&Client::open(&url).unwrap(), ErrorKind::Auth).await;
    }
    let right = Client::open(&server.url()).unwrap();
    right
        .mutex("job")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_user_without_rights_is_refused_as_forbidden() {
    let server = Server::start();
    for (user, rules) in [
        ("keyless", ["~other:*", "+@all", "&*"]),
        ("scriptless", ["~*", "+@all", "-@scripting"]),
    ] {
        let mut command = vec!["ACL", "SETUSER", user, "on", ">secret"];
        command.extend(rules);
        assert!(!server.cli(&command).is_error());
        let url = format!("redis://{user}:secret@127.0.0.1:{}/", server.port());
        refused_as(&Client::open(&url).unwrap(), ErrorKind::Forbidden).await;
    }
    // A right that only a script misses is missed in the middle of it: forbidden, and it is unknown what was done before.
    server.cli(&[
        "ACL",
        "SETUSER",
        "writeless",
        "on",
        ">secret",
        "~*",
        "+@all",
        "-set",
    ]);
    let url = format!("redis://writeless:secret@127.0.0.1:{}/", server.port());
    let client = Client::open(&url).unwrap();
    let refused = soon(client.mutex("job").acquire()).await.unwrap_err();
    let AcquireError::Unknown { source, .. } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(source.kind(), ErrorKind::Forbidden);
    assert_eq!(leftovers(&server), [""; 0]);
}

/// Its scores lie long before now, as those of expired holds do.
#[tokio::test]
async fn a_foreign_sorted_set_under_the_key_is_refused_and_never_changed() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    server.cli(&["ZADD", "job", "1", "theirs", "2", "more"]);
    refused_as(&client, ErrorKind::WrongType).await;
    for refused in [
        soon(client.rwlock("job").try_read()).await.map(drop),
        soon(client.semaphore("job", 2).try_acquire())
            .await
            .map(drop),
    ] {
        let Err(AcquireError::Store { source, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(source.kind(), ErrorKind::WrongType);
    }
    let seen = client.inspect("job").await.unwrap();
    assert!(
        matches!(seen.state, leaselock::inspect::Holding::NotALock { kind, .. } if kind == "zset")
    );
    let RequestError::Store(error) = client.mutex("job").holder().await.unwrap_err() else {
        panic!("the name is well-formed")
    };
    assert_eq!(error.kind(), ErrorKind::WrongType);
    assert!(
        error.to_string().contains("a zset lies under this name"),
        "{error}"
    );
    assert!(client.list("*").await.unwrap().is_empty());
    let terms = leaselock::inspect::BreakOptions::default().foreign();
    assert!(client.break_lease("job", terms).await.is_err());
    let left = server.cli(&["ZRANGE", "job", "0", "-1"]);
    assert_eq!(
        left,
        testkit::Value::List(vec!["theirs".into(), "more".into()])
    );
}

#[tokio::test]
async fn a_foreign_type_under_the_key_is_refused_and_never_destroyed() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    server.cli(&["RPUSH", "job", "theirs"]);
    refused_as(&client, ErrorKind::WrongType).await;
    let seen = client.inspect("job").await.unwrap();
    assert!(
        matches!(seen.state, leaselock::inspect::Holding::NotALock { kind, .. } if kind == "list")
    );
    let broken = client
        .break_lease("job", leaselock::inspect::BreakOptions::default().foreign())
        .await;
    assert!(broken.is_err(), "{broken:?}");
    assert_eq!(
        server.cli(&["LRANGE", "job", "0", "-1"]),
        testkit::Value::List(vec!["theirs".into()])
    );
}

#[tokio::test]
async fn a_foreign_value_under_the_key_is_a_holder_and_is_never_destroyed() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    server.cli(&["SET", "job", "theirs"]);
    assert!(client.mutex("job").try_acquire().await.unwrap().is_none());
    let holder = client.mutex("job").holder().await.unwrap().unwrap();
    assert!(holder.is_foreign() && holder.process.is_none() && holder.remaining.is_none());
    let next = waiter(&client, "job", LONG);
    until_queued(&client, "job", 1).await;
    next.abort();
    until_queued(&client, "job", 0).await;
    let refused = client
        .break_lease("job", leaselock::inspect::BreakOptions::default())
        .await;
    assert!(
        matches!(refused, Err(leaselock::error::BreakError::Foreign { .. })),
        "{refused:?}"
    );
    assert_eq!(server.cli(&["GET", "job"]), "theirs".into());
    let next = waiter(&client, "job", LONG);
    until_queued(&client, "job", 1).await;
    server.cli(&["DEL", "job"]);
    soon(next).await.unwrap().unwrap().release().await.unwrap();
}

/// The key turns into something else while one client waits for it and another holds it.
#[tokio::test]
async fn a_waiter_that_is_refused_in_the_queue_leaves_it() {
    let server = Server::start();
    let (one, two) = (
        Client::open(&server.url()).unwrap(),
        Client::open(&server.url()).unwrap(),
    );
    let held = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let waiting = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    server.cli(&["DEL", "job"]);
    server.cli(&["RPUSH", "job", "theirs"]);
    let refused = soon(waiting).await.unwrap().unwrap_err();
    let (AcquireError::Store { source, .. } | AcquireError::Unknown { source, .. }) = &refused
    else {
        panic!("{refused:?}")
    };
    assert_eq!(source.kind(), ErrorKind::WrongType);
    until_queued(&one, "job", 0).await;
    let released = held.release().await.unwrap_err();
    assert!(
        matches!(
            &released,
            ReleaseError::NotHeld(Lost {
                reason: LostReason::TakenOver,
                ..
            })
        ),
        "{released:?}"
    );
    assert_eq!(server.cli(&["LLEN", "job"]).integer(), Some(1));
}
