//! Reads that may become exclusive, upgrades and downgrades.

use leaselock::RwLock;
use leaselock::inspect::{BreakOptions, Holding, LockMode};
use leaselock::lease::{Shared, Upgradable};
use leaselock::rwlock::ChangeError;
use leaselock::{AcquireError, Client, Lease, LeaseView, LostReason};
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::support::{LONG, by_message, eventually, is_free, millis, soon, until_queued};

const NAME: &str = "config";

async fn locks<const N: usize>(engine: &Engine) -> [(Client, RwLock); N] {
    let mut locks = Vec::new();
    for _ in 0..N {
        let client = engine.client_of_one_store().await;
        let lock = client.rwlock(NAME).ttl(LONG);
        locks.push((client, lock));
    }
    locks.try_into().ok().unwrap()
}

fn reader(lock: &RwLock) -> JoinHandle<Result<Lease<Shared>, AcquireError>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.read().await })
}

fn writer(lock: &RwLock, priority: i32) -> JoinHandle<Result<Lease, AcquireError>> {
    let lock = lock.clone().priority(priority);
    tokio::spawn(async move { lock.write().await })
}

fn upgrading(up: Lease<Upgradable>) -> JoinHandle<Result<Lease, ChangeError<Upgradable>>> {
    tokio::spawn(async move { up.upgrade().await })
}

async fn granted<T, E: std::fmt::Debug>(waiting: JoinHandle<Result<T, E>>) -> T {
    soon(waiting).await.unwrap().unwrap()
}

/// Two that both waited to write would wait for each other for ever.
pub(super) async fn one_upgradable_reader_at_a_time_reads_beside_all_others(engine: &Engine) {
    let [(_, ours), (two, theirs)] = locks(engine).await;
    let before = theirs.read().await.unwrap();
    let up = ours.upgradable_read().await.unwrap();
    let after = theirs.read().await.unwrap();
    assert_eq!([before.fence(), after.fence()], [up.fence(); 2]);
    assert!(theirs.try_upgradable_read().await.unwrap().is_none());
    assert!(theirs.try_write().await.unwrap().is_none());
    let lock = theirs.clone();
    let second = tokio::spawn(async move { lock.upgradable_read().await });
    until_queued(&two, NAME, 1).await;
    for reader in [before, after] {
        reader.release().await.unwrap();
    }
    assert!(!second.is_finished(), "only readers have released");
    up.release().await.unwrap();
    granted(second).await.release().await.unwrap();
    assert!(is_free(&two, NAME).await);
}

/// Its read stays all the time, so that no client writes in between.
pub(super) async fn an_upgrade_waits_for_all_readers_in_front_of_everybody(engine: &Engine) {
    let [(one, ours), (_, theirs)] = locks(engine).await;
    let readers = [theirs.read().await.unwrap(), theirs.read().await.unwrap()];
    let up = ours.upgradable_read().await.unwrap();
    let (read, lost) = (up.fence(), up.lost());
    let urgent = writer(&theirs, 5);
    until_queued(&one, NAME, 1).await;
    let upgrade = upgrading(up);
    until_queued(&one, NAME, 2).await;
    let first = one.inspect(NAME).await.unwrap().queue.remove(0);
    assert_eq!(
        (first.process.client.as_str(), first.priority),
        (one.id(), 0)
    );
    if engine.wakes() {
        // Without wake-ups nothing shows that the waiter is alive.
        assert!(theirs.try_read().await.unwrap().is_none());
    }
    for reader in readers {
        assert!(!upgrade.is_finished() && !lost.is_lost());
        reader.release().await.unwrap();
    }
    let writing = match engine.wakes() {
        true => by_message(upgrade).await.unwrap().unwrap(),
        false => granted(upgrade).await,
    };
    assert!(writing.fence() > read && !urgent.is_finished());
    assert_eq!(soon(lost).await.reason, LostReason::Released);
    assert!(writing.is_held() && theirs.try_read().await.unwrap().is_none());
    let wrote = writing.fence();
    writing.release().await.unwrap();
    let next = granted(urgent).await;
    assert!(next.fence() > wrote);
    next.release().await.unwrap();
}

pub(super) async fn a_try_to_upgrade_gives_the_read_back_or_passes_the_waiters(engine: &Engine) {
    let [(one, ours), (_, theirs)] = locks(engine).await;
    let other = theirs.read().await.unwrap();
    let up = ours.upgradable_read().await.unwrap();
    let waiting = writer(&theirs, 0);
    until_queued(&one, NAME, 1).await;
    let busy = up.try_upgrade().await.unwrap_err();
    let AcquireError::TimedOut { own, .. } = *busy.error else {
        panic!("{busy:?}")
    };
    assert!(!own && busy.lease.is_held());
    other.release().await.unwrap();
    let writing = busy.lease.try_upgrade().await.unwrap();
    assert!(!waiting.is_finished() && theirs.try_read().await.unwrap().is_none());
    writing.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
}

