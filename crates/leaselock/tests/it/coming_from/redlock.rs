//! redlock 4.2.0 and 5.0.0-beta.2 (Node), over one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leaselock::interop::Preset;
use leaselock::lease::Exclusive;
use leaselock::{AcquireError, Client, LeaseError, LeaseView, ReleaseError, RunError, Wait};

use super::{Rig, acquired, tries};
use crate::support::{LONG, eventually, is_free, millis, pttl, soon};

#[tokio::test]
async fn one_resource_is_one_name_and_the_duration_is_the_ttl() {
    let rig = Rig::start();
    let lease = rig.one.mutex("job").ttl(millis(5_000)).acquire().await;
    assert!((4_000..=5_000).contains(&pttl(&rig.server, "job")));
    assert!(rig.theirs().try_acquire().await.unwrap().is_none());
    lease.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn several_resources_are_had_together_or_not_at_all() {
    let rig = Rig::start();
    let first = rig.one.mutex("a").ttl(LONG).preset(Preset::NODE_REDLOCK);
    let both = first.along_with(["b"]);
    let other = acquired(&rig.two.mutex("b").ttl(LONG)).await;
    assert!(both.try_acquire().await.unwrap().is_none());
    assert_eq!(pttl(&rig.server, "a"), -2, "all or none");
    other.release().await.unwrap();
    let lease = soon(both.acquire()).await.unwrap();
    assert!(rig.two.mutex("b").try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
    assert_eq!((pttl(&rig.server, "a"), pttl(&rig.server, "b")), (-2, -2));
}

#[tokio::test]
async fn retry_count_delay_and_jitter_are_retries() {
    let wait = Preset::NODE_REDLOCK.wait();
    let ten = Wait::Poll {
        count: Some(10),
        delay: millis(200),
        jitter_percent: 50,
    };
    assert_eq!(wait, ten);
    let rig = Rig::start();
    let _lease = acquired(&rig.mine()).await;
    let refused = rig.theirs().wait(tries(10)).acquire().await;
    assert!(matches!(
        refused,
        Err(AcquireError::TimedOut { retries: 10, .. })
    ));
}

#[tokio::test]
async fn the_drift_factor_is_in_millionths_of_the_ttl() {
    let rig = Rig::start();
    let lease_of = async |ppm: u32| {
        let builder = Client::builder().url(&rig.server.url()).drift_ppm(ppm);
        let mutex = builder.open().unwrap().mutex("job").ttl(LONG);
        let lease = mutex.acquire().await.unwrap();
        let remaining = lease.remaining();
        lease.release().await.unwrap();
        remaining
    };
    assert!(lease_of(10_000).await > LONG * 98 / 100);
    assert!(lease_of(100_000).await < LONG * 90 / 100);
}

#[tokio::test]
async fn using_is_a_body_under_a_lease() {
    let rig = Rig::start();
    let mutex = rig.mine();
    let held = mutex.run(async |lease| Ok::<_, String>(lease.is_held()));
    assert!(held.await.unwrap());
    assert!(is_free(&rig.two, "job").await);
}

#[tokio::test]
async fn the_signal_of_using_is_the_loss_that_stops_the_body() {
    let rig = Rig::start();
    let aborted = Arc::new(AtomicBool::new(false));
    // A third of the ttl later its renewal finds out.
    let (mutex, told) = (rig.mine().ttl(millis(1_500)), Arc::clone(&aborted));
    let (starts, runs) = tokio::sync::oneshot::channel();
    let body = tokio::spawn(async move {
        let body = async move |lease: LeaseView<Exclusive>| {
            starts.send(()).unwrap();
            let signal = tokio::spawn(lease.lost());
            let told = async move {
                drop(signal.await);
                told.store(true, Ordering::SeqCst);
            };
            tokio::spawn(told);
            std::future::pending::<Result<(), String>>().await
        };
        mutex.run(body).await
    });
    soon(runs).await.unwrap();
    rig.take_away().await;
    let outcome = soon(body).await.unwrap();
    assert!(matches!(outcome, Err(RunError::Lost(_))), "{outcome:?}");
    eventually("the signal", async || aborted.load(Ordering::SeqCst)).await;
}

#[tokio::test]
async fn automatic_extension_is_renewal_and_can_be_left_off() {
    let rig = Rig::start();
    let renewed = acquired(&rig.one.mutex("a").ttl(millis(1_500))).await;
    let left = acquired(&rig.one.mutex("b").ttl(millis(1_500)).renewal(false)).await;
    let deadline = renewed.deadline();
    soon(left.lost()).await;
    eventually("a renewal", async || renewed.deadline() > deadline).await;
    assert!(renewed.is_held());
}

#[tokio::test]
async fn extend_keeps_the_lease_and_its_fence() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine().ttl(millis(5_000)).renewal(false)).await;
    let (fence, deadline) = (lease.fence(), lease.deadline());
    lease.extend(LONG).await.unwrap();
    assert!(lease.deadline() > deadline && lease.fence() == fence);
    rig.server.cli(&["DEL", "job"]);
    let gone = lease.extend(LONG).await;
    assert!(matches!(gone, Err(LeaseError::Lost(_))), "{gone:?}");
}

#[tokio::test]
async fn a_release_after_the_end_says_so_and_harms_no_other_holder() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    rig.server.cli(&["DEL", "job"]);
    let next = acquired(&rig.theirs()).await;
    let late = lease.release().await;
    assert!(matches!(late, Err(ReleaseError::NotHeld(_))), "{late:?}");
    assert!(next.is_held() && rig.theirs().holder().await.unwrap().is_some());
}

#[tokio::test]
async fn a_locked_resource_is_told_from_a_server_that_fails() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    let busy = rig.theirs().wait(tries(0)).acquire().await;
    assert!(
        matches!(busy, Err(AcquireError::TimedOut { .. })),
        "{busy:?}"
    );
    drop(lease);
    rig.server.kill();
    let down = soon(rig.theirs().wait(tries(0)).acquire()).await;
    assert!(
        matches!(
            down,
            Err(AcquireError::Store { .. } | AcquireError::Unknown { .. })
        ),
        "{down:?}"
    );
}

#[tokio::test]
async fn the_expiration_is_a_deadline_that_the_drift_is_taken_from() {
    let rig = Rig::start();
    let lease = acquired(&rig.mine()).await;
    let left = millis(u64::try_from(pttl(&rig.server, "job")).unwrap());
    assert!(
        lease.remaining() < left,
        "{:?} of {left:?}",
        lease.remaining()
    );
}
