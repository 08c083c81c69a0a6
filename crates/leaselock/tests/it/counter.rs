//! The counter on a server: lost replies, sums, and what is damaged.

use std::future::Future;
use std::task::{Context, Waker};

use leaselock::{Client, CounterError, ErrorKind};
use testkit::{Cut, Fault, Proxy, Server, Value, Way};

use crate::support::{calls, eventually, millis, soon};

/// While it is not known whether a change counts, no later one leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_whose_reply_is_lost_for_long_is_unknown_until_it_is_resolved() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let client = Client::builder().url(&proxy.url());
    let visits = client.request_timeout(millis(200)).build().unwrap();
    let visits = visits.counter("visits");
    assert_eq!(visits.incr().await.unwrap(), 1);
    proxy.set(Way::ToClient, Fault::HalfOpen); // requests arrive, and no reply comes
    let first = tokio::spawn({
        let visits = visits.clone();
        async move { visits.add(10).await }
    });
    eventually("it has counted", async || {
        server.cli(&["GET", "{visits}:ll:counter"]).text() == Some("11")
    })
    .await;
    let behind = soon(visits.add(100)).await.unwrap_err();
    assert!(matches!(behind, CounterError::Store { .. }), "{behind}");
    assert!(behind.to_string().contains("is not settled"), "{behind}");
    let CounterError::Unknown(unknown) = soon(first).await.unwrap().unwrap_err() else {
        panic!("no reply has come")
    };
    assert!(
        unknown.to_string().contains("once or not at all"),
        "{unknown}"
    );
    proxy.heal();
    proxy.cut(Cut::Reset);
    assert_eq!(soon(unknown.resolve()).await.unwrap(), 11);
    assert_eq!(visits.add(1000).await.unwrap(), 1011);
}

/// A sum leaves once for all that asked while another change was in flight. That makes a counter with many tasks faster
/// than an `INCRBY` for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tasks_add_while_a_change_is_in_flight_leaves_as_one() {
    const TASKS: usize = 256;
    let server = Server::start();
    let client = Client::connect(&server.url()).unwrap();
    let visits = client.counter("visits");
    visits.incr().await.unwrap();
    server.cli(&["CONFIG", "RESETSTAT"]);
    let frozen = server.pause();
    // The first poll of each puts its change into the queue, and no reply comes meanwhile.
    let mut changes: Vec<_> = (0..TASKS).map(|_| Box::pin(visits.incr())).collect();
    for change in &mut changes {
        let context = &mut Context::from_waker(Waker::noop());
        assert!(change.as_mut().poll(context).is_pending());
    }
    drop(frozen);
    for change in changes {
        soon(change).await.unwrap();
    }
    assert_eq!(
        visits.get().await.unwrap(),
        1 + i64::try_from(TASKS).unwrap()
    );
    // What was there when the first one left, and all the others.
    let additions = calls(&server, "incrby");
    assert!(additions <= 2, "{additions}");
}

/// What lies there is no number: it is refused, and stays as it is.
#[tokio::test]
async fn another_value_under_the_key_is_refused_and_left_alone() {
    let server = Server::start();
    let client = Client::connect(&server.url()).unwrap();
    let key = "{visits}:ll:counter";
    for (kind, write) in [
        (ErrorKind::Corrupt, &["SET", key, "something"][..]),
        (ErrorKind::WrongType, &["HSET", key, "some", "thing"][..]),
    ] {
        server.cli(&["DEL", key]);
        server.cli(write);
        let visits = client.counter("visits");
        for refused in [
            visits.incr().await.map(drop),
            visits.compare_and_set(0, 1).await,
            visits.get().await.map(drop),
        ] {
            let CounterError::Store { source, .. } = refused.unwrap_err() else {
                panic!("{kind:?}")
            };
            assert_eq!(source.kind(), kind, "{source}");
        }
        assert_eq!(server.cli(&["DEL", key]), Value::Integer(1));
    }
}