pub(super) async fn an_upgrade_that_gives_up_keeps_its_read_and_lets_in_those_behind_it(
    engine: &Engine,
) {
    let [(one, ours), (two, theirs)] = locks(engine).await;
    let other = theirs.read().await.unwrap();
    let up = ours.upgradable_read().await.unwrap();
    let fence = up.fence();
    let upgrade = tokio::spawn(async move { up.upgrade_within(millis(700)).await });
    until_queued(&one, NAME, 1).await;
    let behind = reader(&theirs);
    let gave_up = soon(upgrade).await.unwrap().unwrap_err();
    assert!(matches!(
        *gave_up.error,
        AcquireError::TimedOut { own: false, .. }
    ));
    let up = gave_up.lease;
    assert!(up.is_held() && up.fence() == fence);
    let behind = match engine.wakes() {
        true => by_message(behind).await.unwrap().unwrap(),
        false => granted(behind).await,
    };
    assert!(theirs.try_write().await.unwrap().is_none());
    assert!(theirs.try_upgradable_read().await.unwrap().is_none());
    for reader in [other, behind] {
        reader.release().await.unwrap();
    }
    up.upgrade().await.unwrap().release().await.unwrap();
    assert!(is_free(&two, NAME).await);
}

pub(super) async fn a_dropped_upgrade_releases_its_read_too(engine: &Engine) {
    if !engine.wakes() {
        return; // without wake-ups a reader passes an upgrade that waits
    }
    let [(one, ours), (two, theirs)] = locks(engine).await;
    let other = theirs.read().await.unwrap();
    let up = ours.upgradable_read().await.unwrap();
    let upgrade = upgrading(up);
    until_queued(&one, NAME, 1).await;
    let behind = reader(&theirs);
    until_queued(&one, NAME, 2).await;
    upgrade.abort();
    granted(behind).await.release().await.unwrap();
    eventually("the upgradable read is released", async || {
        let up = theirs.try_upgradable_read().await.unwrap();
        up.is_some()
    })
    .await;
    other.release().await.unwrap();
    eventually("nothing is held", async || is_free(&two, NAME).await).await;
}

/// The readers at the head come in beside it. A writer behind them waits for them all.
pub(super) async fn a_downgrade_leaves_no_gap_and_lets_in_the_readers_that_wait(engine: &Engine) {
    if !engine.wakes() {
        return; // without wake-ups the first that polls is granted
    }
    let [(one, ours), (_, theirs)] = locks(engine).await;
    let writing = ours.write().await.unwrap();
    let (wrote, lost) = (writing.fence(), writing.lost());
    let mut readers = Vec::new();
    for number in 1..=2 {
        readers.push(reader(&theirs));
        until_queued(&one, NAME, number).await;
    }
    let next = writer(&theirs, 0);
    until_queued(&one, NAME, 3).await;
    let reading = ours.downgrade(writing).await.unwrap();
    assert!(reading.fence() > wrote);
    assert_eq!(soon(lost).await.reason, LostReason::Released);
    for reader in readers {
        let reader = by_message(reader).await.unwrap().unwrap();
        assert_eq!(reader.fence(), reading.fence());
        reader.release().await.unwrap();
    }
    assert!(reading.is_held() && !next.is_finished());
    reading.release().await.unwrap();
    let next = by_message(next).await.unwrap().unwrap();
    next.release().await.unwrap();
}

pub(super) async fn one_lease_goes_down_and_up_with_larger_fences(engine: &Engine) {
    let [(one, ours), (_, theirs)] = locks(engine).await;
    let mut writing = ours.write().await.unwrap();
    let mut last = writing.fence();
    for _ in 0..3 {
        let up = ours.downgrade_to_upgradable(writing).await.unwrap();
        assert!(up.fence() > last && theirs.try_write().await.unwrap().is_none());
        let beside = theirs.try_read().await.unwrap().unwrap();
        assert_eq!(beside.fence(), up.fence());
        last = up.fence();
        beside.release().await.unwrap();
        writing = up.upgrade().await.unwrap();
        assert!(writing.fence() > last && theirs.try_read().await.unwrap().is_none());
        last = writing.fence();
    }
    let up = ours.downgrade_to_upgradable(writing).await.unwrap();
    let reading = up.downgrade().await.unwrap();
    let other = theirs.try_upgradable_read().await.unwrap().unwrap();
    assert_eq!(other.fence(), reading.fence());
    drop(other);
    reading.release().await.unwrap();
    eventually("nothing is held", async || is_free(&one, NAME).await).await;
}

