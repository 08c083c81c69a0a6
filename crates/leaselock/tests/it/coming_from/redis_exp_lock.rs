//! redis-exp-lock 0.0.2 (Node).

use leaselock::interop::Preset;
use leaselock::{AcquireError, ReleaseError, Wait};

use super::{Rig, acquired, tries};
use crate::support::{LONG, millis, pttl, soon};

#[tokio::test]
async fn lifetime_max_retries_and_retry_timeout_come_with_its_preset() {
    let preset = Preset::REDIS_EXP_LOCK;
    assert_eq!(preset.ttl(), Some(millis(1_000)));
    let once = Wait::Poll {
        count: Some(0),
        delay: millis(5),
        jitter_percent: 0,
    };
    assert_eq!(preset.wait(), once);
    let rig = Rig::start();
    let lease = acquired(&rig.one.mutex("job").preset(preset)).await;
    assert!(pttl(&rig.server, "job") <= 1_000);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn what_one_call_overrides_leaves_the_others_as_they_were() {
    let rig = Rig::start();
    let mutex = rig.one.mutex("job").preset(Preset::REDIS_EXP_LOCK);
    let lease = acquired(&mutex.clone().ttl(LONG)).await;
    assert_eq!(lease.ttl(), LONG);
    let refused = |outcome| match outcome {
        Err(AcquireError::TimedOut { retries, .. }) => retries,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(mutex.clone().wait(tries(2)).acquire().await), 2);
    assert_eq!(refused(mutex.acquire().await), 0);
    lease.release().await.unwrap();
    assert_eq!(acquired(&mutex).await.ttl(), millis(1_000));
}

#[tokio::test]
async fn a_lease_says_how_many_retries_it_took() {
    let rig = Rig::start();
    let first = acquired(&rig.mine()).await;
    assert_eq!(first.retries(), 0);
    let patient = rig.theirs().wait(tries(1_000_000));
    let waiting = tokio::spawn(async move { patient.acquire().await.unwrap() });
    rig.server.cli(&["CONFIG", "RESETSTAT"]);
    crate::support::eventually("some tries", async || {
        crate::support::calls(&rig.server, "evalsha") >= 3
    })
    .await;
    first.release().await.unwrap();
    assert!(soon(waiting).await.unwrap().retries() >= 2);
    assert_eq!(rig.mine().acquire_within(LONG).await.unwrap().retries(), 0);
}

#[tokio::test]
async fn too_many_retries_are_still_busy_and_counted() {
    let rig = Rig::start();
    let _lease = acquired(&rig.mine()).await;
    let refused = rig.theirs().wait(tries(4)).acquire().await;
    assert!(matches!(
        refused,
        Err(AcquireError::TimedOut { retries: 4, .. })
    ));
}

#[tokio::test]
async fn a_critical_section_is_a_body_and_its_release_is_confirmed() {
    let rig = Rig::start();
    let ran = rig.mine().run(async |_| Ok::<_, String>(7)).await;
    assert_eq!(ran.unwrap(), 7);
    assert!(crate::support::is_free(&rig.two, "job").await);
}

#[tokio::test]
async fn a_release_that_came_too_late_is_told_from_one_that_failed() {
    let rig = Rig::start();
    let late = acquired(&rig.mine()).await;
    rig.server.cli(&["DEL", "job"]);
    let outcome = late.release().await;
    assert!(
        matches!(outcome, Err(ReleaseError::NotHeld(_))),
        "{outcome:?}"
    );
    let lease = acquired(&rig.mine()).await;
    rig.server.kill();
    let outcome = soon(lease.release()).await;
    assert!(
        matches!(
            outcome,
            Err(ReleaseError::Store { .. } | ReleaseError::Unknown { .. })
        ),
        "{outcome:?}"
    );
}
