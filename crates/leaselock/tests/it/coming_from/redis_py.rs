//! The lock of redis-py 8.1.0 (Python).

use leaselock::interop::Preset;
use leaselock::{LeaseError, ReleaseError, RunError, Wait};

use super::{Rig, acquired};
use crate::support::{LONG, eventually, is_free, millis, pttl, soon, until_queued};

#[tokio::test]
async fn every_lease_has_a_timeout_and_is_renewed_instead_of_endless() {
    let rig = Rig::start();
    let mutex = rig.one.mutex("job").preset(Preset::REDIS_PY);
    let lease = acquired(&mutex).await;
    assert!((1..=10_000).contains(&pttl(&rig.server, "job")));
    lease.release().await.unwrap();
    let short = acquired(&mutex.ttl(millis(1_500))).await;
    let deadline = short.deadline();
    eventually("a renewal", async || short.deadline() > deadline).await;
}

#[tokio::test]
async fn blocking_waits_in_the_queue_instead_of_asking_every_tenth_of_a_second() {
    let rig = Rig::start();
    assert_eq!(Preset::REDIS_PY.wait(), Wait::Forever);
    let lease = acquired(&rig.mine()).await;
    let patient = rig.theirs().preset(Preset::REDIS_PY);
    let waiting = tokio::spawn(async move { patient.acquire().await });
    until_queued(&rig.one, "job", 1).await;
    lease.release().await.unwrap();
    assert!(crate::support::by_message(waiting).await.unwrap().is_ok());
}

#[tokio::test]
async fn blocking_off_and_blocking_timeout_are_calls_of_their_own() {
    let rig = Rig::start();
    let _lease = acquired(&rig.mine()).await;
    assert!(rig.theirs().try_acquire().await.unwrap().is_none());
    assert!(soon(rig.theirs().acquire_within(millis(50))).await.is_err());
    assert!(rig.one.inspect("job").await.unwrap().queue.is_empty());
}

#[tokio::test]
async fn locked_and_owned_are_check_and_is_held() {
    let rig = Rig::start();
    assert!(rig.theirs().holder().await.unwrap().is_none());
    let lease = acquired(&rig.mine()).await;
    assert!(rig.theirs().holder().await.unwrap().is_some() && lease.is_held());
    rig.server.cli(&["DEL", "job"]);
    assert!(lease.extend(LONG).await.is_err() && !lease.is_held());
}

#[tokio::test]
async fn a_lock_not_owned_is_not_held() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    rig.server.cli(&["SET", "job", "theirs", "PX", "60000"]);
    let lost = lease.extend(LONG).await;
    assert!(matches!(lost, Err(LeaseError::Lost(_))), "{lost:?}");
    let late = lease.release().await;
    assert!(matches!(late, Err(ReleaseError::NotHeld(_))), "{late:?}");
    assert_eq!(rig.server.cli(&["GET", "job"]).text(), Some("theirs"));
}

#[tokio::test]
async fn replace_ttl_is_what_extend_does_and_reacquire_is_an_extend_by_the_ttl() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine().renewal(false)).await;
    rig.server.cli(&["PEXPIRE", "job", "30000"]);
    lease.extend(lease.ttl()).await.unwrap();
    assert!((59_000..=60_000).contains(&pttl(&rig.server, "job")));
    lease.extend(2 * LONG).await.unwrap();
    assert!((119_000..=120_000).contains(&pttl(&rig.server, "job")));
}

#[tokio::test]
async fn a_with_block_is_a_lease_in_scope_or_a_body() {
    let rig = Rig::start();
    {
        let _lease = acquired(&rig.mine()).await;
        assert!(!is_free(&rig.two, "job").await);
    }
    eventually("it is given back", async || is_free(&rig.two, "job").await).await;
    let failed = rig.mine().run(async |_| Err::<(), _>("no")).await;
    assert!(matches!(failed, Err(RunError::Body("no"))), "{failed:?}");
    assert!(is_free(&rig.two, "job").await);
}

#[tokio::test]
async fn a_thread_cannot_release_what_another_took_later() {
    let rig = Rig::start();
    let first = acquired(&rig.mine()).await;
    rig.take_away().await;
    let second = acquired(&rig.mine()).await;
    assert!(first.release().await.is_err());
    assert!(!is_free(&rig.two, "job").await && second.is_held());
}
