//! What a client counts of its requests and of its servers, moved by real causes.

use std::collections::BTreeMap;
use std::time::Duration;

use leaselock::inspect::BreakOptions;
use leaselock::{Client, Wait};
use testkit::Server;

use crate::quorum::Nodes;
use crate::support::{LONG, eventually, introduced, millis, soon};

fn quick(server: &Server) -> Client {
    let builder = Client::builder().url(&server.url());
    builder.request_timeout(millis(300)).open().unwrap()
}

/// How many requests of this kind have ended so.
fn count(client: &Client, op: &str, outcome: &str) -> u64 {
    client.stats().requests[op][outcome]
}

#[tokio::test]
async fn requests_are_counted_by_what_they_were_for_and_timed() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let all = client.stats().requests;
    let ops = ["acquire", "admin", "cancel", "extend", "look", "release"];
    assert!(all.keys().eq(&ops), "each begins as 0: {all:?}");
    assert_eq!(all.values().flat_map(|one| one.values()).sum::<u64>(), 0);
    let lease = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    assert_eq!(count(&client, "acquire", "ok"), 1);
    lease.extend(LONG).await.unwrap();
    assert_eq!(count(&client, "extend", "ok"), 1);
    client.inspect("a").await.unwrap();
    assert!(count(&client, "look", "ok") >= 1);
    let waits = client.mutex("a").ttl(LONG);
    let waits = tokio::time::timeout(millis(20), waits.acquire()).await;
    assert!(waits.is_err(), "it is dropped while it waits");
    eventually("its entry is withdrawn", async || {
        client.stats().cleanups_pending == 0
    })
    .await;
    assert!(count(&client, "cancel", "ok") >= 1);
    lease.release().await.unwrap();
    assert_eq!(count(&client, "release", "ok"), 1);
    let other = Client::open(&server.url()).unwrap(); // a client verifies its own lease that is broken
    let _broken = other.mutex("b").ttl(LONG).acquire().await.unwrap();
    let before = count(&client, "admin", "ok");
    let broken = client.break_lease("b", BreakOptions::default()).await;
    broken.unwrap();
    assert!(count(&client, "admin", "ok") > before);
    let now = client.stats();
    for (op, times) in &now.request_times {
        assert_eq!(times.count, now.requests[op].values().sum::<u64>(), "{op}");
        assert!(times.sum > 0, "{op}");
    }
}

#[tokio::test]
async fn a_request_that_fails_or_is_dropped_counts_as_what_became_of_it() {
    let server = Server::start();
    let client = quick(&server);
    drop(client.mutex("a").ttl(LONG).acquire().await.unwrap());
    eventually("it is free", async || client.stats().cleanups_pending == 0).await;
    {
        let _paused = server.pause();
        let other = client.mutex("b").ttl(LONG).wait(Wait::Never);
        other.acquire().await.unwrap_err();
        assert!(count(&client, "acquire", "no_reply") >= 1);
        let dropped = client.mutex("c").ttl(LONG).wait(Wait::Never);
        let dropped = tokio::time::timeout(millis(20), dropped.acquire()).await;
        assert!(dropped.is_err(), "it is dropped while it asks");
        assert!(count(&client, "acquire", "cancelled") >= 1);
    }
    server.kill();
    let gone = client.mutex("d").ttl(LONG).wait(Wait::Never);
    gone.acquire().await.unwrap_err();
    assert!(count(&client, "acquire", "unreachable") >= 1);
    let memory = Client::open("mem:").unwrap();
    drop(memory.mutex("a").acquire().await.unwrap());
    assert_eq!(count(&memory, "acquire", "ok"), 1);
}

