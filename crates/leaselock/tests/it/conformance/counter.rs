//! The counter.

use std::collections::BTreeSet;

use leaselock::counter::CounterError;
use leaselock::{Client, Fence, Name, Sequencer};
use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::support::{eventually, millis, soon};

async fn pair(engine: &Engine) -> [Client; 2] {
    [
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
    ]
}

/// Each gets a number that no other gets, because each adds 1.
pub(super) async fn the_changes_of_many_tasks_of_several_clients_add_up(engine: &Engine) {
    const TASKS: usize = 8;
    const EACH: usize = 25;
    let clients = pair(engine).await;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        // A handle of its own for each task: what is shared is shared by the client.
        let visits = clients[task % 2].counter("visits");
        tasks.spawn(async move {
            let mut numbers = Vec::new();
            for _ in 0..EACH {
                numbers.push(visits.incr().await.unwrap());
            }
            assert!(numbers.is_sorted());
            numbers
        });
    }
    let mut numbers = BTreeSet::new();
    while let Some(task) = soon(tasks.join_next()).await {
        numbers.extend(task.unwrap());
    }
    let all = i64::try_from(TASKS * EACH).unwrap();
    assert_eq!(numbers, (1..=all).collect());
    assert_eq!(clients[1].counter("visits").get().await.unwrap(), all);
    assert_eq!(clients[0].counter("visits").add(-all).await.unwrap(), 0);
    assert_eq!(clients[0].counter("others").get().await.unwrap(), 0);
}

pub(super) async fn a_number_is_replaced_only_if_it_is_the_expected_one(engine: &Engine) {
    let [one, two] = pair(engine).await.map(|client| client.counter("visits"));
    one.compare_and_set(0, 7).await.unwrap();
    for (expected, new) in [(0, 1), (-7, 7)] {
        let differs = two.compare_and_set(expected, new).await.unwrap_err();
        assert!(
            matches!(differs, CounterError::Mismatch { theirs: 7, .. }),
            "{differs}"
        );
    }
    two.compare_and_set(7, -1).await.unwrap();
    assert_eq!(one.get().await.unwrap(), -1);
}

