//! The barrier.

use std::collections::BTreeSet;

use leaselock::Client;
use leaselock::barrier::{Barrier, BarrierError, BarrierPass};
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::support::{LONG, by_message, eventually, millis, soon};

fn barrier(client: &Client, parties: u32) -> Barrier {
    client.barrier("phase", parties).party_lease(LONG)
}

fn waiting(client: &Client, parties: u32) -> JoinHandle<Result<BarrierPass, BarrierError>> {
    let barrier = barrier(client, parties);
    tokio::spawn(async move { barrier.wait().await })
}

async fn pair(engine: &Engine) -> [Client; 2] {
    [
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
    ]
}

/// Until so many wait. One more, who gives up at once, learns of it.
async fn have_arrived(client: &Client, count: u32, parties: u32) {
    eventually("they have arrived", async || {
        let asks = barrier(client, parties).wait_within(millis(0)).await;
        match asks {
            Err(BarrierError::TimedOut { arrived, .. }) => arrived == count + 1,
            other => panic!("{other:?}"),
        }
    })
    .await;
}

async fn told<T>(engine: &Engine, waiter: JoinHandle<T>) -> T {
    match engine.wakes() {
        true => by_message(waiter).await.unwrap(),
        false => soon(waiter).await.unwrap(),
    }
}

pub(super) async fn all_parties_pass_together_generation_after_generation(engine: &Engine) {
    const PARTIES: u32 = 4;
    let [one, two] = pair(engine).await;
    for generation in 0..3 {
        let first = [&one, &one, &two].map(|client| waiting(client, PARTIES));
        let last = soon(barrier(&two, PARTIES).wait()).await.unwrap();
        let mut indexes = BTreeSet::from([last.index]);
        assert_eq!(last.generation, generation);
        for waiter in first {
            let pass = told(engine, waiter).await.unwrap();
            assert_eq!(pass.generation, generation);
            assert!(indexes.insert(pass.index));
        }
        assert_eq!(indexes, (0..PARTIES).collect());
    }
}

pub(super) async fn a_party_that_gives_up_does_not_count_and_the_others_wait_on(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let waits = waiting(&one, 4);
    have_arrived(&two, 1, 4).await;
    let gives_up = barrier(&two, 4).wait_within(millis(50)).await.unwrap_err();
    assert!(
        matches!(
            gives_up,
            BarrierError::TimedOut {
                arrived: 2,
                parties: 4,
                ..
            }
        ),
        "{gives_up}"
    );
    let dropped = waiting(&two, 4);
    have_arrived(&two, 2, 4).await;
    dropped.abort();
    have_arrived(&two, 1, 4).await;
    assert!(!waits.is_finished());
    let others = [waiting(&one, 4), waiting(&two, 4)];
    let last = soon(barrier(&two, 4).wait()).await.unwrap();
    for waiter in others.into_iter().chain([waits]) {
        assert_eq!(
            told(engine, waiter).await.unwrap().generation,
            last.generation
        );
    }
}

pub(super) async fn a_party_that_crashed_counts_until_the_end_of_its_lease(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let short = barrier(&one, 3).party_lease(millis(1500));
    // Polled once and then never again, as a process that was frozen.
    let mut frozen = Box::pin(async move { short.wait().await });
    eventually("it has arrived", async || {
        let polled = tokio::time::timeout(millis(20), &mut frozen).await;
        assert!(polled.is_err());
        let asks = barrier(&two, 3).wait_within(millis(0)).await;
        matches!(asks, Err(BarrierError::TimedOut { arrived: 2, .. }))
    })
    .await;
    have_arrived(&two, 0, 3).await; // its lease is over
    let [second, third] = [&one, &two].map(|client| waiting(client, 3));
    let last = soon(barrier(&two, 3).wait()).await.unwrap();
    for waiter in [second, third] {
        assert_eq!(
            told(engine, waiter).await.unwrap().generation,
            last.generation
        );
    }
    let missed = soon(frozen).await.unwrap_err();
    assert!(matches!(missed, BarrierError::Missed { .. }), "{missed}");
}

pub(super) async fn a_barrier_with_another_number_of_parties_or_a_bad_one_is_refused(
    engine: &Engine,
) {
    let [one, two] = pair(engine).await;
    let waits = waiting(&one, 3);
    have_arrived(&two, 1, 3).await;
    let other = barrier(&two, 5).wait().await.unwrap_err();
    assert!(
        matches!(other, BarrierError::Mismatch { theirs: 3, .. }),
        "{other}"
    );
    if engine.lists {
        assert_eq!(one.list("*").await.unwrap().len(), 0); // it is no lock
    }
    let second = waiting(&two, 3);
    soon(barrier(&two, 3).wait()).await.unwrap();
    for waiter in [waits, second] {
        told(engine, waiter).await.unwrap();
    }
    // Once all have passed another number is right.
    soon(barrier(&two, 1).wait()).await.unwrap();
    for wrong in [
        barrier(&one, 0),
        one.barrier("", 2),
        barrier(&one, 2).party_lease(millis(1)),
    ] {
        let refused = wrong.wait().await.unwrap_err();
        assert!(matches!(refused, BarrierError::Invalid(_)), "{refused}");
    }
}
