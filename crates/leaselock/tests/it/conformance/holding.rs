//! What a lease is worth while it is held.

use std::sync::{Arc, Mutex};

use std::convert::Infallible;

use leaselock::clock::Clock;
use leaselock::inspect::BreakOptions;
use leaselock::lease::LeaseState;
use leaselock::{LeaseError, LostReason, RunError};

use crate::engine::Engine;
use crate::support::{LONG, eventually, is_free, millis, soon};

/// Time is what this is about: the condition is a deadline that has moved by several ttls.
pub(super) async fn renewal_keeps_a_lease_beyond_several_ttls(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let ttl = millis(1_500);
    let lease = one.mutex("job").ttl(ttl).acquire().await.unwrap();
    let (first, fence) = (lease.deadline(), lease.fence());
    eventually("it was renewed for three ttls", async || {
        assert!(lease.is_held(), "{:?}", lease.state());
        assert!(two.mutex("job").try_acquire().await.unwrap().is_none());
        Clock::boot().now() > first.plus(3 * ttl)
    })
    .await;
    assert_eq!((lease.fence(), lease.state()), (fence, LeaseState::Held));
    lease.release().await.unwrap();
}

/// Meant for a program that guards the deadline from outside.
pub(super) async fn the_deadline_is_reported_at_once_and_whenever_it_moves(engine: &Engine) {
    let client = engine.client().await;
    let lease = client
        .mutex("job")
        .ttl(millis(1_500))
        .acquire()
        .await
        .unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&told);
    lease.on_deadline(move |deadline| ear.lock().unwrap().push(deadline));
    assert_eq!(told.lock().unwrap().len(), 1);
    eventually("renewals are told", async || {
        told.lock().unwrap().len() >= 3
    })
    .await;
    lease.extend(LONG).await.unwrap();
    let told = told.lock().unwrap().clone();
    assert_eq!(told.last(), Some(&lease.deadline()));
    assert!(told.is_sorted() && told[0] < told[2], "{told:?}");
}

pub(super) async fn without_renewal_the_lease_is_lost_by_its_own_deadline(engine: &Engine) {
    let client = engine.client().await;
    let mutex = client.mutex("job").ttl(millis(300)).renewal(false);
    let lease = mutex.acquire().await.unwrap();
    let deadline = lease.deadline();
    let lost = soon(lease.lost()).await;
    assert!(Clock::boot().now() >= deadline);
    assert_eq!(
        (lease.deadline(), lost.reason),
        (deadline, LostReason::Expired)
    );
    assert_eq!((lost.name.as_str(), lost.fence), ("job", lease.fence()));
    assert!(!lease.is_held() && lease.remaining().is_zero());
    let late = lease.extend(LONG).await.unwrap_err();
    assert!(matches!(late, LeaseError::Lost(known) if known == lost));
    let next = soon(client.mutex("job").acquire()).await.unwrap();
    assert!(next.fence() > lost.fence);
}

pub(super) async fn the_longest_hold_ends_a_lease_that_is_renewed(engine: &Engine) {
    let client = engine.client().await;
    let mutex = client
        .mutex("job")
        .ttl(millis(1_500))
        .max_hold(millis(2_200));
    let lease = mutex.acquire().await.unwrap();
    let first = lease.deadline();
    let lost = soon(lease.lost()).await;
    assert_eq!(lost.reason, LostReason::MaxHoldReached);
    assert!(lease.deadline() > first, "it was renewed before");
    eventually("it is given back for its holder", async || {
        is_free(&client, "job").await
    })
    .await;
}

pub(super) async fn an_extension_makes_the_time_whole_and_keeps_the_fence(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let lease = one
        .mutex("job")
        .ttl(LONG)
        .renewal(false)
        .acquire()
        .await
        .unwrap();
    let (before, fence) = (lease.deadline(), lease.fence());
    lease.extend(2 * LONG).await.unwrap();
    assert!(lease.deadline() > before.plus(LONG / 2) && lease.ttl() == 2 * LONG);
    let long = lease.deadline();
    lease.extend(LONG).await.unwrap();
    assert_eq!(
        (lease.deadline(), lease.fence()),
        (long, fence),
        "never shorter"
    );
    assert!(matches!(
        lease.extend(millis(1)).await,
        Err(LeaseError::Invalid(_))
    ));
    two.break_lease("job", BreakOptions::default().now())
        .await
        .unwrap();
    let gone = lease.extend(LONG).await.unwrap_err();
    assert!(matches!(gone, LeaseError::Lost(lost) if lost.reason == LostReason::KeyMissing));
    assert!(
        is_free(&two, "job").await,
        "an extension brings nothing back"
    );
}