#[tokio::test]
async fn a_vote_is_a_request_to_each_node_and_a_batch_is_one() {
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    let lease = quorum.mutex("job").ttl(LONG).acquire().await.unwrap();
    eventually("all have voted", async || {
        count(&quorum, "acquire", "ok") == 3
    })
    .await;
    lease.release().await.unwrap();
    eventually("all have released", async || {
        count(&quorum, "release", "ok") == 3
    })
    .await;

    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let each = (0..200).map(|number| {
        let mutex = client.mutex(format!("many/{number}")).ttl(LONG);
        tokio::spawn(async move { mutex.acquire().await.unwrap() })
    });
    let leases = futures_util::future::join_all(each).await;
    assert_eq!(leases.len(), 200);
    let sent = count(&client, "acquire", "ok");
    assert!(sent < 100, "{sent} requests for 200 acquisitions");
    assert!(client.stats().request_times["acquire"].sum < micros(LONG));
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// Until the client says so of its servers.
async fn until_connected(client: &Client, all: &[(&Server, bool)]) {
    let all: BTreeMap<_, _> = all.iter().map(|(one, is)| (address(one), *is)).collect();
    eventually(&format!("{all:?}"), async || {
        client.stats().connected == all
    })
    .await;
}

#[tokio::test]
async fn a_server_that_stops_and_starts_is_disconnected_and_connected_again() {
    let server = Server::builder().password("secret").start();
    let client = quick(&server);
    assert!(client.stats().connected.is_empty(), "no attempt was made");
    let _lease = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    until_connected(&client, &[(&server, true)]).await;
    let mut events = client.events();
    let before = client.stats();
    server.kill();
    until_connected(&client, &[(&server, false)]).await;
    let told = soon(events.recv()).await.unwrap();
    assert_eq!((&*told.kind, told.name), ("disconnected", None));
    let error = told.text.strip_prefix(&format!("{}: ", address(&server)));
    assert!(!error.unwrap().is_empty() && !told.text.contains("secret"));
    let mut sum = before.clone();
    sum += client.stats();
    assert!(!sum.connected[&address(&server)]);
    assert!(sum.requests["acquire"]["ok"] >= 2 * before.requests["acquire"]["ok"]);
    let mut text = String::new();
    sum.prometheus(&mut text);
    let line = format!("leaselock_connected{{server=\"{}\"}} 0\n", address(&server));
    assert!(text.contains(&line), "{text}");
    server.restart();
    until_connected(&client, &[(&server, true)]).await;
    let told = loop {
        let told = soon(events.recv()).await.unwrap();
        if told.kind != "lost" {
            break told;
        }
    };
    assert_eq!((&*told.kind, told.text), ("connected", address(&server)));
    // This runtime may not have seen yet that its own connection ended.
    let reader = Client::open(&server.url()).unwrap();
    let log = reader.log(Duration::MAX).await.unwrap();
    assert!(log.iter().all(|entry| !entry.kind.contains("connected")));
}

#[tokio::test]
async fn a_client_without_a_lease_shows_its_latest_attempt_to_connect() {
    let server = Server::start();
    let client = quick(&server);
    let lease = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    lease.release().await.unwrap();
    introduced(&server, &client).await; // it dials no more
    server.kill();
    // Reads alone: what an acquisition may have left is undone later, over another connection.
    let unreached = [(address(&server), false)].into();
    eventually("a read fails to connect", async || {
        client.inspect("b").await.unwrap_err();
        client.stats().connected == unreached
    })
    .await;
    server.restart();
    assert!(
        !client.stats().connected[&address(&server)],
        "no attempt was made since"
    );
    drop(client.mutex("b").ttl(LONG).acquire().await.unwrap());
    until_connected(&client, &[(&server, true)]).await;
}

#[tokio::test]
async fn each_node_of_a_quorum_is_connected_by_itself() {
    let nodes = Nodes::start(3);
    let quorum = nodes.quorum();
    let _lease = quorum.mutex("job").ttl(LONG).acquire().await.unwrap();
    let [a, b, c] = [&nodes.0[0], &nodes.0[1], &nodes.0[2]];
    until_connected(&quorum, &[(a, true), (b, true), (c, true)]).await;
    b.kill();
    until_connected(&quorum, &[(a, true), (b, false), (c, true)]).await;
    let memory = Client::open("mem:").unwrap();
    drop(memory.mutex("a").acquire().await.unwrap());
    assert!(memory.stats().connected.is_empty());
}

#[tokio::test]
async fn what_the_client_still_has_to_undo_is_counted_until_it_is_undone() {
    let server = Server::start();
    let client = quick(&server);
    let lease = client.mutex("a").ttl(LONG).acquire().await.unwrap();
    assert_eq!(client.stats().cleanups_pending, 0);
    {
        let _paused = server.pause();
        drop(lease);
        assert_eq!(client.stats().cleanups_pending, 1);
    }
    eventually("it is released", async || {
        client.stats().cleanups_pending == 0
    })
    .await;
    assert_eq!(server.cli(&["EXISTS", "a"]).integer(), Some(0));
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}
