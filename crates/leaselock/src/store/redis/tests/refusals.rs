//! Servers that reply, but refuse the request.

use super::*;
use crate::base::error::ErrorKind;

/// Checks that the call is refused, surely without effect, in words that contain `said`.
async fn refused(store: &RedisStore, call: &Call, kind: ErrorKind, said: &str) {
    let error = run(store, call).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (kind, false),
        "{error}"
    );
    assert!(error.to_string().contains(said), "{error}");
}

#[tokio::test]
async fn a_replica_refuses_and_nothing_is_held() {
    let server = Server::start();
    let store = store(&server.url());
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    refused(
        &store,
        &acquire("job"),
        ErrorKind::ReadOnly,
        "name the primary",
    )
    .await;
    server.cli(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    refused(&store, &acquire("job"), ErrorKind::NotServing, "MASTERDOWN").await;
}

#[tokio::test]
async fn a_full_server_refuses_new_locks_and_takes_old_ones_back() {
    let server = Server::start();
    let store = store(&server.url());
    assert_eq!(tag(&store, &acquire("old")).await, "fenced");
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    refused(
        &store,
        &acquire("new"),
        ErrorKind::OutOfMemory,
        "memory limit",
    )
    .await;
    assert_eq!(tag(&store, &release("old")).await, "released");
}

#[tokio::test]
async fn a_server_without_its_replicas_refuses() {
    let server = Server::builder()
        .config("min-replicas-to-write", "1")
        .start();
    let info = server.cli(&["INFO", "server"]);
    if info.text().unwrap().contains("redis_version:6.2.5\r") {
        // It refuses commands that write, and lets scripts write: the doctor says so.
        assert!(server.cli(&["SET", "job", "x"]).is_error());
        assert_eq!(tag(&store(&server.url()), &acquire("job")).await, "fenced");
        return;
    }
    refused(
        &store(&server.url()),
        &acquire("job"),
        ErrorKind::NoReplicas,
        "NOREPLICAS",
    )
    .await;
}

#[tokio::test]
async fn what_is_no_lock_is_not_touched() {
    let server = Server::start();
    server.cli(&["LPUSH", "job", "x"]);
    refused(
        &store(&server.url()),
        &acquire("job"),
        ErrorKind::WrongType,
        "no lock",
    )
    .await;
    assert_eq!(server.cli(&["LLEN", "job"]).integer(), Some(1));
}

#[tokio::test]
async fn a_busy_server_refuses() {
    let server = Server::builder().config("lua-time-limit", "5").start();
    let store = store(&server.url());
    assert_eq!(tag(&store, &release("job")).await, "expired");
    let mut slow = server.connect().unwrap();
    slow.send(&["EVAL", "while true do end", "0"]).unwrap();
    wait_until(PATIENCE, "the script is slow", || {
        server.cli(&["PING"]).text().unwrap().starts_with("BUSY")
    });
    refused(&store, &acquire("job"), ErrorKind::NotServing, "BUSY").await;
    server.cli(&["SCRIPT", "KILL"]);
    wait_until(PATIENCE, "the script has ended", || {
        server.cli(&["PING"]).text() == Some("PONG")
    });
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
}

#[tokio::test]
async fn a_server_with_too_many_clients_says_so() {
    for password in ["", "sekret"] {
        let builder = Server::builder();
        let server = if password.is_empty() {
            builder
        } else {
            builder.password(password)
        }
        .start();
        let mut only = server.connect().unwrap();
        only.call(&["CONFIG", "SET", "maxclients", "1"]).unwrap();
        let error = store(&server.url())
            .run(&acquire("job"), Duration::from_millis(300))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.maybe_applied()),
            (ErrorKind::NotServing, false),
            "{error}"
        );
        assert!(error.to_string().contains("too many clients"), "{error}");
    }
}
