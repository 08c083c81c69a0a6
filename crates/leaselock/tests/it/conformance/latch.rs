//! The latch.

use leaselock::Client;
use leaselock::latch::{Latch, LatchError};

use crate::engine::Engine;
use crate::support::{by_message, millis, soon};

fn latch(client: &Client) -> Latch {
    client.latch("deploy", 3)
}

async fn pair(engine: &Engine) -> [Client; 2] {
    [
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
    ]
}

pub(super) async fn all_who_wait_at_a_latch_go_on_when_the_last_party_has_arrived(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let waiters = [&one, &one, &two].map(|client| {
        let latch = latch(client);
        tokio::spawn(async move { latch.wait().await })
    });
    assert_eq!(soon(latch(&one).arrive("a")).await.unwrap(), 2);
    assert_eq!(soon(latch(&two).arrive("b")).await.unwrap(), 1);
    let early = latch(&two).wait_within(millis(100)).await.unwrap_err();
    let LatchError::TimedOut { arrived, left, .. } = &early else {
        panic!("{early}")
    };
    assert_eq!(
        (arrived.as_slice(), *left),
        (&["a".to_owned(), "b".to_owned()][..], 1)
    );
    assert!(early.to_string().contains("arrived: a, b"), "{early}");
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    assert_eq!(soon(latch(&one).arrive("c")).await.unwrap(), 0);
    for waiter in waiters {
        match engine.wakes() {
            true => by_message(waiter).await.unwrap().unwrap(),
            false => soon(waiter).await.unwrap().unwrap(),
        }
    }
    // It stays open, for those who come later and for those who arrive again.
    latch(&two).wait_within(millis(0)).await.unwrap();
    assert_eq!(latch(&one).arrive("a").await.unwrap(), 0);
    let state = latch(&two).state().await.unwrap();
    assert!(state.is_open());
    assert_eq!(state.arrived, ["a", "b", "c"]);
}

pub(super) async fn a_party_counts_once_and_a_latch_that_no_party_has_reached_is_closed(
    engine: &Engine,
) {
    let [one, two] = pair(engine).await;
    let state = latch(&two).state().await.unwrap();
    assert_eq!((state.arrived.len(), state.left), (0, 3));
    for client in [&one, &two, &one] {
        assert_eq!(latch(client).arrive("a").await.unwrap(), 2);
    }
    for (client, party) in [(&one, "b"), (&two, "c")] {
        latch(client).arrive(party).await.unwrap();
    }
    let excess = latch(&two).arrive("d").await.unwrap_err();
    assert!(
        matches!(excess, LatchError::Excess { count: 3, .. }),
        "{excess}"
    );
    assert_eq!(latch(&one).state().await.unwrap().arrived.len(), 3);
}

pub(super) async fn a_latch_with_another_count_or_a_bad_one_is_refused(engine: &Engine) {
    let [one, two] = pair(engine).await;
    latch(&one).arrive("a").await.unwrap();
    let other = two.latch("deploy", 2);
    for refused in [
        other.arrive("b").await.map(drop),
        other.state().await.map(drop),
        other.wait().await,
    ] {
        assert!(
            matches!(refused, Err(LatchError::Mismatch { theirs: 3, .. })),
            "{refused:?}"
        );
    }
    for (refused, right) in [
        (one.latch("deploy", 0).arrive("b").await, "1 to 10000"),
        (latch(&one).arrive("").await, "1 to 200 bytes"),
        (one.latch("", 3).arrive("b").await, "at least one byte"),
        (
            latch(&one).keep_for(millis(1)).arrive("b").await,
            "1 min to 30 days",
        ),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, LatchError::Invalid(_)), "{refused}");
        assert!(refused.to_string().contains(right), "{refused}");
    }
    assert_eq!(latch(&one).state().await.unwrap().left, 2);
    if engine.lists {
        assert_eq!(one.list("*").await.unwrap().len(), 0); // it is no lock
    }
    let free = one.mutex("deploy").try_acquire().await.unwrap();
    free.unwrap().release().await.unwrap();
}
