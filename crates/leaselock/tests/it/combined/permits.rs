//! Permits that leave together: of many semaphores, and of one.

use std::collections::BTreeSet;

use leaselock::lease::Permits;
use leaselock::{Client, Lease};
use testkit::Server;

use super::{calls, crowd, names};
use crate::support::{LONG, by_message, leftovers, until_queued};

const COUNT: usize = 256;

fn sent(server: &Server) -> u64 {
    calls(server, "evalsha") + calls(server, "eval")
}

async fn take_all(
    client: &Client,
    names: impl Iterator<Item = String>,
    permits: u32,
) -> Vec<Option<Lease<Permits>>> {
    crowd(names, |name| {
        let pool = client.semaphore(name, permits).ttl(LONG);
        async move { pool.try_acquire().await.unwrap() }
    })
    .await
}

async fn give_back(permits: impl IntoIterator<Item = Lease<Permits>>) {
    let mut permits = permits.into_iter().collect::<Vec<_>>().into_iter();
    crowd(names("", permits.len()), |_| {
        let permit = permits.next().unwrap();
        async move { permit.release().await.unwrap() }
    })
    .await;
}

/// What an empty semaphore leaves is how many permits there are.
fn left(server: &Server) -> Vec<String> {
    let mut left = leftovers(server);
    left.retain(|key| !key.ends_with(":usage"));
    left
}

#[tokio::test]
async fn a_crowd_that_takes_permits_of_many_semaphores_leaves_in_a_few_calls() {
    let server = Server::start();
    let [client, rival] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let before = sent(&server);
    let permits = take_all(&client, names("pool", COUNT), 1).await;
    let cost = sent(&server) - before;
    assert!(cost * 5 < COUNT as u64, "{cost} calls to acquire");
    for (number, permit) in permits.iter().enumerate() {
        let permit = permit.as_ref().unwrap();
        assert_eq!(permit.name().as_str(), format!("pool{number}"));
        assert!(permit.is_held() && permit.fence().is_some());
    }
    let rivals = take_all(&rival, names("pool", COUNT), 1).await;
    assert!(rivals.iter().all(Option::is_none), "each has one permit");
    let before = sent(&server);
    give_back(permits.into_iter().flatten()).await;
    let cost = sent(&server) - before;
    assert!(cost * 5 < COUNT as u64, "{cost} calls to release");
    assert_eq!(left(&server), [""; 0]);
    let again = take_all(&rival, names("pool", COUNT), 1).await;
    assert!(again.iter().all(Option::is_some));
}

#[tokio::test]
async fn of_a_crowd_at_one_semaphore_as_many_are_served_as_it_has_permits_and_each_has_a_number() {
    let server = Server::start();
    let [client, rival] = [(); 2].map(|()| Client::open(&server.url()).unwrap());
    let most = u32::try_from(COUNT).unwrap() - 56;
    let one_name = || std::iter::repeat_n("pool".to_owned(), COUNT);
    let permits = take_all(&client, one_name(), most).await;
    let permits: Vec<Lease<Permits>> = permits.into_iter().flatten().collect();
    assert_eq!(permits.len(), COUNT - 56);
    let numbers: BTreeSet<_> = permits.iter().map(|permit| permit.fence()).collect();
    assert_eq!(numbers.len(), permits.len(), "no number is given twice");
    let last = numbers.last().copied().unwrap();
    // A waiter for all of them gets them when the last is back, and a larger number.
    let all = rival.semaphore("pool", most).ttl(LONG);
    let waits = tokio::spawn(async move { all.acquire_many(most).await });
    until_queued(&client, "pool", 1).await;
    give_back(permits).await;
    let all = by_message(waits).await.unwrap().unwrap();
    assert!(all.fence() > last);
    all.release().await.unwrap();
    assert_eq!(left(&server), [""; 0]);
}

#[tokio::test]
async fn a_crowd_that_takes_and_gives_back_permits_of_one_semaphore_leaves_in_a_few_calls() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let before = sent(&server);
    let one_name = std::iter::repeat_n("pool".to_owned(), COUNT);
    let permits = take_all(&client, one_name, u32::try_from(COUNT).unwrap()).await;
    assert!(permits.iter().all(Option::is_some));
    give_back(permits.into_iter().flatten()).await;
    let cost = sent(&server) - before;
    assert!(cost * 5 < 2 * COUNT as u64, "{cost} calls");
    assert_eq!(left(&server), [""; 0]);
}
