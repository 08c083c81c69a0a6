//! Owners that wait for each other in a circle: one of them is told, and the others go on.

use leaselock::error::Link;
use leaselock::{AcquireError, Client, Lease, Owner};

use crate::engine::Engine;
use crate::support::{LONG, soon, until_queued};

/// Holds the lock of this number: alone, reading, or one of two permits.
async fn hold(client: &Client, me: &Owner, number: usize) -> Lease<()> {
    let name = format!("lock-{number}");
    match number % 3 {
        0 => client
            .mutex(name)
            .ttl(LONG)
            .owner(me)
            .acquire()
            .await
            .unwrap()
            .into(),
        1 => client
            .rwlock(name)
            .ttl(LONG)
            .owner(me)
            .read()
            .await
            .unwrap()
            .into(),
        _ => client
            .semaphore(name, 2)
            .ttl(LONG)
            .owner(me)
            .acquire()
            .await
            .unwrap()
            .into(),
    }
}

/// Asks for the lock of this number in a way that does not fit beside that.
async fn ask(
    client: &Client,
    me: &Owner,
    number: usize,
    priority: i32,
) -> Result<Lease<()>, AcquireError> {
    let name = format!("lock-{number}");
    match number % 3 {
        2 => {
            let pool = client
                .semaphore(name, 2)
                .ttl(LONG)
                .owner(me)
                .priority(priority);
            pool.acquire_many(2).await.map(Lease::from)
        }
        _ => {
            let lock = client.rwlock(name).ttl(LONG).owner(me);
            lock.priority(priority).write().await.map(Lease::from)
        }
    }
}

fn circle_of(error: AcquireError) -> Vec<Link> {
    match error {
        AcquireError::Deadlock { circle, .. } => circle,
        other => panic!("{other:?}"),
    }
}

/// Each owner holds one lock and waits for the next one's. Returns the victims.
async fn circle(
    engine: &Engine,
    size: usize,
    priority: fn(usize) -> i32,
) -> Vec<(usize, Vec<Link>)> {
    let mut held = Vec::new();
    for number in 0..size {
        let client = engine.client_of_one_store().await;
        let me = client.owner(format!("owner-{number}"));
        let lease = hold(&client, &me, number).await;
        held.push((client, me, lease));
    }
    let mut tasks = Vec::new();
    for (number, (client, me, lease)) in held.into_iter().enumerate() {
        tasks.push(tokio::spawn(async move {
            let asked = ask(&client, &me, (number + 1) % size, priority(number)).await;
            assert!(
                lease.is_held(),
                "whatever it was told, it holds what it held"
            );
            let victim = match asked {
                Ok(next) => {
                    next.release().await.unwrap();
                    None
                }
                Err(error) => Some((number, circle_of(error))),
            };
            lease.release().await.unwrap();
            client.close().await;
            victim
        }));
    }
    let mut victims = Vec::new();
    for task in tasks {
        victims.extend(soon(task).await.unwrap());
    }
    victims
}

pub(super) async fn one_owner_of_a_circle_is_told_and_the_others_go_on(engine: &Engine) {
    if !engine.wakes() {
        return; // a waiter that hears nothing may be gone
    }
    for size in [2, 3, 10] {
        let victims = circle(engine, size, |_| 0).await;
        let [(victim, links)] = victims.as_slice() else {
            panic!("{size}: {victims:?}")
        };
        assert_eq!(links.len(), size, "{links:?}");
        for (step, link) in links.iter().enumerate() {
            let number = (victim + step) % size;
            assert_eq!(link.owner, format!("owner-{number}"));
            assert_eq!(link.holds.as_str(), format!("lock-{number}"));
            assert_eq!(
                link.waits_for.as_str(),
                format!("lock-{}", (number + 1) % size)
            );
        }
    }
}

pub(super) async fn the_victim_is_the_owner_of_the_lowest_priority(engine: &Engine) {
    if !engine.wakes() {
        return; // a waiter that hears nothing may be gone
    }
    let victims = circle(engine, 3, |number| if number == 1 { -5 } else { 5 }).await;
    assert!(matches!(victims.as_slice(), [(1, _)]), "{victims:?}");
}

pub(super) async fn an_owner_that_waits_for_its_own_permits_is_told(engine: &Engine) {
    if !engine.wakes() {
        return; // a waiter that hears nothing may be gone
    }
    let (one, two) = (
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
    );
    let me = one.owner("import 42");
    let pool = one.semaphore("pool", 3).ttl(LONG).owner(&me);
    let theirs = two.semaphore("pool", 3).ttl(LONG).acquire().await.unwrap();
    let mine = pool.acquire().await.unwrap();
    let more = pool.clone();
    let waiting = tokio::spawn(async move { more.acquire_many(2).await });
    until_queued(&one, "pool", 1).await;
    assert!(
        !waiting.is_finished(),
        "it waits for another owner, which may let go"
    );
    theirs.release().await.unwrap();
    soon(waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    let stuck = circle_of(soon(pool.acquire_many(3)).await.unwrap_err());
    assert_eq!((stuck.len(), stuck[0].holds.as_str()), (1, "pool"));
    mine.release().await.unwrap();
    soon(pool.acquire_many(3))
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}
