//! Redisson (Java): what its `RLock` does.

use leaselock::inspect::BreakOptions;
use leaselock::{Client, LostReason, ReleaseError};

use super::{Rig, acquired};
use crate::support::{LONG, by_message, eventually, millis, pttl, soon, until_queued, waiter};

#[tokio::test]
async fn lock_waits_and_its_watchdog_is_renewal() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine().ttl(millis(1_500))).await;
    let deadline = lease.deadline();
    eventually("a renewal", async || lease.deadline() > deadline).await;
    lease.release().await.unwrap();
    assert_eq!(
        pttl(&rig.server, "job"),
        -2,
        "no watchdog outlives the release"
    );
}

#[tokio::test]
async fn a_lease_time_is_a_ttl_without_renewal() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine().ttl(millis(2_000)).renewal(false)).await;
    assert_eq!(soon(lease.lost()).await.reason, LostReason::Expired);
}

#[tokio::test]
async fn try_lock_with_a_wait_time_is_acquire_within() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    assert!(rig.theirs().try_acquire().await.unwrap().is_none());
    assert!(soon(rig.theirs().acquire_within(millis(50))).await.is_err());
    lease.release().await.unwrap();
    assert!(soon(rig.theirs().acquire_within(millis(50))).await.is_ok());
}

#[tokio::test]
async fn the_head_of_the_queue_is_woken_and_no_other_waiter() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    let first = waiter(&rig.two, "job", LONG);
    until_queued(&rig.one, "job", 1).await;
    let second = rig.theirs().priority(-1);
    let second = tokio::spawn(async move { second.acquire().await });
    until_queued(&rig.one, "job", 2).await;
    lease.release().await.unwrap();
    let first = by_message(first).await.unwrap().unwrap();
    assert!(!second.is_finished());
    first.release().await.unwrap();
    assert!(by_message(second).await.unwrap().is_ok());
}

#[tokio::test]
async fn an_unlock_by_another_client_is_not_possible() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    rig.take_away().await;
    let next = acquired(&rig.theirs()).await;
    let late = lease.release().await;
    assert!(matches!(late, Err(ReleaseError::NotHeld(_))), "{late:?}");
    next.release().await.unwrap();
}

#[tokio::test]
async fn force_unlock_is_a_break_and_can_mean_one_holder_only() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    let fence = lease.fence().unwrap();
    let other = BreakOptions::default()
        .now()
        .only(leaselock::Fence::new(fence.get() + 1));
    assert!(rig.two.break_lease("job", other).await.is_err());
    let broken = rig
        .two
        .break_lease("job", BreakOptions::default().now().only(fence))
        .await;
    assert_eq!(broken.unwrap().fence, Some(fence));
    assert!(lease.release().await.is_err());
}

#[tokio::test]
async fn is_locked_and_remain_time_to_live_are_an_inspection() {
    let rig = Rig::start();
    let _lease = acquired(&rig.mine()).await;
    let seen = rig.two.inspect("job").await.unwrap().state;
    assert!(seen.exclusive().unwrap().remaining > Some(LONG / 2));
}

#[tokio::test]
async fn a_fenced_locks_token_is_the_fence_of_every_lease() {
    let rig = Rig::start();
    let first = acquired(&rig.mine()).await;
    let before = first.fence();
    first.release().await.unwrap();
    assert!(acquired(&rig.theirs()).await.fence() > before);
}

/// Redisson acquires them in the order of the arguments, and so two callers can wait for each other.
#[tokio::test]
async fn a_multi_lock_waits_for_several_names_in_any_order_of_arguments() {
    let rig = Rig::start();
    let lock = |client: &Client, names: [&str; 2]| {
        let mutex = client.mutex(names[0]).ttl(LONG);
        mutex.along_with([names[1]])
    };
    let lease = lock(&rig.one, ["a", "b"]).acquire().await.unwrap();
    let next = lock(&rig.two, ["b", "a"]);
    let next = tokio::spawn(async move { next.acquire().await });
    until_queued(&rig.one, "a", 1).await;
    lease.release().await.unwrap();
    let next = by_message(next).await.unwrap().unwrap();
    assert!(next.fences().all(|(_, fence)| fence.is_some()));
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_is_reentrant_for_an_owner_and_not_for_a_thread() {
    let rig = Rig::start();
    let me = rig.one.owner("import 42");
    let outer = acquired(&rig.mine().owner(&me)).await;
    assert!(rig.mine().try_acquire().await.unwrap().is_none());
    let inner = acquired(&rig.mine().owner(&me)).await;
    outer.release().await.unwrap();
    assert!(rig.theirs().try_acquire().await.unwrap().is_none());
    inner.release().await.unwrap();
    assert!(rig.theirs().try_acquire().await.unwrap().is_some());
}
