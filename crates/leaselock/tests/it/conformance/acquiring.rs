//! How a lock is taken, and how it is not.

use std::time::Duration;

use leaselock::options::Options;
use leaselock::{AcquireError, Wait};

use crate::engine::Engine;
use crate::support::{LONG, eventually, is_free, millis, soon};

pub(super) async fn a_busy_lock_is_refused_at_once_and_a_free_one_is_taken(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let lease = one
        .mutex("job")
        .ttl(LONG)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    for client in [&one, &two] {
        assert!(client.mutex("job").try_acquire().await.unwrap().is_none());
    }
    assert!(two.mutex("other").try_acquire().await.unwrap().is_some());
    lease.release().await.unwrap();
    assert!(two.mutex("job").try_acquire().await.unwrap().is_some());
}

pub(super) async fn a_bounded_wait_ends_with_busy_and_names_the_holder(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let _lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let limit = millis(50);
    let busy = soon(two.mutex("job").acquire_within(limit))
        .await
        .unwrap_err();
    let text = busy.to_string();
    let AcquireError::TimedOut {
        name,
        waited,
        holder,
        remaining,
        own,
        retries,
    } = busy
    else {
        panic!("{busy:?}")
    };
    let holder = holder.unwrap();
    assert_eq!((name.as_str(), holder.client.as_str()), ("job", one.id()));
    assert_eq!((own, retries), (false, 0));
    assert!(waited >= limit, "{waited:?}");
    assert!(remaining <= Some(LONG), "{remaining:?}");
    assert!(text.starts_with("`job` is still held after"), "{text}");
    assert!(text.contains(&format!(" by {holder}")), "{text}");
    if two.list("*").await.is_ok() {
        // Not on a majority, which knows the id of the client only.
        eventually("the error names the process", async || {
            let busy = two.mutex("job").acquire_within(millis(1)).await;
            let text = busy.unwrap_err().to_string();
            text.contains(&format!("[{}] on ", std::process::id()))
        })
        .await;
    }
    assert_eq!(one.inspect("job").await.unwrap().queue, []);
}

pub(super) async fn retries_take_the_lock_once_it_is_free(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    let lease = one.mutex("job").ttl(LONG).acquire().await.unwrap();
    let few = two.mutex("job").wait(Wait::Poll {
        count: Some(2),
        delay: millis(1),
        jitter_percent: 100,
    });
    assert!(matches!(
        few.acquire().await,
        Err(AcquireError::TimedOut { .. })
    ));
    let patient = two.mutex("job").wait(Wait::retries(1_000_000));
    let retrying = tokio::spawn(async move { patient.acquire().await });
    lease.release().await.unwrap();
    soon(retrying)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

pub(super) async fn fences_grow_across_releases_and_clients_and_end_with_fencing_off(
    engine: &Engine,
) {
    let clients = [engine.client().await, engine.client().await];
    let mut last = None;
    for round in 0..6 {
        let lease = clients[round % 2].mutex("job").acquire().await.unwrap();
        assert!(lease.fence() > last, "{:?} after {last:?}", lease.fence());
        last = lease.fence();
        lease.release().await.unwrap();
    }
    let unfenced = clients[0]
        .mutex("job")
        .fencing(false)
        .acquire()
        .await
        .unwrap();
    assert_eq!(unfenced.fence(), None);
    unfenced.release().await.unwrap();
    let again = clients[1].mutex("job").acquire().await.unwrap();
    assert!(again.fence() > last);
}

pub(super) async fn names_in_braces_and_without_are_two_locks(engine: &Engine) {
    if engine.prefix.contains('{') {
        return; // a key has one hash tag at most, and the prefix is it
    }
    let client = engine.client().await;
    let plain = client.mutex("foo").try_acquire().await.unwrap().unwrap();
    let tagged = client.mutex("{foo}").try_acquire().await.unwrap().unwrap();
    plain.release().await.unwrap();
    assert!(is_free(&client, "foo").await && !is_free(&client, "{foo}").await);
    tagged.release().await.unwrap();
}

pub(super) async fn what_is_out_of_range_is_refused_and_nothing_is_sent(engine: &Engine) {
    let client = engine.client_of_one_store().await;
    let long_name = "x".repeat(600);
    let job = || client.mutex("job");
    let bad = [
        (client.mutex(""), "at least one byte"),
        (client.mutex(long_name), "at most 512"),
        (client.mutex("a\nb"), "control"),
        (client.mutex("job:ll:queue"), "leaselock's own"),
        (job().ttl(Duration::ZERO), "10 ms to 30 days"),
        (job().ttl(Duration::MAX), "10 ms to 30 days"),
        (job().max_hold(millis(1)), "at least as long"),
        (job().note("a\u{1b}[31m"), "control"),
    ];
    for (mutex, says) in bad {
        for outcome in [
            mutex.try_acquire().await.map(drop),
            mutex.acquire().await.map(drop),
            mutex.acquire_within(LONG).await.map(drop),
        ] {
            let refusal = outcome.unwrap_err();
            assert!(matches!(refusal, AcquireError::Invalid(_)), "{refusal:?}");
            assert!(refusal.to_string().contains(says), "{refusal}");
        }
    }
    for pattern in ["", "a\nb"] {
        assert!(client.list(pattern).await.is_err());
    }
    let builder = engine
        .builder()
        .await
        .defaults(Options::default().ttl(millis(9)));
    assert!(builder.open().unwrap_err().to_string().contains("10 ms"));
    if let Some(server) = engine.server() {
        let commands = server.cli(&["INFO", "commandstats"]);
        assert!(
            !commands.text().unwrap().contains("cmdstat_eval"),
            "{commands:?}"
        );
    }
}
