//! Calls that succeed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture};

use super::*;
use crate::base::error::ErrorKind;

#[tokio::test]
async fn a_script_runs_on_a_server_that_has_never_seen_it_and_on_one_that_forgot_it() {
    let server = Server::start();
    let store = store(&server.url());
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
    server.cli(&["SCRIPT", "FLUSH"]);
    assert_eq!(tag(&store, &acquire("job")).await, "granted");
    assert_eq!(tag(&store, &release("job")).await, "released");
    assert_eq!(tag(&store, &release("job")).await, "expired");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_share_one_connection_and_another_store_has_its_own() {
    let server = Server::start();
    let store = store(&server.url());
    let other = store.unshared();
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { tag(&store, &acquire(&format!("job{number}"))).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), "fenced");
    }
    let connections = || {
        server
            .cli(&["CLIENT", "LIST", "TYPE", "normal"])
            .text()
            .unwrap()
            .lines()
            .count()
            - 1
    };
    assert_eq!(connections(), 1);
    assert_eq!(tag(&other, &release("job7")).await, "released");
    assert_eq!(connections(), 2);
    drop((store, other));
    wait_until(PATIENCE, "unused connections are closed", || {
        connections() == 0
    });
}

#[test]
fn a_connection_whose_runtime_is_gone_is_replaced() {
    let server = Server::start();
    let store = store(&server.url());
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let tag = runtime.block_on(tag(&store, &acquire("job")));
        assert!(["fenced", "granted"].contains(&tag.as_str()), "{tag}");
    }
}

#[tokio::test]
async fn scanning_finds_keys_of_every_type_that_match_and_no_others() {
    let server = Server::start();
    for number in 0..700 {
        server.cli(&["SET", &format!("app:{number}"), "x"]);
    }
    server.cli(&["SET", "other", "x"]);
    server.cli(&["ZADD", "app:700", "1", "x"]);
    let store = store(&server.url());
    let (mut found, mut cursor) = (std::collections::BTreeSet::new(), 0);
    loop {
        let scan = store.scan(cursor, "app:*", None, PATIENCE);
        let (next, keys) = scan.await.unwrap();
        found.extend(keys.into_iter().map(|(key, _)| key));
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(
        found,
        (0..=700).map(|number| format!("app:{number}")).collect()
    );
}

#[tokio::test]
async fn a_client_of_the_user_lends_its_address_and_login() {
    let server = Server::builder().password("sekret").start();
    let client = redis::Client::open(format!("{}2", server.url())).unwrap();
    let store = RedisStore::from_client(&client).unwrap();
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
    assert!(store.capabilities().wakes);
    assert_eq!(
        store.describe(),
        format!("redis://127.0.0.1:{}/2", server.port())
    );
}

/// A connection of the program that counts what is sent on it.
#[derive(Clone)]
struct Counting(redis::aio::MultiplexedConnection, Arc<AtomicUsize>);

impl ConnectionLike for Counting {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, redis::Value> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.req_packed_command(cmd)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        _: &'a Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<redis::Value>> {
        unreachable!("one command at a time")
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

#[tokio::test]
async fn a_connection_of_the_user_runs_scripts_and_cannot_wake_anybody() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let connection = Counting(
        client.get_multiplexed_async_connection().await.unwrap(),
        count.clone(),
    );
    let store = RedisStore::from_connection(connection);
    assert_eq!(tag(&store, &acquire("job")).await, "fenced");
    assert_eq!(
        count.load(Ordering::Relaxed),
        2,
        "the hash, then the whole script"
    );
    assert!(!store.capabilities().wakes);
    let listening = store.listen("channel", Box::new(|event| panic!("{event:?}")));
    assert!(
        tokio::time::timeout(Duration::from_millis(50), listening)
            .await
            .is_err()
    );
    assert!(!store.examine(PATIENCE).await.unwrap().findings.is_empty());

    server.cli(&["DEL", "job"]);
    server.cli(&["LPUSH", "job", "x"]);
    let error = run(&store.unshared(), &acquire("job")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::WrongType, false)
    );
    server.kill();
    let error = run(&store, &acquire("job")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.maybe_applied()),
        (ErrorKind::Unreachable, true)
    );
}
