//! How a lease ends by its holder's will.

use leaselock::inspect::BreakOptions;
use leaselock::{AcquireError, LostReason, ReleaseError};

use crate::engine::Engine;
use crate::support::{LONG, eventually, is_free, soon, until_queued, waiter};

pub(super) async fn a_release_says_when_the_lease_was_not_held_any_more(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    two.break_lease("job", BreakOptions::default().now())
        .await
        .unwrap();
    let why = |refused| match refused {
        ReleaseError::NotHeld(lost) if lost.name.as_str() == "job" => lost.reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        why(lease.release().await.unwrap_err()),
        LostReason::KeyMissing
    );
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    two.break_lease("job", BreakOptions::default().now())
        .await
        .unwrap();
    let other = two.mutex("job").ttl(LONG).acquire().await.unwrap();
    assert_eq!(
        why(lease.release().await.unwrap_err()),
        LostReason::TakenOver
    );
    assert!(
        !is_free(&one, "job").await,
        "a release by a former holder changes nothing"
    );
    other.release().await.unwrap();
}

/// The next in the queue has it, so the release is a hand-over too.
pub(super) async fn a_dropped_lease_is_released(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let losing = lease.lost();
    let next = waiter(&two, "job", LONG);
    until_queued(&one, "job", 1).await;
    drop(lease);
    assert_eq!(losing.check().unwrap_err().reason, LostReason::Released);
    soon(next).await.unwrap().unwrap().release().await.unwrap();
}

pub(super) async fn a_lease_dropped_outside_a_runtime_is_released(engine: &Engine) {
    let client = engine.client().await;
    let lease = client.mutex("job").ttl(LONG).acquire().await.unwrap();
    std::thread::spawn(move || drop(lease)).join().unwrap();
    eventually("it is released", async || is_free(&client, "job").await).await;
}

pub(super) async fn a_panic_releases_the_lease(engine: &Engine) {
    let client = engine.client().await;
    let mutex = client.mutex("job").ttl(LONG);
    let panicked = tokio::spawn(async move {
        let _lease = mutex.acquire().await.unwrap();
        std::panic::panic_any("on purpose");
    });
    assert!(soon(panicked).await.unwrap_err().is_panic());
    eventually("it is released", async || is_free(&client, "job").await).await;
    let mutex = client.mutex("job").ttl(LONG);
    let panicked = tokio::spawn(async move {
        let body = async |_| -> Result<(), std::convert::Infallible> {
            std::panic::panic_any("on purpose")
        };
        mutex.run(body).await
    });
    assert!(soon(panicked).await.unwrap_err().is_panic());
    eventually("it is released", async || is_free(&client, "job").await).await;
}

pub(super) async fn close_drains_what_was_dropped_and_refuses_what_is_new(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    for name in ["a", "b", "c"] {
        drop(one.mutex(name).ttl(LONG).acquire().await.unwrap());
    }
    let kept = one.mutex("kept").ttl(LONG).acquire().await.unwrap();
    let closed = one.close().await;
    assert_eq!((closed.released, closed.unconfirmed), (3, 0));
    for name in ["a", "b", "c"] {
        assert!(is_free(&two, name).await, "{name}");
    }
    let refused = one.mutex("d").acquire().await.unwrap_err();
    assert!(matches!(refused, AcquireError::Closed));
    assert!(kept.is_held(), "what is held stays held");
    kept.release().await.unwrap();
}

pub(super) async fn held_lists_the_leases_of_one_client_and_empties(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    assert_eq!(one.held().len(), 0);
    let first = one.mutex("a").ttl(LONG).acquire().await.unwrap();
    let second = one.mutex("b").ttl(LONG).acquire().await.unwrap();
    let _other = two.mutex("c").ttl(LONG).acquire().await.unwrap();
    let names = || -> Vec<String> {
        one.held()
            .iter()
            .map(|held| held.name().to_string())
            .collect()
    };
    assert_eq!(names(), ["a", "b"]);
    first.release().await.unwrap();
    assert_eq!(names(), ["b"]);
    let view = second.view();
    assert!(view.is_held() && view.fence() == second.fence());
    drop(second);
    assert!(names().is_empty() && !view.is_held());
}