pub(super) async fn a_detached_lease_is_extended_and_released_by_another_client(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let mutex = one.mutex("job").ttl(LONG).note("a note");
    let lease = mutex.acquire().await.unwrap();
    let (fence, losing) = (lease.fence(), lease.lost());
    let handle = lease.detach().await.unwrap();
    assert_eq!(soon(losing).await.reason, LostReason::Released);
    assert_eq!(one.held().len(), 0);
    one.close().await;
    let text = handle.to_secret_string();
    let attached = two.attach(text.parse().unwrap());
    assert_eq!(
        (attached.handle().name().as_str(), attached.handle().fence()),
        ("job", fence)
    );
    assert!(two.mutex("job").try_acquire().await.unwrap().is_none());
    attached.extend(2 * LONG).await.unwrap();
    let seen = two.inspect("job").await.unwrap();
    let Some(holder) = seen.state.exclusive().cloned() else {
        panic!("{seen:?}")
    };
    assert!(holder.remaining.unwrap() > LONG, "{holder:?}");
    assert_eq!(
        (holder.fence, holder.note.as_deref()),
        (fence, Some("a note"))
    );
    assert_eq!(holder.process.unwrap().pid, Some(std::process::id()));
    attached.release().await.unwrap();
    assert!(is_free(&two, "job").await);
    let again = two.attach(handle).release().await.unwrap_err();
    assert!(
        again.to_string().contains("it is gone from the store"),
        "{again}"
    );
}

pub(super) async fn a_body_runs_under_a_lease_and_the_release_is_confirmed(engine: &Engine) {
    let client = engine.client().await;
    let mutex = client.mutex("job").ttl(LONG);
    let rival = client.clone();
    let fence = mutex.run(|lease| async move {
        assert!(lease.is_held());
        assert!(rival.mutex("job").try_acquire().await.unwrap().is_none());
        Ok::<_, Infallible>(lease.fence())
    });
    assert!(fence.await.unwrap().is_some());
    assert!(is_free(&client, "job").await);
    let failed = mutex.run(async |_| Err::<(), _>("no")).await.unwrap_err();
    assert!(matches!(failed, RunError::Body("no")), "{failed:?}");
    assert!(is_free(&client, "job").await);
}

/// The body does not await after the break, so it is not stopped.
pub(super) async fn a_body_that_ended_after_its_lease_was_broken_is_told_apart_from_one_that_was_alone(
    engine: &Engine,
) {
    let (one, two) = (engine.client().await, engine.client().await);
    // Without renewals none can find the loss first, as when a connection to another node of a cluster begins.
    let mutex = one.mutex("job").ttl(LONG).renewal(false);
    let late = mutex.run(async |_| {
        let broken = two.break_lease("job", BreakOptions::default().now()).await;
        broken.unwrap();
        Ok::<_, Infallible>("worked")
    });
    let error = late.await.unwrap_err();
    assert!(!format!("{error:?}").contains("worked"), "{error:?}");
    let RunError::ReleasedLate { value, lost } = error else {
        panic!("{error:?}")
    };
    assert_eq!((value, lost.reason), ("worked", LostReason::KeyMissing));
}

pub(super) async fn a_body_is_stopped_when_its_lease_is_broken(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    // Long enough for a slow machine, so that the body runs; a third of it is the time until a renewal finds out.
    let mutex = one.mutex("job").ttl(millis(3_000));
    let (starts, runs) = tokio::sync::oneshot::channel();
    let body = tokio::spawn(async move {
        let forever = |_| async move {
            starts.send(()).unwrap();
            std::future::pending::<Result<(), Infallible>>().await
        };
        mutex.run(forever).await
    });
    soon(runs).await.unwrap(); // a grant whose reply comes too late is none, and would be asked for again
    two.break_lease("job", BreakOptions::default())
        .await
        .unwrap();
    let stopped = soon(body).await.unwrap().unwrap_err();
    let RunError::Lost(lost) = stopped else {
        panic!("{stopped:?}")
    };
    assert_eq!(lost.reason, LostReason::Broken);
    eventually("it is free", async || is_free(&two, "job").await).await;
}
