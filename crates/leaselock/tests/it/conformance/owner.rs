//! Owners: what one of them holds, it may acquire again.

use leaselock::inspect::BreakOptions;
use leaselock::{AcquireError, Client, Lease, LeaseError, LostReason, ReleaseError, Wait};

use crate::engine::Engine;
use crate::support::{LONG, eventually, millis, soon, until_queued, waiter};

async fn is_busy(client: &Client, name: &str) -> bool {
    let tried = client.mutex(name).ttl(LONG).try_acquire().await.unwrap();
    tried.is_none()
}

async fn until_free(client: &Client, name: &str) {
    eventually("the last guard has released it", async || {
        !is_busy(client, name).await
    })
    .await;
}

pub(super) async fn an_owner_holds_until_its_last_guard_ends_in_whatever_order(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for (round, order) in orders.into_iter().enumerate() {
        let name = format!("job-{round}");
        let me = one.owner("import 42");
        let mutex = one.mutex(&name).ttl(LONG).owner(&me);
        let mut guards = Vec::new();
        for _ in order {
            guards.push(Some(soon(mutex.acquire()).await.unwrap()));
        }
        let fences: Vec<_> = guards.iter().flatten().map(Lease::fence).collect();
        assert!(fences[0].is_some() && fences.iter().all(|fence| *fence == fences[0]));
        assert!(
            one.mutex(&name).try_acquire().await.unwrap().is_none(),
            "without the owner it is busy"
        );
        for (ended, guard) in order.into_iter().enumerate() {
            assert!(is_busy(&two, &name).await, "{order:?} after {ended}");
            assert!(guards.iter().flatten().all(Lease::is_held));
            let guard = guards[guard].take().unwrap();
            match ended {
                0 => guard.release().await.unwrap(),
                _ => drop(guard),
            }
        }
        until_free(&two, &name).await;
    }
}

pub(super) async fn guards_end_in_other_tasks_and_by_a_panic(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let me = one.owner("import 42");
    let mutex = one.mutex("job").ttl(LONG).owner(&me);
    let outer = mutex.acquire().await.unwrap();
    let inner = mutex.clone();
    let panicked = tokio::spawn(async move {
        let _guard = inner.acquire().await.unwrap();
        panic!("on purpose");
    });
    assert!(soon(panicked).await.unwrap_err().is_panic());
    assert!(outer.is_held() && is_busy(&two, "job").await);
    let inner = mutex.clone();
    let there = soon(tokio::spawn(async move { inner.acquire().await.unwrap() }))
        .await
        .unwrap();
    soon(tokio::spawn(async move { drop(outer) }))
        .await
        .unwrap();
    assert!(there.is_held() && is_busy(&two, "job").await);
    there.release().await.unwrap();
    until_free(&two, "job").await;
}

/// The innermost guard asks for the shortest hold, which ends all of them.
pub(super) async fn a_loss_is_that_of_all_guards_and_is_told_until_the_last_is_dropped(
    engine: &Engine,
) {
    let one = engine.client().await;
    let me = one.owner("import 42");
    let mutex = one.mutex("job").ttl(millis(2_000)).owner(&me);
    let outer = mutex.acquire().await.unwrap();
    let inner = mutex
        .clone()
        .max_hold(millis(2_500))
        .acquire()
        .await
        .unwrap();
    let innermost = mutex.clone().max_hold(LONG).acquire().await.unwrap();
    let mut guards = vec![outer, inner, innermost];
    for guard in &guards {
        assert_eq!(soon(guard.lost()).await.reason, LostReason::MaxHoldReached);
    }
    while let Some(guard) = guards.pop() {
        let before = mutex.try_acquire().await;
        assert!(
            matches!(&before, Err(AcquireError::LostBefore(lost)) if lost.fence == guard.fence()),
            "{before:?}"
        );
        assert!(!guard.is_held());
        drop(guard);
    }
    let again = soon(mutex.acquire()).await.unwrap();
    assert!(again.is_held());
    again.release().await.unwrap();
}

