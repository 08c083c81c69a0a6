//! The semaphore.

use leaselock::error::BreakError;
use leaselock::inspect::{BreakOptions, Holding, LockMode};
use leaselock::interop::Protocol;
use leaselock::lease::Permits;
use leaselock::{AcquireError, Client, Lease, LeaseError, ReleaseError};
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::support::{LONG, by_message, soon, until_queued, waiter};

const POOL: &str = "pool";

/// A request for so many of so many permits that waits.
fn waiting(
    client: &Client,
    count: u32,
    of: u32,
) -> JoinHandle<Result<Lease<Permits>, AcquireError>> {
    let pool = client.semaphore(POOL, of).ttl(LONG);
    tokio::spawn(async move { pool.acquire_many(count).await })
}

async fn clients<const N: usize>(engine: &Engine) -> [Client; N] {
    let mut clients = Vec::new();
    for _ in 0..N {
        clients.push(engine.client_of_one_store().await);
    }
    clients.try_into().ok().unwrap()
}

pub(super) async fn so_many_permits_are_had_and_no_more(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let pools = [&one, &two].map(|client| client.semaphore(POOL, 3).ttl(LONG));
    let first = pools[0].acquire().await.unwrap();
    let both = pools[1].try_acquire_many(2).await.unwrap().unwrap();
    assert_eq!((first.count(), both.count()), (1, 2));
    assert!(both.fence() > first.fence());
    for pool in &pools {
        assert!(pool.try_acquire().await.unwrap().is_none());
    }
    first.release().await.unwrap();
    assert!(pools[1].try_acquire_many(2).await.unwrap().is_none());
    let third = pools[1].try_acquire().await.unwrap().unwrap();
    both.release().await.unwrap();
    let both = pools[0].try_acquire_many(2).await.unwrap().unwrap();
    third.release().await.unwrap();
    both.release().await.unwrap();
}

pub(super) async fn a_request_for_many_is_not_overtaken_by_requests_for_few(engine: &Engine) {
    if !engine.wakes() {
        return; // without wake-ups the first that polls is granted
    }
    let [one, two] = clients(engine).await;
    let pool = one.semaphore(POOL, 4).ttl(LONG);
    let held = [pool.acquire().await.unwrap(), pool.acquire().await.unwrap()];
    let many = waiting(&two, 4, 4);
    until_queued(&one, POOL, 1).await;
    assert!(pool.try_acquire().await.unwrap().is_none());
    let few = waiting(&one, 1, 4);
    until_queued(&one, POOL, 2).await;
    for permit in held {
        permit.release().await.unwrap();
    }
    let many = soon(many).await.unwrap().unwrap();
    assert!(!few.is_finished());
    many.release().await.unwrap();
    soon(few).await.unwrap().unwrap().release().await.unwrap();
}

pub(super) async fn a_waiting_request_for_many_that_leaves_lets_in_those_behind_it(
    engine: &Engine,
) {
    if !engine.wakes() {
        return; // without wake-ups the first that polls is granted
    }
    let [one, two] = clients(engine).await;
    let held = one.semaphore(POOL, 4).ttl(LONG).acquire().await.unwrap();
    let many = waiting(&two, 4, 4);
    until_queued(&one, POOL, 1).await;
    let few = waiting(&one, 1, 4);
    until_queued(&one, POOL, 2).await;
    many.abort();
    let few = by_message(few).await;
    few.unwrap().unwrap().release().await.unwrap();
    held.release().await.unwrap();
}

pub(super) async fn permits_come_back_when_their_lease_expires_or_is_dropped(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let ttl = std::time::Duration::from_millis(400);
    let pool = one.semaphore(POOL, 2);
    let short = pool.clone().ttl(ttl).renewal(false);
    let short = short.acquire().await.unwrap();
    let dropped = pool.ttl(LONG).acquire().await.unwrap();
    let both = waiting(&two, 2, 2);
    until_queued(&one, POOL, 1).await;
    drop(dropped);
    let both = soon(both).await.unwrap().unwrap();
    assert!(!short.is_held() && short.release().await.is_err());
    both.release().await.unwrap();
}

pub(super) async fn a_mutex_of_that_name_waits_for_all_permits_and_keeps_others_out(
    engine: &Engine,
) {
    if !engine.wakes() {
        return; // without wake-ups the first that polls is granted
    }
    let [one, two] = clients(engine).await;
    let pool = one.semaphore(POOL, 2).ttl(LONG);
    let held = pool.acquire().await.unwrap();
    let drain = waiter(&two, POOL, LONG);
    until_queued(&one, POOL, 1).await;
    assert!(pool.try_acquire().await.unwrap().is_none());
    assert!(one.rwlock(POOL).try_read().await.unwrap().is_none());
    held.release().await.unwrap();
    let drained = soon(drain).await.unwrap().unwrap();
    let next = waiting(&one, 2, 2);
    until_queued(&one, POOL, 1).await;
    drained.release().await.unwrap();
    soon(next).await.unwrap().unwrap().release().await.unwrap();
}

