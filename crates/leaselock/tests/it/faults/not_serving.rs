//! Servers that are there and do not serve at the moment.

use leaselock::{AcquireError, Client, ErrorKind, LeaseError, LostReason};
use testkit::Server;

use crate::support::{LONG, eventually, leftovers, lets_scripts_write, millis, soon};

/// Refused, surely without an effect, and for this reason.
fn refused_as<T: std::fmt::Debug>(outcome: Result<T, AcquireError>, kind: ErrorKind) {
    match outcome {
        Err(AcquireError::Store { source, .. }) => assert_eq!(source.kind(), kind, "{source}"),
        other => panic!("{kind:?} was expected: {other:?}"),
    }
}

/// Each key is loaded with a delay, and the server answers others in between: after each kibibyte, or in version 6,
/// which cannot be told how often, after two mebibytes. So keys are few and large, and stay so in the file.
#[tokio::test]
async fn a_server_that_loads_its_data_refuses_as_loading_and_serves_those_who_wait() {
    let server = Server::builder().debug_commands().start();
    server.cli(&[
        "CONFIG",
        "SET",
        "loading-process-events-interval-bytes",
        "1024",
    ]);
    server.cli(&["CONFIG", "SET", "rdbcompression", "no"]);
    server.cli(&["DEBUG", "POPULATE", "500", "filler", "100000"]);
    server.cli(&["CONFIG", "SET", "key-load-delay", "10000"]);
    let client = Client::open(&server.url()).unwrap();
    assert!(client.mutex("other").try_acquire().await.unwrap().is_some());
    let mut loading = server.connect().unwrap();
    loading.send(&["DEBUG", "RELOAD"]).unwrap();
    eventually("it loads", async || {
        matches!(server.try_cli(&["GET", "x"]), Ok(testkit::Value::Error(text)) if text.starts_with("LOADING"))
    })
    .await;
    let refused = client.mutex("job").try_acquire().await.unwrap_err();
    let AcquireError::Store { source, .. } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(source.kind(), ErrorKind::Loading);
    let waiting = client.mutex("job").ttl(LONG);
    let waiting = tokio::spawn(async move { waiting.acquire_within(LONG).await });
    server.cli(&["CONFIG", "SET", "key-load-delay", "0"]);
    soon(waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// A user's script does not end. A waiter is served once the script was killed.
#[tokio::test]
async fn a_server_that_is_busy_with_a_script_refuses_and_serves_those_who_wait() {
    let server = Server::builder().config("lua-time-limit", "10").start();
    let client = Client::open(&server.url()).unwrap();
    client
        .mutex("warm")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let mut endless = server.connect().unwrap();
    endless.send(&["EVAL", "while true do end", "0"]).unwrap();
    eventually("it is busy", async || {
        matches!(server.try_cli(&["GET", "x"]), Ok(testkit::Value::Error(text)) if text.starts_with("BUSY"))
    })
    .await;
    refused_as(
        soon(client.mutex("job").try_acquire()).await,
        ErrorKind::NotServing,
    );
    let mutex = client.mutex("job").ttl(LONG);
    let waiting = tokio::spawn(async move { mutex.acquire_within(LONG).await });
    server.cli(&["SCRIPT", "KILL"]);
    soon(waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    assert_eq!(leftovers(&server), [""; 0]);
}

#[tokio::test]
async fn a_server_with_too_many_clients_refuses_and_serves_when_one_has_gone() {
    let server = Server::start();
    let mut operator = server.connect().unwrap();
    operator
        .call(&["CONFIG", "SET", "maxclients", "1"])
        .unwrap();
    let client = Client::open(&server.url()).unwrap();
    refused_as(
        soon(client.mutex("job").try_acquire()).await,
        ErrorKind::NotServing,
    );
    let mutex = client.mutex("job").ttl(LONG);
    let waiting = tokio::spawn(async move { mutex.acquire_within(LONG).await });
    operator
        .call(&["CONFIG", "SET", "maxclients", "100"])
        .unwrap();
    soon(waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// Extensions are refused too, so a lease that is held is lost by its deadline; and a holder who lets go is told that
/// its release was not confirmed.
#[tokio::test]
async fn a_server_without_its_replicas_refuses_and_the_holder_is_told_in_time() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let lease = client
        .mutex("held")
        .ttl(millis(1_000))
        .acquire()
        .await
        .unwrap();
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    if lets_scripts_write(&server) {
        assert!(client.mutex("job").try_acquire().await.unwrap().is_some());
        return;
    }
    refused_as(
        soon(client.mutex("job").try_acquire()).await,
        ErrorKind::NoReplicas,
    );
    assert_eq!(
        soon(lease.lost()).await.reason,
        LostReason::StoreUnreachable
    );
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    client
        .mutex("job")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// The replica is there and hears nothing. What the last extension reached is all that the lease has.
#[tokio::test]
async fn a_primary_whose_replica_is_frozen_grants_and_extends_nothing_until_that_goes_on() {
    let primary = Server::builder()
        .config("min-replicas-to-write", "1")
        .config("min-replicas-max-lag", "1")
        .start();
    let replica = Server::builder().replica_of(&primary).start();
    if lets_scripts_write(&primary) {
        return;
    }
    let client = Client::open(&primary.url()).unwrap();
    let lease = client.mutex("held").ttl(millis(5_000));
    let lease = soon(lease.acquire()).await.unwrap();
    let frozen = replica.pause();
    let mut tries = 0;
    eventually("it is noticed", async || {
        tries += 1; // a lock that is held is busy, and needs no write to be that
        match client.mutex(format!("other-{tries}")).try_acquire().await {
            Ok(_) => false,
            Err(AcquireError::Store { source, .. }) => source.kind() == ErrorKind::NoReplicas,
            Err(error) => panic!("{error:?}"),
        }
    })
    .await;
    match soon(lease.extend(LONG)).await {
        Err(LeaseError::Store { source, .. }) => {
            assert_eq!(source.kind(), ErrorKind::NoReplicas, "{source}");
        }
        outcome => panic!("{outcome:?}"),
    }
    assert!(lease.is_held(), "an error is no loss");
    assert_eq!(
        soon(lease.lost()).await.reason,
        LostReason::StoreUnreachable
    );
    drop(frozen);
    // The server grants again once it has heard from its replica.
    eventually("it is granted", async || {
        match client.mutex("held").ttl(LONG).try_acquire().await {
            Ok(granted) => granted.is_some(),
            Err(AcquireError::Store { source, .. }) => {
                assert_eq!(source.kind(), ErrorKind::NoReplicas, "{source}");
                false
            }
            Err(error) => panic!("{error:?}"),
        }
    })
    .await;
}

/// A server that hangs up on idle connections is noticed when it does, not by the next request.
#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_costs_no_request() {
    let server = Server::builder().config("timeout", "1").start();
    let client = Client::open(&server.url()).unwrap();
    client
        .mutex("job")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    eventually("the server hung up", async || {
        let list = server.cli(&["CLIENT", "LIST", "TYPE", "normal"]);
        list.text().unwrap().lines().count() == 1
    })
    .await;
    // The executor, which this test kept busy, gets to the end of the stream.
    tokio::time::sleep(millis(20)).await;
    let lease = client
        .mutex("job")
        .ttl(LONG)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    lease.release().await.unwrap();
}