/// The other guards may work on until its end.
pub(super) async fn a_broken_lease_of_an_owner_is_given_back_with_its_last_guard(engine: &Engine) {
    let (one, two) = (
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
    );
    let me = one.owner("import 42");
    let mutex = one.mutex("job").ttl(LONG).owner(&me);
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(soon(mutex.acquire()).await.unwrap());
    }
    let next = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    let broken = two.break_lease("job", BreakOptions::default()).await;
    assert!(broken.unwrap().remaining.is_some());
    drop(guards[0].extend(LONG).await); // so that the client learns of it
    assert_eq!(soon(guards[0].lost()).await.reason, LostReason::Broken);

    let told = guards.remove(1).release().await.unwrap_err();
    assert!(
        matches!(&told, ReleaseError::NotHeld(lost) if lost.reason == LostReason::Broken),
        "{told:?}"
    );
    drop(guards.remove(1));
    let seen = one.inspect("job").await.unwrap();
    let holder = seen.state.exclusive().unwrap();
    assert_eq!(holder.process.as_ref().unwrap().client, one.id());
    assert!(holder.broken && !next.is_finished());
    guards.remove(0).release().await.unwrap(); // no other client has held it
    let next = soon(next).await.unwrap().unwrap();
    next.release().await.unwrap();
}

/// The second one does not wait in the queue behind the first one's lease.
pub(super) async fn tasks_of_one_owner_that_acquire_at_once_get_one_lease(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let theirs = two.mutex("job").ttl(LONG).acquire().await.unwrap();
    let me = one.owner("import 42");
    let mutex = one.mutex("job").ttl(LONG).owner(&me);
    let tasks = [(); 3].map(|()| {
        let mutex = mutex.clone();
        tokio::spawn(async move { mutex.acquire().await.unwrap() })
    });
    eventually("one of them tries", async || {
        let limit = Wait::Timeout(millis(1));
        let busy = mutex.clone().wait(limit).acquire().await.unwrap_err();
        matches!(busy, AcquireError::TimedOut { own: true, .. })
    })
    .await;
    theirs.release().await.unwrap();
    let mut guards = Vec::new();
    for task in tasks {
        guards.push(soon(task).await.unwrap());
    }
    assert!(
        guards
            .iter()
            .all(|guard| guard.fence() == guards[0].fence())
    );
    assert!(is_busy(&two, "job").await);
    drop(guards);
    until_free(&two, "job").await;
}

pub(super) async fn a_lent_lease_is_extended_by_its_borrower_and_released_by_its_lender_alone(
    engine: &Engine,
) {
    let (one, two) = (engine.client().await, engine.client().await);
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let handle = lease.lend().unwrap().to_secret_string();
    let lent = || two.attach(handle.parse().unwrap());
    assert_eq!(
        (lent().handle().fence(), lent().handle().sequencer()),
        (lease.fence(), lease.sequencer())
    );
    lent().extend(2 * LONG).await.unwrap();
    let refused = lent().release().await.unwrap_err();
    assert!(matches!(refused, ReleaseError::Invalid(_)), "{refused:?}");
    assert!(is_busy(&two, "job").await);
    lease.release().await.unwrap();
    let refused = lent().extend(LONG).await.unwrap_err();
    assert!(matches!(refused, LeaseError::Lost(_)), "{refused:?}");
    until_free(&one, "job").await;
}