pub(super) async fn more_permits_than_there_are_is_an_error_also_for_a_waiter(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let pool = one.semaphore(POOL, 3).ttl(LONG);
    let error = pool.try_acquire_many(4).await.unwrap_err();
    assert!(
        matches!(error, AcquireError::TooMany { permits: 3, .. }),
        "{error}"
    );
    let held = pool.acquire().await.unwrap();
    let waits = waiting(&two, 3, 3);
    until_queued(&one, POOL, 1).await;
    assert_eq!(pool.set_permits(2).await.unwrap().used, 1);
    let error = match engine.wakes() {
        true => by_message(waits).await,
        false => soon(waits).await,
    };
    let error = error.unwrap().unwrap_err();
    assert!(
        matches!(error, AcquireError::TooMany { permits: 2, .. }),
        "{error}"
    );
    until_queued(&one, POOL, 0).await;
    held.release().await.unwrap();
    for wrong in [
        one.semaphore(POOL, 0).try_acquire().await,
        pool.try_acquire_many(0).await,
    ] {
        assert!(matches!(wrong, Err(AcquireError::Invalid(_))));
    }
}

pub(super) async fn the_number_of_permits_is_pinned_and_grants_waiters_at_once(engine: &Engine) {
    if !engine.wakes() {
        return; // without wake-ups the first that polls is granted
    }
    let [one, two] = clients(engine).await;
    let pool = one.semaphore(POOL, 1).ttl(LONG);
    let held = pool.acquire().await.unwrap();
    let waits = waiting(&two, 1, 1);
    until_queued(&one, POOL, 1).await;
    assert_eq!(pool.set_permits(2).await.unwrap().used, 2);
    let second = by_message(waits).await;
    let second = second.unwrap().unwrap();
    // What a request says of the number does not count now.
    let more = two.semaphore(POOL, 9);
    assert!(more.try_acquire().await.unwrap().is_none());
    let unpinned = pool.unset_permits().await.unwrap();
    assert_eq!((unpinned.used, unpinned.pinned), (2, false));
    let third = more.try_acquire().await.unwrap().unwrap();
    for permit in [held, second, third] {
        permit.release().await.unwrap();
    }
}

pub(super) async fn inspect_shows_who_holds_permits_how_many_there_are_and_what_waiters_ask_for(
    engine: &Engine,
) {
    let [one, two] = clients(engine).await;
    let pool = one.semaphore(POOL, 5).ttl(LONG);
    let unused = pool.permits().await.unwrap();
    assert_eq!((unused.total, unused.used, unused.pinned), (5, 0, false));
    let held = pool.acquire_many(3).await.unwrap();
    let other = two.semaphore(POOL, 5).ttl(LONG).acquire().await.unwrap();
    let waits = waiting(&two, 2, 5);
    until_queued(&one, POOL, 1).await;
    let seen = two.inspect(POOL).await.unwrap();
    let Holding::Held { holders, count, .. } = &seen.state else {
        panic!("{seen:?}")
    };
    assert_eq!(*count, 2);
    for (client, mode, lease) in [
        (&one, LockMode::Permits(3), &held),
        (&two, LockMode::Permits(1), &other),
    ] {
        let shown = holders.iter().find(|holder| holder.mode == mode).unwrap();
        assert_eq!(shown.process.as_ref().unwrap().client, client.id());
        assert_eq!(shown.fence, lease.fence());
        assert!(shown.since.is_some() && shown.remaining > Some(LONG / 2));
    }
    let permits = seen.permits.unwrap();
    assert_eq!((permits.total, permits.used, permits.pinned), (5, 4, false));
    assert_eq!(permits.available(), 1);
    // A handle with another number reads the same.
    assert_eq!(two.semaphore(POOL, 9).permits().await.unwrap(), permits);
    assert_eq!(seen.queue[0].mode, LockMode::Permits(2));
    pool.set_permits(4).await.unwrap();
    let permits = one.inspect(POOL).await.unwrap().permits.unwrap();
    assert_eq!((permits.total, permits.used, permits.pinned), (4, 4, true));
    pool.set_permits(3).await.unwrap();
    let permits = one.inspect(POOL).await.unwrap().permits.unwrap();
    assert_eq!((permits.used, permits.available()), (4, 0), "one too many");
    pool.set_permits(4).await.unwrap();
    held.release().await.unwrap();
    let two_more = soon(waits).await.unwrap().unwrap();
    other.release().await.unwrap();
    two_more.release().await.unwrap();
    let seen = two.inspect(POOL).await.unwrap();
    let permits = seen.permits.unwrap();
    assert_eq!(seen.state, Holding::Free);
    assert_eq!((permits.total, permits.used), (4, 0));
}

