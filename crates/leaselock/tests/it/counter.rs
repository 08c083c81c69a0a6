//! The counter on a server: lost replies, cut connections, and what is damaged.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use leaselock::{Client, CounterError, ErrorKind};
use testkit::{Cut, Fault, Proxy, Server, Value, Way, clock};
use tokio::task::JoinSet;

use crate::support::{PATIENCE, calls, eventually, millis, soon};

/// The connection of each client ends again and again, before a request, behind it, and within a reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_counts_once_through_replies_that_are_lost_and_connections_that_are_cut() {
    const CLIENTS: usize = 4;
    const TASKS: i64 = 4;
    const CUTS: usize = 60;
    let server = Server::start();
    let (mut tasks, mut faults) = (JoinSet::new(), JoinSet::new());
    let is_over = Arc::new(AtomicBool::new(false));
    for number in 0..CLIENTS {
        let proxy = Proxy::to(server.port());
        let client = Client::builder().url(&proxy.url());
        let client = client.request_timeout(millis(300)).build().unwrap();
        for task in 0..TASKS {
            let (visits, is_over) = (client.counter("visits"), Arc::clone(&is_over));
            tasks.spawn(async move {
                let (mut added, mut settled) = (0, 0);
                while !is_over.load(Ordering::SeqCst) {
                    let value = [1, -1, 10][usize::try_from(task % 3).unwrap()];
                    match count(visits.add(value).await).await {
                        Some(_) => added += value,
                        None => settled += 1,
                    }
                }
                assert!(added != 0, "{settled}");
                added
            });
        }
        faults.spawn_blocking(move || {
            for cut in 0..CUTS {
                let how = [Cut::Reset, Cut::Close][cut % 2];
                let way = [Way::ToClient, Way::ToServer, Way::ToClient][(cut + number) % 3];
                let connections = proxy.connections();
                let bytes = [0, 0, 7, 200][cut % 4];
                proxy.set(way, Fault::CutAfter { bytes, how });
                let end = clock::now() + PATIENCE;
                while proxy.connections() == connections {
                    assert!(clock::now() < end, "no client connects again");
                    std::thread::sleep(millis(1)); // between two reads of the condition
                }
            }
            proxy
        });
    }
    let mut proxies = Vec::new();
    while let Some(proxy) = soon(faults.join_next()).await {
        proxies.push(proxy.unwrap());
    }
    is_over.store(true, Ordering::SeqCst);
    let mut sum = 0;
    while let Some(added) = soon(tasks.join_next()).await {
        sum += added.unwrap();
    }
    let visits = Client::connect(&server.url()).unwrap().counter("visits");
    assert_eq!(visits.get().await.unwrap(), sum);
}

/// The number behind the change; `None` if it surely does not count.
async fn count(mut outcome: Result<i64, CounterError>) -> Option<i64> {
    loop {
        outcome = match outcome {
            Ok(number) => return Some(number),
            Err(CounterError::Unknown(unknown)) => unknown.resolve().await,
            Err(CounterError::Store { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

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
