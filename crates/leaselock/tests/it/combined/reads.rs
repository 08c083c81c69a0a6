//! Reads that leave together: of many names, and of one.

use leaselock::lease::Shared;
use leaselock::{AcquireError, Client, Lease};
use testkit::{Fault, Proxy, Server, Way};

use super::{calls, crowd, names};
use crate::support::{LONG, by_message, eventually, leftovers, millis, until_queued, waiter};

const COUNT: usize = 256;

async fn read_all(client: &Client, names: impl Iterator<Item = String>) -> Vec<Lease<Shared>> {
    crowd(names, |name| {
        let lock = client.rwlock(name).ttl(LONG);
        async move { lock.read().await.unwrap() }
    })
    .await
}

async fn leave(readers: Vec<Lease<Shared>>) {
    let (names, mut readers) = (names("", readers.len()), readers.into_iter());
    crowd(names, |_| {
        let reader = readers.next().unwrap();
        async move { reader.release().await.unwrap() }
    })
    .await;
}

fn one_name() -> impl Iterator<Item = String> {
    std::iter::repeat_n("config".to_owned(), COUNT)
}

fn sent(server: &Server) -> u64 {
    calls(server, "evalsha") + calls(server, "eval")
}

#[tokio::test]
async fn a_crowd_that_reads_many_names_leaves_in_a_few_calls_and_each_has_its_own_lease() {
    let server = Server::start();
    let [client, rival] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let before = sent(&server);
    let readers = read_all(&client, names("config", COUNT)).await;
    let cost = sent(&server) - before;
    assert!(cost * 5 < COUNT as u64, "{cost} calls to acquire");
    for (number, reader) in readers.iter().enumerate() {
        assert_eq!(reader.name().as_str(), format!("config{number}"));
        assert!(reader.is_held() && reader.fence().is_some());
        let writing = rival.rwlock(format!("config{number}")).try_write().await;
        assert!(writing.unwrap().is_none(), "{number}");
    }
    let fences: Vec<_> = readers.iter().map(|reader| reader.fence()).collect();
    let before = sent(&server);
    leave(readers).await;
    let cost = sent(&server) - before;
    assert!(cost * 5 < COUNT as u64, "{cost} calls to release");
    assert_eq!(leftovers(&server), [""; 0]);
    let again = read_all(&client, names("config", COUNT)).await;
    for (reader, earlier) in again.iter().zip(fences) {
        assert!(
            reader.fence() > earlier,
            "readers after nobody are a new phase"
        );
    }
}

#[tokio::test]
async fn a_crowd_that_reads_one_name_leaves_in_a_few_calls_and_has_one_number() {
    let server = Server::start();
    let [client, rival] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let before = sent(&server);
    let readers = read_all(&client, one_name()).await;
    assert_eq!(
        server.cli(&["ZCOUNT", "config", "0", "+inf"]).integer(),
        i64::try_from(COUNT).ok()
    );
    let fence = readers[0].fence();
    assert!(readers.iter().all(|reader| reader.fence() == fence));
    let cost = sent(&server) - before;
    assert!(cost * 5 < COUNT as u64, "{cost} calls");
    // A writer waits for all of them, and for no others.
    let writer = waiter(&rival, "config", LONG);
    until_queued(&client, "config", 1).await;
    let late = read_late(&client).await;
    let before = sent(&server);
    leave(readers).await;
    let cost = sent(&server) - before;
    assert!(
        cost >= COUNT as u64,
        "each may be the one that lets the writer in"
    );
    let writing = by_message(writer).await.unwrap().unwrap();
    assert!(writing.fence() > fence && late.iter().all(|late| !late.is_finished()));
    let written = writing.fence();
    writing.release().await.unwrap();
    let mut readers = Vec::new();
    for late in late {
        readers.push(by_message(late).await.unwrap().unwrap());
    }
    let fence = readers[0].fence();
    assert!(fence > written && readers.iter().all(|reader| reader.fence() == fence));
    leave(readers).await;
    assert_eq!(leftovers(&server), [""; 0]);
}

type Reading = tokio::task::JoinHandle<Result<Lease<Shared>, AcquireError>>;

/// Readers that come after the writer, all at once, and wait behind it.
async fn read_late(client: &Client) -> Vec<Reading> {
    let late = (0..8).map(|_| {
        let lock = client.rwlock("config").ttl(LONG);
        tokio::spawn(async move { lock.read().await })
    });
    let late = late.collect();
    until_queued(client, "config", 9).await;
    late
}

#[tokio::test]
async fn of_a_crowd_of_reads_one_that_a_writer_waits_before_is_served_alone_and_the_others_together()
 {
    let server = Server::start();
    let [client, rival] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let reading = rival.rwlock("config7").ttl(LONG).read().await.unwrap();
    let writer = waiter(&rival, "config7", LONG);
    until_queued(&rival, "config7", 1).await;
    let outcomes = crowd(names("config", COUNT), |name| {
        let lock = client.rwlock(name).ttl(LONG);
        async move { lock.try_read().await.unwrap() }
    })
    .await;
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_none(), number == 7, "{number}");
    }
    reading.release().await.unwrap();
    let writing = by_message(writer).await.unwrap().unwrap();
    writing.release().await.unwrap();
}

/// As in a service that reads its configuration while it locks jobs.
#[tokio::test]
async fn a_crowd_of_reads_and_mutexes_in_turn_leaves_in_a_few_calls() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let before = sent(&server);
    let held = crowd(names("", 2 * COUNT), |name| {
        let number: usize = name.parse().unwrap();
        let mutex = client.mutex(format!("job{name}")).ttl(LONG);
        let lock = client.rwlock("config").ttl(LONG);
        async move {
            match number % 2 {
                0 => Lease::<()>::from(mutex.acquire().await.unwrap()),
                _ => lock.read().await.unwrap().into(),
            }
        }
    })
    .await;
    assert!(held.iter().all(Lease::is_held));
    let cost = sent(&server) - before;
    assert!(cost * 5 < 2 * COUNT as u64, "{cost} calls");
}

#[tokio::test]
async fn a_call_of_reads_whose_answer_vanished_leaves_nobody_reading() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let short = Client::builder().url(&proxy.url());
    let client = short.request_timeout(millis(300)).open().unwrap();
    drop(read_all(&client, names("warm", 1)).await);
    proxy.set(Way::ToClient, Fault::Swallow);
    let outcomes = crowd(names("config", 64), |name| {
        let lock = client.rwlock(name).ttl(LONG);
        async move { lock.try_read().await }
    })
    .await;
    let unknown = |outcome: &&Result<_, _>| matches!(outcome, Err(AcquireError::Unknown { .. }));
    assert!(outcomes.iter().all(Result::is_err));
    let unknown = outcomes.iter().filter(unknown).count();
    assert!(unknown > 1, "a call with several requests was sent");
    proxy.heal();
    eventually("all is cleaned up", async || leftovers(&server).is_empty()).await;
}