/// Also while it waits, and across each change.
pub(super) async fn a_lease_that_is_changed_is_renewed_all_the_time(engine: &Engine) {
    let [(one, _), (two, theirs)] = locks(engine).await;
    let ttl = millis(1_500);
    let ours = one.rwlock(NAME).ttl(ttl);
    let renewed = async |held: LeaseView| {
        let first = held.deadline();
        eventually("its deadline has moved by a ttl", async || {
            assert!(held.is_held() && !is_free(&two, NAME).await);
            held.deadline() > first.plus(ttl)
        })
        .await;
    };
    let other = theirs.read().await.unwrap();
    let up = ours.upgradable_read().await.unwrap();
    renewed(up.view().into()).await;
    let view = up.view();
    let upgrade = upgrading(up);
    until_queued(&two, NAME, 1).await;
    renewed(view.into()).await;
    other.release().await.unwrap();
    let writing = granted(upgrade).await;
    renewed(writing.view().into()).await;
    let up = ours.downgrade_to_upgradable(writing).await.unwrap();
    renewed(up.view().into()).await;
    let reading = up.downgrade().await.unwrap();
    renewed(reading.view().into()).await;
    reading.release().await.unwrap();
    assert!(is_free(&two, NAME).await);
}

pub(super) async fn inspect_shows_an_upgradable_reader_and_its_upgrade(engine: &Engine) {
    let [(one, ours), (_, theirs)] = locks(engine).await;
    let up = ours.upgradable_read().await.unwrap();
    let modes = async || match one.inspect(NAME).await.unwrap().state {
        Holding::Held { holders, count, .. } => {
            assert_eq!(holders.len(), count);
            holders.iter().map(|holder| holder.mode).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(modes().await, [LockMode::Upgradable]);
    let other = theirs.read().await.unwrap();
    assert_eq!(modes().await, [LockMode::Upgradable, LockMode::Shared]);
    let upgrade = upgrading(up);
    until_queued(&one, NAME, 1).await;
    let waiting = one.inspect(NAME).await.unwrap().queue;
    assert_eq!(waiting[0].mode, LockMode::Exclusive);
    other.release().await.unwrap();
    let writing = granted(upgrade).await;
    let seen = one.inspect(NAME).await.unwrap();
    let Some(holder) = seen.state.exclusive().cloned() else {
        panic!("{seen:?}")
    };
    assert_eq!(holder.fence, writing.fence());
    writing.release().await.unwrap();
}

pub(super) async fn an_upgradable_read_and_a_downgrade_are_refused_with_a_count_of_replicas(
    engine: &Engine,
) {
    let [(_, lock)] = locks(engine).await;
    let counts = lock.clone().min_replicas(1, millis(100));
    let refused = counts.try_upgradable_read().await.unwrap_err();
    assert!(matches!(refused, AcquireError::Invalid(_)), "{refused}");
    assert!(refused.to_string().contains("min_replicas"), "{refused}");
    let writing = lock.write().await.unwrap();
    let refused = counts.downgrade(writing).await.unwrap_err();
    assert!(matches!(*refused.error, AcquireError::Invalid(_)));
    assert!(refused.lease.is_held());
    refused.lease.release().await.unwrap();
}

pub(super) async fn an_upgrade_of_a_read_that_is_over_says_so(engine: &Engine) {
    let [(one, ours), (_, theirs)] = locks(engine).await;
    let other = theirs.read().await.unwrap();
    let up = ours.upgradable_read().await.unwrap();
    let upgrade = upgrading(up);
    until_queued(&one, NAME, 1).await;
    one.break_lease(NAME, BreakOptions::default().now())
        .await
        .unwrap();
    let over = soon(upgrade).await.unwrap().unwrap_err();
    assert!(matches!(*over.error, AcquireError::Lost(_)), "{over:?}");
    assert!(!over.lease.is_held());
    let again = over.lease.try_upgrade().await.unwrap_err();
    assert!(matches!(*again.error, AcquireError::Lost(_)), "{again:?}");
    drop((again, other));
    let writing = ours.write().await.unwrap();
    writing.release().await.unwrap();
}

pub(super) async fn only_a_writer_of_that_name_is_downgraded(engine: &Engine) {
    let [(one, ours), (_, theirs)] = locks(engine).await;
    let elsewhere = one.rwlock("other").ttl(LONG);
    let writing = ours.write().await.unwrap();
    let refused = elsewhere.downgrade(writing).await.unwrap_err();
    assert!(matches!(*refused.error, AcquireError::Invalid(_)));
    let refused = theirs.downgrade(refused.lease).await.unwrap_err();
    assert!(matches!(*refused.error, AcquireError::Invalid(_)));
    assert!(refused.lease.is_held());
    refused.lease.release().await.unwrap();
}