pub(super) async fn a_break_takes_one_hold_of_permits_by_its_fence_or_all_of_them(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let pool = one.semaphore(POOL, 3).ttl(LONG);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(pool.acquire().await.unwrap());
    }
    let fence = held[1].fence().unwrap();
    let terms = BreakOptions::default().now();
    let none = leaselock::Fence::new(fence.get() + 1_000_000);
    let spared = two.break_lease(POOL, terms.clone().only(none)).await;
    assert!(matches!(spared, Err(BreakError::Mismatch { .. })));
    let broken = two
        .break_lease(POOL, terms.clone().only(fence))
        .await
        .unwrap();
    assert_eq!((broken.count, broken.fence), (1, Some(fence)));
    assert_eq!(
        broken.process.as_ref().map(|it| &*it.client),
        Some(one.id())
    );
    let permits = two.inspect(POOL).await.unwrap().permits.unwrap();
    assert_eq!((permits.total, permits.used), (3, 2));
    assert!(held.remove(1).release().await.is_err());
    let next = two.semaphore(POOL, 3).ttl(LONG).try_acquire().await;
    let next = next.unwrap().unwrap();
    let broken = two.break_lease(POOL, terms).await.unwrap();
    assert_eq!((broken.count, broken.fence), (3, None));
    for permit in held.into_iter().chain([next]) {
        assert!(permit.release().await.is_err());
    }
    let all = pool.try_acquire_many(3).await.unwrap().unwrap();
    all.release().await.unwrap();
}

/// Another library's lock has one holder, and counts nothing.
pub(super) async fn detached_permits_are_extended_and_released_by_another_client(engine: &Engine) {
    let [one, two] = clients(engine).await;
    let (ours, theirs) = (
        one.semaphore(POOL, 3).ttl(LONG),
        two.semaphore(POOL, 3).ttl(LONG),
    );
    let (both, third) = (
        ours.acquire_many(2).await.unwrap(),
        ours.acquire().await.unwrap(),
    );
    let fence = both.fence();
    let handle = both.detach().await.unwrap().to_secret_string();
    third.release().await.unwrap();
    one.close().await;

    let attached = two.attach(handle.parse().unwrap());
    let shown = attached.handle();
    let seen = (shown.name().as_str(), shown.kind(), shown.fence());
    assert_eq!(seen, (POOL, "semaphore", fence));
    attached.extend(2 * LONG).await.unwrap();
    assert!(theirs.try_acquire_many(2).await.unwrap().is_none());
    theirs
        .try_acquire()
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    let seen = two.inspect(POOL).await.unwrap();
    let Holding::Held { holders, .. } = seen.state else {
        panic!("{seen:?}")
    };
    assert_eq!((holders.len(), holders[0].mode), (1, LockMode::Permits(2)));
    assert_eq!(holders[0].fence, fence, "it can be broken by its fence");
    attached.release().await.unwrap();
    let all = theirs.try_acquire_many(3).await.unwrap().unwrap();
    all.release().await.unwrap();
    let again = two.attach(handle.parse().unwrap()).release().await;
    assert!(matches!(again, Err(ReleaseError::NotHeld(_))), "{again:?}");
}

pub(super) async fn lent_permits_are_extended_by_their_borrower_and_stay_with_the_lender(
    engine: &Engine,
) {
    let [one, two] = clients(engine).await;
    let both = one
        .semaphore(POOL, 3)
        .ttl(LONG)
        .acquire_many(2)
        .await
        .unwrap();
    let handle = both.lend().unwrap().to_secret_string();
    let lent = two.attach(handle.parse().unwrap());
    assert_eq!(
        (lent.handle().fence(), lent.handle().sequencer()),
        (both.fence(), both.sequencer())
    );
    lent.extend(2 * LONG).await.unwrap();
    let theirs = two.semaphore(POOL, 3).ttl(LONG);
    assert!(theirs.try_acquire_many(2).await.unwrap().is_none());
    both.release().await.unwrap();
    let refused = lent.extend(LONG).await.unwrap_err();
    assert!(matches!(refused, LeaseError::Lost(_)), "{refused:?}");
    theirs
        .acquire_many(3)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

pub(super) async fn permits_with_an_option_that_they_cannot_have_are_refused_and_not_held(
    engine: &Engine,
) {
    let [client] = clients(engine).await;
    let pool = client.semaphore(POOL, 2).ttl(LONG);
    for (wrong, what) in [
        (pool.clone().note("nightly"), "a note"),
        (pool.clone().protocol(Protocol::SetnxPexpire), "protocol"),
        (pool.clone().protocol(Protocol::Redisson), "protocol"),
    ] {
        let refusal = wrong.try_acquire().await.unwrap_err();
        assert!(matches!(refusal, AcquireError::Invalid(_)), "{refusal}");
        assert!(refusal.to_string().contains(what), "{refusal}");
        assert!(wrong.set_permits(1).await.is_err() && wrong.permits().await.is_err());
        assert!(wrong.validate().is_err());
    }
    let both = pool.try_acquire_many(2).await.unwrap().unwrap();
    both.release().await.unwrap();
}
