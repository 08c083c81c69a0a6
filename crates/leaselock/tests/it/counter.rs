//! The counter on a server: lost replies, sums, and what is damaged.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leaselock::counter::CounterError;
use leaselock::{Client, ErrorKind};
use testkit::{Cut, Fault, Proxy, Server, Value, Way};

use crate::support::{calls, eventually, millis, soon};

/// How long replicas may take that are frozen and never answer.
const WITHIN: Duration = Duration::from_millis(200);
/// For those that run, on any machine.
const PATIENT: Duration = Duration::from_secs(30);

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// While it is not known whether a change counts, no later one leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_whose_reply_is_lost_for_long_is_unknown_until_it_is_resolved() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let client = Client::builder().url(&proxy.url());
    let visits = client.request_timeout(millis(200)).open().unwrap();
    let visits = visits.counter("visits");
    assert_eq!(visits.incr().await.unwrap(), 1);
    proxy.set(Way::ToClient, Fault::HalfOpen); // requests arrive, and no reply comes
    let first = tokio::spawn({
        let visits = visits.clone();
        async move { visits.add(10).await }
    });
    eventually("it has counted", async || {
        server.cli(&["HGET", "{visits}:ll:counter", "value"]).text() == Some("11")
    })
    .await;
    let behind = soon(visits.add(100)).await.unwrap_err();
    assert!(matches!(behind, CounterError::Store { .. }), "{behind}");
    assert!(behind.to_string().contains("is not settled"), "{behind}");
    let CounterError::Unknown(unknown) = soon(first).await.unwrap().unwrap_err() else {
        panic!("no reply has come")
    };
    assert!(unknown.to_string().contains("never twice"), "{unknown}");
    proxy.heal();
    proxy.cut(Cut::Reset);
    assert_eq!(soon(unknown.resolve()).await.unwrap(), 11);
    assert_eq!(visits.add(1000).await.unwrap(), 1011);
}

/// A caller that is not polled any more sent the change in front of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_go_on_behind_a_caller_that_is_not_polled_any_more() {
    let server = Server::start();
    let client = Client::builder().url(&server.url());
    // No request takes as long; the one that no task polls is given up after it.
    let client = client.request_timeout(millis(2_000)).open().unwrap();
    let visits = client.counter("visits");
    assert_eq!(visits.get().await.unwrap(), 0); // the client's thread has started, which is part of no request below
    let frozen = server.pause(); // so that the reply does not come within the first poll
    let mut sends = Box::pin(visits.add(10));
    assert!(poll_once(sends.as_mut()).is_pending());
    drop(frozen);
    let mut numbers = vec![soon(visits.add(1)).await.unwrap()];
    numbers.push(soon(visits.add(1)).await.unwrap());
    assert_eq!(numbers, [11, 12]); // the one in front left first, and counted once
    assert_eq!(soon(sends).await.unwrap(), 10);
    assert_eq!(visits.get().await.unwrap(), 12);
}

/// The task that sends ends with its runtime, and a caller that is dropped ends what it sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_go_on_when_those_that_sent_them_have_ended() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let visits = client.counter("visits");
    visits.incr().await.unwrap();
    let frozen = server.pause();
    let mut dropped = Box::pin(visits.add(10));
    assert!(poll_once(dropped.as_mut()).is_pending());
    let mut behind = Box::pin(visits.incr());
    assert!(poll_once(behind.as_mut()).is_pending());
    drop(dropped);
    drop(frozen);
    let value = soon(behind).await.unwrap();
    assert!([2, 12].contains(&value), "{value}"); // once or not at all

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let frozen = server.pause();
    let theirs: Vec<_> = (0..8)
        .map(|_| {
            let visits = visits.clone();
            runtime.spawn(async move { visits.add(100).await })
        })
        .collect();
    let ours = tokio::spawn({
        let visits = visits.clone();
        async move { visits.incr().await }
    });
    drop(frozen);
    runtime.shutdown_background();
    let ours = soon(ours).await.unwrap().unwrap();
    assert_eq!((ours - value) % 100, 1, "{ours}");
    for task in theirs {
        drop(soon(task).await); // it has its number, or it ended with its runtime
    }
    let total = visits.incr().await.unwrap();
    assert!(((value + 2)..=(value + 802)).contains(&total), "{total}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_has_the_change_when_it_is_acknowledged() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let client = Client::open(&primary.url()).unwrap();
    let visits = client.counter("visits").min_replicas(1, PATIENT);
    for value in 1..=3 {
        assert_eq!(soon(visits.incr()).await.unwrap(), value);
        let there = replica.cli(&["HGET", "{visits}:ll:counter", "value"]);
        assert_eq!(there.text(), Some(value.to_string().as_str()));
    }
    let differs = visits.compare_and_set(0, 1).await.unwrap_err();
    assert!(
        matches!(differs, CounterError::Mismatch { .. }),
        "{differs}"
    );
    let memory = Client::open("mem:").unwrap();
    let refused = memory.counter("visits").min_replicas(1, PATIENT);
    let refused = refused.incr().await.unwrap_err();
    assert!(matches!(refused, CounterError::Invalid(_)), "{refused}");
}

