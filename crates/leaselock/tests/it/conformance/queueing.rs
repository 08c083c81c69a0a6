//! Waiting in the queue.

use std::sync::{Arc, Mutex};

use leaselock::options::Waiting;

use crate::engine::Engine;
use crate::support::{LONG, eventually, is_free, soon, until_queued, waiter};

pub(super) async fn a_waiter_learns_its_position_and_who_holds(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let first = waiter(&one, "job", LONG);
    until_queued(&one, "job", 1).await;
    let told = Arc::new(Mutex::new(Vec::<Waiting>::new()));
    let ear = Arc::clone(&told);
    let mutex = two.mutex("job").ttl(LONG).on_wait(move |waiting| {
        ear.lock().unwrap().push(waiting.clone());
    });
    let second = tokio::spawn(async move { mutex.acquire().await });
    eventually("it is told", async || !told.lock().unwrap().is_empty()).await;
    let waiting = told.lock().unwrap()[0].clone();
    assert_eq!(
        (
            waiting.position,
            waiting.holder.as_ref().map(|it| &*it.client)
        ),
        (2, Some(one.id()))
    );
    assert!(
        waiting
            .remaining
            .is_some_and(|left| left <= LONG && left > LONG / 2)
    );
    lease.release().await.unwrap();
    soon(first).await.unwrap().unwrap().release().await.unwrap();
    soon(second)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// Ten waiters of ten clients join the queue one after the other; the last two have a higher priority. Each that is served
/// writes down its number before it lets go.
pub(super) async fn the_head_of_the_queue_is_served_first_and_a_higher_priority_before_it(
    engine: &Engine,
) {
    if !engine.wakes() {
        return; // without wake-ups the waiter that polls first is served: `every_waiter_is_served`
    }
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(engine.client().await);
    }
    let lease = clients[0].mutex("job").ttl(LONG).acquire().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..10_usize {
        let priority = if number < 8 { 0 } else { 3 };
        let mutex = clients[number].mutex("job").ttl(LONG).priority(priority);
        let served = Arc::clone(&served);
        waiters.push(tokio::spawn(async move {
            let lease = mutex.acquire().await.unwrap();
            served.lock().unwrap().push(number);
            lease.release().await.unwrap();
        }));
        until_queued(&clients[0], "job", number + 1).await;
    }
    let line = clients[1].inspect("job").await.unwrap().queue;
    let seen: Vec<_> = line.iter().map(|at| (at.position, at.priority)).collect();
    assert_eq!(seen[..3], [(1, 3), (2, 3), (3, 0)]);
    lease.release().await.unwrap();
    for waiter in waiters {
        soon(waiter).await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), [8, 9, 0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(is_free(&clients[0], "job").await);
}

pub(super) async fn a_waiter_that_goes_away_leaves_the_queue(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let gone = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    let three = engine.client().await;
    let stays = waiter(&three, "job", LONG);
    until_queued(&one, "job", 2).await;
    gone.abort();
    until_queued(&one, "job", 1).await;
    lease.release().await.unwrap();
    soon(stays).await.unwrap().unwrap().release().await.unwrap();
}

pub(super) async fn every_waiter_is_served(engine: &Engine) {
    let clients = [engine.client().await, engine.client().await];
    let lease = clients[0].mutex("job").ttl(LONG).acquire().await.unwrap();
    let waiters: Vec<_> = (0..4)
        .map(|number| {
            let mutex = clients[number % 2].mutex("job").ttl(LONG);
            tokio::spawn(async move {
                let lease = mutex.acquire().await.unwrap();
                let fence = lease.fence();
                lease.release().await.unwrap();
                fence
            })
        })
        .collect();
    until_queued(&clients[0], "job", 2).await; // one place for each client
    lease.release().await.unwrap();
    let mut fences = Vec::new();
    for waiter in waiters {
        fences.push(soon(waiter).await.unwrap().unwrap());
    }
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 4, "each was granted by a fence of its own");
}