pub(super) async fn reading_again_costs_nothing_also_while_a_writer_waits(engine: &Engine) {
    let (one, two) = (
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
    );
    let me = one.owner("import 42");
    let lock = one.rwlock("config").ttl(LONG).owner(&me);
    let outer = soon(lock.read()).await.unwrap();
    let writing = waiter(&two, "config", LONG);
    until_queued(&one, "config", 1).await;
    if engine.wakes() {
        assert!(one.rwlock("config").try_read().await.unwrap().is_none());
    }
    let inner = soon(lock.read()).await.unwrap();
    assert_eq!(inner.fence(), outer.fence());
    let stuck = soon(lock.write()).await.unwrap_err();
    let AcquireError::Deadlock { circle, .. } = &stuck else {
        panic!("{stuck:?}")
    };
    assert_eq!((circle.len(), circle[0].owner.as_str()), (1, "import 42"));
    assert!(
        stuck.to_string().contains("release the read first"),
        "{stuck}"
    );
    outer.release().await.unwrap();
    assert!(!writing.is_finished());
    inner.release().await.unwrap();
    soon(writing)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

pub(super) async fn writing_covers_reading_and_permits_are_not_reentrant(engine: &Engine) {
    let (one, two) = (
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
    );
    let me = one.owner("import 42");
    let lock = one.rwlock("config").ttl(LONG).owner(&me);
    let mutex = one.mutex("config").ttl(LONG).owner(&me);
    let pool = one.semaphore("config", 3).ttl(LONG).owner(&me);
    let writing = soon(lock.write()).await.unwrap();
    let reading = soon(lock.read()).await.unwrap();
    let alone = soon(mutex.acquire()).await.unwrap();
    assert_eq!(
        (reading.fence(), alone.fence()),
        (writing.fence(), writing.fence())
    );
    let stuck = soon(pool.acquire()).await.unwrap_err();
    assert!(matches!(stuck, AcquireError::Deadlock { .. }), "{stuck:?}");
    writing.release().await.unwrap();
    alone.release().await.unwrap();
    assert!(
        two.rwlock("config").try_read().await.unwrap().is_none(),
        "it still writes"
    );
    reading.release().await.unwrap();
    let first = soon(pool.acquire()).await.unwrap();
    let second = soon(pool.acquire_many(2)).await.unwrap();
    assert!(second.fence() > first.fence() && pool.try_acquire().await.unwrap().is_none());
    for stuck in [
        soon(mutex.acquire()).await.unwrap_err(),
        soon(lock.read()).await.unwrap_err(),
    ] {
        assert!(matches!(stuck, AcquireError::Deadlock { .. }), "{stuck:?}");
    }
    first.release().await.unwrap();
    let third = two
        .semaphore("config", 3)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    third.release().await.unwrap();
    second.release().await.unwrap();
}

pub(super) async fn an_owner_upgrades_its_only_guard_and_holds_the_name_in_the_new_way(
    engine: &Engine,
) {
    let client = engine.client_of_one_store().await;
    let other = engine.client_of_one_store().await;
    let me = client.owner("import 42");
    let lock = client.rwlock("job").ttl(LONG).owner(&me);
    let reading = soon(lock.upgradable_read()).await.unwrap();
    let inner = soon(lock.read()).await.unwrap();
    let refused = soon(reading.try_upgrade()).await.unwrap_err();
    assert!(refused.to_string().contains("other guards"), "{refused}");
    assert!(refused.lease.is_held() && inner.is_held());
    let asked = soon(lock.write()).await.unwrap_err();
    assert!(asked.to_string().contains("upgrade"), "{asked}");
    inner.release().await.unwrap();

    let writing = soon(refused.lease.upgrade()).await.unwrap();
    let again = soon(lock.write()).await.unwrap(); // covered: the owner writes
    assert_eq!(again.fence(), writing.fence());
    let also = lock.clone().downgrade(writing).await.unwrap_err();
    assert!(also.lease.is_held() && again.is_held());
    drop(again);
    let reading = soon(lock.downgrade(also.lease)).await.unwrap();
    let within = soon(lock.read()).await.unwrap();
    assert_eq!(within.fence(), reading.fence());
    reading.release().await.unwrap();
    let beside = soon(other.rwlock("job").ttl(LONG).read()).await.unwrap();
    assert!(beside.is_held() && within.is_held());
    within.release().await.unwrap();
    beside.release().await.unwrap();
    let alone = other.mutex("job").ttl(LONG).try_acquire().await.unwrap();
    assert!(alone.is_some(), "the owner holds nothing any more");
}
