//! redsync 4.17.0 (Go), over one pool.

use leaselock::interop::Preset;
use leaselock::{AcquireError, LeaseError, Lost, LostReason, ReleaseError, Wait};

use super::{Rig, acquired, tries};
use crate::support::{LONG, eventually, is_free, millis, pttl, until_queued};

#[tokio::test]
async fn expiry_and_tries_come_with_its_preset() {
    let preset = Preset::REDSYNC;
    let Wait::Poll {
        count,
        delay,
        jitter_percent,
    } = preset.wait()
    else {
        panic!("{preset}")
    };
    assert_eq!((count, delay, jitter_percent), (Some(31), millis(150), 66));
    let rig = Rig::start();
    let _lease = acquired(&rig.one.mutex("job").preset(preset)).await;
    assert!((7_000..=8_000).contains(&pttl(&rig.server, "job")));
}

#[tokio::test]
async fn a_cancelled_context_is_a_dropped_future_and_leaves_nothing() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    let patient = rig.theirs();
    let waiting = tokio::spawn(async move { patient.acquire().await });
    until_queued(&rig.one, "job", 1).await;
    waiting.abort();
    until_queued(&rig.one, "job", 0).await;
    lease.release().await.unwrap();
    eventually("nobody has it", async || is_free(&rig.one, "job").await).await;
}

#[tokio::test]
async fn try_lock_is_try_acquire() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    assert!(rig.theirs().try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
    assert!(rig.theirs().try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_taken_lock_says_who_has_it() {
    let rig = Rig::start();
    let _lease = acquired(&rig.mine()).await;
    match rig.theirs().wait(tries(1)).acquire().await {
        Err(AcquireError::TimedOut {
            holder, retries, ..
        }) => {
            assert_eq!(
                (holder.as_deref().map(|it| &*it.client), retries),
                (Some(rig.one.id()), 1)
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_unlock_of_a_lock_that_already_expired_says_so() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    rig.server.cli(&["DEL", "job"]);
    let late = lease.release().await;
    assert!(
        matches!(
            late,
            Err(ReleaseError::NotHeld(Lost {
                reason: LostReason::KeyMissing,
                ..
            }))
        ),
        "{late:?}"
    );
}

#[tokio::test]
async fn extend_never_sets_a_key_that_is_gone() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    rig.server.cli(&["DEL", "job"]);
    let gone = lease.extend(LONG).await;
    assert!(matches!(gone, Err(LeaseError::Lost(_))), "{gone:?}");
    assert_eq!(rig.server.cli(&["EXISTS", "job"]).integer(), Some(0));
}

#[tokio::test]
async fn until_and_valid_need_no_request() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine().renewal(false)).await;
    rig.server.kill();
    assert!(lease.is_held() && lease.remaining() > LONG / 2);
    assert!(lease.deadline() > leaselock::clock::Clock::boot().now());
}