pub(super) async fn a_sum_that_needs_more_than_64_bits_is_refused_and_the_number_stays(
    engine: &Engine,
) {
    let [one, two] = pair(engine).await.map(|client| client.counter("visits"));
    assert_eq!(one.add(i64::MAX - 1).await.unwrap(), i64::MAX - 1);
    // What leaves together leaves one after the other then, and some of it fits.
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let counter = two.clone();
        tasks.spawn(async move { counter.incr().await });
    }
    let mut counted = Vec::new();
    while let Some(task) = soon(tasks.join_next()).await {
        match task.unwrap() {
            Ok(number) => counted.push(number),
            Err(CounterError::Overflow { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(counted, [i64::MAX]);
    assert_eq!(one.get().await.unwrap(), i64::MAX);
    two.compare_and_set(i64::MAX, i64::MIN).await.unwrap();
    let refused = one.add(-1).await.unwrap_err();
    let CounterError::Overflow { value, .. } = &refused else {
        panic!("{refused}")
    };
    assert_eq!(*value, i64::MIN);
    assert!(refused.to_string().contains("64 bits"), "{refused}");
}

pub(super) async fn a_counter_with_a_ttl_begins_anew_after_it(engine: &Engine) {
    let client = engine.client_of_one_store().await;
    let [kept, ends] = ["kept", "ends"].map(|name| client.counter(name));
    let ends = ends.keep_for(millis(1000));
    kept.add(5).await.unwrap();
    ends.add(5).await.unwrap();
    eventually("it has ended", async || {
        let refused = ends.compare_and_set(77, 1).await; // changes nothing, so it does not keep the counter either
        assert!(
            matches!(refused, Err(CounterError::Mismatch { .. })),
            "{refused:?}"
        );
        ends.get().await.unwrap() == 0
    })
    .await;
    assert_eq!(ends.incr().await.unwrap(), 1);
    assert_eq!(kept.get().await.unwrap(), 5);

    // A refused change of a holder leaves no number, and binds the counter to its lock for no longer than one that counts.
    let mut shown = Vec::new();
    for lock in ["import", "export"] {
        let lease = client.mutex(lock).acquire().await.unwrap();
        shown.push(lease.sequencer().unwrap());
        lease.release().await.unwrap();
    }
    let [import, export] = [0, 1].map(|at| {
        let bound = client.counter("bound").keep_for(millis(1000));
        bound.fenced(&shown[at])
    });
    let refused = import.compare_and_set(77, 1).await;
    assert!(
        matches!(refused, Err(CounterError::Mismatch { .. })),
        "{refused:?}"
    );
    eventually("it is bound no more", async || export.incr().await.is_ok()).await;
}

/// By the rule of the fence checkers: a read of the later holder is enough, and equal numbers are told apart by owner.
pub(super) async fn a_change_of_a_late_holder_is_refused_and_does_not_count(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let mut shown = Vec::new();
    for client in [&one, &two] {
        let lease = client.mutex("import").acquire().await.unwrap();
        shown.push(lease.sequencer().unwrap());
        lease.release().await.unwrap();
    }
    let [late, later] = [0, 1].map(|at| one.counter("imported").fenced(&shown[at]));
    assert_eq!(late.add(5).await.unwrap(), 5);
    let differs = later.compare_and_set(0, 1).await.unwrap_err();
    assert!(
        matches!(differs, CounterError::Mismatch { theirs: 5, .. }),
        "{differs}"
    );
    let fence = shown[1].fence();
    let twin = Sequencer::new(shown[1].name().clone(), fence, "other").unwrap();
    for refused in [
        late.incr().await.map(drop),
        late.compare_and_set(5, 6).await,
        two.counter("imported").fenced(&twin).incr().await.map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, CounterError::Stale { seen, .. } if seen == fence),
            "{refused}"
        );
        assert!(refused.to_string().contains("is stale"), "{refused}");
    }
    assert_eq!(later.incr().await.unwrap(), 6);
    // Fencing tokens of different names cannot be compared, so a larger one is refused too.
    let elsewhere = Sequencer::new(
        Name::new("export").unwrap(),
        Fence::new(fence.get() + 1),
        "a",
    );
    let other = two.counter("imported").fenced(&elsewhere.unwrap());
    for refused in [
        other.incr().await.map(drop),
        other.compare_and_set(6, 7).await,
    ] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(&refused, CounterError::OtherName { lock, .. } if lock == shown[1].name()),
            "{refused}"
        );
        assert!(refused.to_string().contains("`import` does"), "{refused}");
    }
    // Without a sequencer nothing is compared.
    assert_eq!(two.counter("imported").incr().await.unwrap(), 7);
}

pub(super) async fn a_counter_that_is_asked_for_in_a_bad_way_is_refused(engine: &Engine) {
    let client = engine.client_of_one_store().await;
    let day = millis(24 * 3600 * 1000);
    for (refused, right) in [
        (client.counter("").incr().await, "one byte"),
        (client.counter("a:ll:b").get().await, ":ll:"),
        (
            client.counter("a").keep_for(millis(0)).incr().await,
            "1 s to 366",
        ),
        (
            client.counter("a").keep_for(day * 367).incr().await,
            "1 s to 366",
        ),
        (
            client.counter("a").min_replicas(0, day).incr().await,
            "at least one",
        ),
        (
            client.counter("a").min_replicas(1, day).incr().await,
            "1 minute",
        ),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, CounterError::Invalid(_)), "{refused}");
        assert!(refused.to_string().contains(right), "{refused}");
    }
    client.counter("a").incr().await.unwrap();
    if engine.lists {
        assert_eq!(client.list("*").await.unwrap().len(), 0); // it is no lock
    }
    let free = client.mutex("a").try_acquire().await.unwrap();
    free.unwrap().release().await.unwrap();
}