/// Each task hears of the number that it has made, and nothing is sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_too_few_replicas_have_counts_once_and_its_caller_is_told_so() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let client = Client::open(&primary.url()).unwrap();
    let [hurried, patient] =
        [WITHIN, PATIENT].map(|within| client.counter("visits").min_replicas(1, within));
    assert_eq!(soon(patient.incr()).await.unwrap(), 1); // the replica is there
    let frozen = replica.pause();
    let mut numbers = Vec::new();
    let (one, two, three) = (hurried.add(1), hurried.add(1), hurried.add(1));
    let told = soon(async { tokio::join!(one, two, three) }).await;
    for told in [told.0, told.1, told.2] {
        let error = told.unwrap_err();
        let CounterError::TooFewReplicas {
            value,
            required: 1,
            confirmed: 0,
            timeout: WITHIN,
            source: None,
            ..
        } = error
        else {
            panic!("{error:?}")
        };
        assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
        numbers.push(value);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3, 4]);
    assert_eq!(hurried.get().await.unwrap(), 4);
    drop(frozen);
    assert_eq!(soon(patient.add(0)).await.unwrap(), 4);
    let there = replica.cli(&["HGET", "{visits}:ll:counter", "value"]);
    assert_eq!(there.text(), Some("4"));
}

/// A server counts replicas for what the same connection wrote. So a repeat writes too, although it counts nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_over_another_connection_waits_for_replicas_too() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let proxy = Proxy::to(primary.port());
    let client = Client::open(&proxy.url()).unwrap();
    let visits = client.counter("visits");
    let first = visits.clone().min_replicas(1, PATIENT);
    assert_eq!(soon(first.incr()).await.unwrap(), 1);
    let frozen = replica.pause();
    let (before, scripts) = (proxy.connections(), calls(&primary, "hincrby"));
    // The reply of the connection that is open is lost.
    let (bytes, how) = (0, Cut::Reset);
    proxy.set(Way::ToClient, Fault::CutAfter { bytes, how });
    let told = soon(visits.clone().min_replicas(1, WITHIN).incr()).await;
    let error = told.unwrap_err();
    assert!(
        matches!(error, CounterError::TooFewReplicas { value: 2, .. }),
        "{error:?}"
    );
    assert!(proxy.connections() > before, "nothing was repeated");
    assert_eq!(calls(&primary, "hincrby"), scripts + 1);
    drop(frozen);
}

/// A sum leaves once for all that asked while another change was in flight. That makes a counter with many tasks faster
/// than an `INCRBY` for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tasks_add_while_a_change_is_in_flight_leaves_as_one() {
    const TASKS: usize = 256;
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let visits = client.counter("visits");
    visits.incr().await.unwrap();
    server.cli(&["CONFIG", "RESETSTAT"]);
    let frozen = server.pause();
    // The first poll of each puts its change into the queue, and no reply comes meanwhile.
    let mut changes: Vec<_> = (0..TASKS).map(|_| Box::pin(visits.incr())).collect();
    for change in &mut changes {
        assert!(poll_once(change.as_mut()).is_pending());
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
    let additions = calls(&server, "hincrby");
    assert!(additions <= 2, "{additions}");
}

/// What lies there is no number: it is refused, and stays as it is.
#[tokio::test]
async fn another_value_under_the_key_is_refused_and_left_alone() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let key = "{visits}:ll:counter";
    for (kind, write) in [
        (ErrorKind::Corrupt, &["HSET", key, "value", "something"][..]),
        (ErrorKind::WrongType, &["SET", key, "7"][..]),
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
