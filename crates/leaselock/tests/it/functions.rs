//! Servers on which users may not send scripts of their own.

mod several;

use leaselock::{AcquireError, Client, ErrorKind};
use testkit::{Server, Value};

use crate::access::{self, PREFIX};
use crate::support::{LONG, by_message, soon, until_queued, waiter};

/// A server with the library and the users of the page; `None` where there are no functions, which is said.
async fn hardened() -> Option<Server> {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    match client.load_functions().await {
        Ok(_) => {
            access::allow(&server, "hardened");
            access::allow(&server, "loader");
            Some(server)
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("Redis 7"), "{error}");
            let calls = Client::builder().url(&server.url()).functions_only();
            is_refused(&calls.open().unwrap(), "need Redis 7").await;
            None
        }
    }
}

fn client(server: &Server, role: &str) -> Client {
    let url = access::url_of(&server.url(), role);
    let builder = Client::builder().url(&url).prefix(PREFIX);
    builder.functions_only().open().unwrap()
}

async fn is_refused(client: &Client, words: &str) {
    match soon(client.mutex("job").try_acquire()).await {
        Err(AcquireError::Store { source, .. }) => {
            assert_eq!(source.kind(), ErrorKind::Unsupported, "{source}");
            assert!(source.to_string().contains(words), "{source}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_call_functions_only_can_lock_and_run_nothing_else() {
    let Some(server) = hardened().await else {
        return;
    };
    let [one, two] = [0, 1].map(|_| client(&server, "hardened"));
    server.cli(&["CONFIG", "RESETSTAT"]);
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&two, "job", LONG);
    until_queued(&two, "job", 1).await;
    lease.extend(LONG).await.unwrap();
    lease.release().await.unwrap();
    by_message(next)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    for client in [one, two] {
        client.close().await;
    }
    assert_eq!(server.cli(&["ACL", "LOG"]), Value::List(Vec::new()));
    let stats = server.cli(&["INFO", "commandstats"]);
    assert!(stats.text().unwrap().contains("cmdstat_fcall:"));
    assert!(!stats.text().unwrap().contains("cmdstat_eval"), "{stats:?}");

    let mut raw = server.connect().unwrap();
    raw.call(&["AUTH", "hardened", "PASSWORD"]).unwrap();
    for beyond in [
        &["EVAL", "return 1", "0"] as &[&str],
        &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
        &["SCRIPT", "LOAD", "return 1"],
        &[
            "FUNCTION",
            "LOAD",
            "#!lua name=x\nredis.register_function('x', function() return 1 end)",
        ],
        &["FUNCTION", "LIST"],
        &["FUNCTION", "FLUSH"],
        &["FCALL", "leaselock_any", "0", "x"],
    ] {
        let Value::Error(refusal) = raw.call(beyond).unwrap() else {
            panic!("{beyond:?}")
        };
        let expected = if beyond[0] == "FCALL" {
            "not found"
        } else {
            "permissions"
        };
        assert!(refusal.contains(expected), "{beyond:?}: {refusal}");
    }
    // A function reaches no other keys than its caller does.
    let loaded = soon(client(&server, "loader").load_functions())
        .await
        .unwrap();
    assert!(
        loaded[0].was_there && loaded[0].others.is_empty(),
        "{loaded:?}"
    );
    let extend = format!("{}_mutex_extend", loaded[0].name);
    let beyond = ["FCALL", &extend, "1", "other:job", "token", "1000"];
    assert!(raw.call(&beyond).unwrap().is_error());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_that_is_missing_or_of_another_version_is_told_and_can_be_loaded() {
    if hardened().await.is_none() {
        return;
    }
    let server = Server::start();
    let client = Client::builder()
        .url(&server.url())
        .functions_only()
        .open()
        .unwrap();
    is_refused(&client, "`leaselock functions load`").await;
    let old = "#!lua name=leaselock_0badc0de\nredis.register_function('leaselock_0badc0de_mutex_acquire', \
               function() return {'granted'} end)";
    assert!(!server.cli(&["FUNCTION", "LOAD", old]).is_error());
    is_refused(&client, "`leaselock functions load`").await;
    let loaded = client.load_functions().await.unwrap();
    assert!(!loaded[0].was_there);
    assert_eq!(loaded[0].others, ["leaselock_0badc0de"]);
    let lease = client.mutex("job").ttl(LONG).acquire().await.unwrap();
    assert!(client.load_functions().await.unwrap()[0].was_there);
    lease.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_memory_is_full_functions_give_back_and_extend_and_grant_nothing() {
    let Some(server) = hardened().await else {
        return;
    };
    let [one, two] = [0, 1].map(|_| client(&server, "hardened"));
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let other = one.mutex("other").ttl(LONG).acquire().await.unwrap();
    let next = waiter(&two, "job", LONG);
    until_queued(&two, "job", 1).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    lease.extend(LONG).await.unwrap();
    other.release().await.unwrap();
    match soon(two.mutex("free").try_acquire()).await {
        Err(AcquireError::Store { source, .. }) => {
            assert_eq!(source.kind(), ErrorKind::OutOfMemory)
        }
        outcome => panic!("{outcome:?}"),
    }
    lease.release().await.unwrap();
    by_message(next)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_mode_is_called_as_functions_too() {
    let Some(server) = hardened().await else {
        return;
    };
    server.cli(&["ACL", "SETUSER", "hardened", "+info"]);
    let url = access::url_of(&server.url(), "hardened");
    let builder = Client::builder().url(&url).prefix(PREFIX).functions_only();
    let strict = builder.strict(LONG).open().unwrap();
    strict.init_strict().await.unwrap();
    let lease = strict.mutex("job").ttl(LONG).acquire().await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(server.cli(&["ACL", "LOG"]), Value::List(Vec::new()));
}

#[test]
fn functions_are_for_servers() {
    for url in ["mem:", "file:"] {
        let built = Client::builder().url(url).functions_only().open();
        assert!(built.unwrap_err().to_string().contains("redis://"), "{url}");
    }
}

/// They are waited for over a connection of its own, which must not send what the user may not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_waited_for_by_a_user_who_may_call_functions_only() {
    let Some(server) = hardened().await else {
        return;
    };
    server.cli(&["ACL", "SETUSER", "hardened", "+wait"]);
    let _replica = Server::builder().replica_of(&server).start();
    let mutex = client(&server, "hardened").mutex("job").ttl(LONG);
    let replicated = mutex.min_replicas(1, LONG / 2);
    let lease = soon(replicated.acquire()).await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(server.cli(&["ACL", "LOG"]), Value::List(Vec::new()));
}
