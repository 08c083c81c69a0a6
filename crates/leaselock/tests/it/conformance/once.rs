//! Work that runs once for a key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leaselock::inspect::BreakOptions;
use leaselock::once::{Once, OnceError, OnceResult, OnceRun, OnceStart, OnceState};
use leaselock::options::OnCrash;
use leaselock::{AcquireError, Client, Lease, OperationError, StoreError, Wait};
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::support::{LONG, by_message, eventually, millis, soon};

const KEY: &str = "charge/42";

fn once(client: &Client) -> Once {
    client.once(KEY).ttl(LONG)
}

async fn pair(engine: &Engine) -> [Client; 2] {
    [
        engine.client_of_one_store().await,
        engine.client_of_one_store().await,
    ]
}

/// Runs what only returns this.
async fn run(once: &Once, value: &[u8]) -> Result<OnceResult, OnceError> {
    soon(once.run(async |_| Ok::<_, String>(value))).await
}

async fn begun(once: &Once) -> Lease<OnceRun> {
    match soon(once.begin()).await.unwrap() {
        OnceStart::Run(run) => run,
        OnceStart::Done(result) => panic!("{result:?}"),
    }
}

async fn broken(client: &Client) {
    client
        .break_lease(KEY, BreakOptions::default().now())
        .await
        .unwrap();
}

/// A caller that has seen that another one runs.
async fn waiter(client: &Client) -> JoinHandle<Result<OnceResult, OnceError>> {
    let polls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&polls);
    let once = once(client).on_wait(move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
    });
    let waits = tokio::spawn(async move {
        once.run(async |_| Err::<Vec<u8>, _>("it must not run"))
            .await
    });
    eventually("it waits", async || polls.load(Ordering::SeqCst) > 1).await;
    waits
}

pub(super) async fn a_body_runs_once_and_every_caller_gets_its_result(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let value: &[u8] = b"\0caf\xe9\n\xff not text";
    let first = run(&once(&one), value).await.unwrap();
    assert!(first.ran_here && first.attempt == 1 && first.value == value);
    for client in [&one, &two] {
        let later = run(&once(client), b"another").await.unwrap();
        assert_eq!((later.value.as_slice(), later.fence), (value, first.fence));
        assert!(!later.ran_here);
    }
    let state = once(&two).state().await.unwrap();
    assert!(matches!(state, OnceState::Done(done) if done.value == value));
    // The name is free all the while, and the record is no lock.
    let lease = two.mutex(KEY).try_acquire().await.unwrap().unwrap();
    assert!(lease.fence() > Some(first.fence));
    assert_eq!(run(&once(&one), b"").await.unwrap().value, value);
    lease.release().await.unwrap();
    if engine.lists {
        assert_eq!(one.list("*").await.unwrap().len(), 0);
    }
    assert!(once(&one).forget().await.unwrap());
    assert!(!once(&one).forget().await.unwrap());
    let again = run(&once(&two), b"").await.unwrap();
    assert!(again.ran_here && again.value.is_empty() && again.fence > first.fence);
}

pub(super) async fn callers_that_wait_for_a_run_are_told_its_result(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let run = begun(&once(&one)).await;
    let waiters = [waiter(&one).await, waiter(&two).await, waiter(&two).await];
    let state = once(&two).state().await.unwrap();
    let running = OnceState::Running {
        fence: run.view().fence(),
        attempt: 1,
    };
    assert_eq!(state, running);
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    run.finish(Ok(b"receipt".to_vec())).await.unwrap();
    for waiter in waiters {
        let told = match engine.wakes() {
            true => by_message(waiter).await,
            false => soon(waiter).await,
        };
        assert_eq!(told.unwrap().unwrap().value, b"receipt");
    }
}

pub(super) async fn a_caller_that_need_not_wait_is_told_who_runs(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let run = begun(&once(&one)).await;
    for wait in [Wait::Never, Wait::Timeout(millis(50))] {
        let busy = soon(once(&two).wait(wait).begin()).await.unwrap_err();
        let OnceError::Acquire(AcquireError::TimedOut { holder, own, .. }) = &busy else {
            panic!("{busy}")
        };
        assert_eq!(
            (holder.as_deref().map(|it| &*it.client), *own),
            (Some(one.id()), false)
        );
    }
    let refused = once(&two).forget().await.unwrap_err();
    assert!(matches!(refused, OnceError::Running { fence, .. } if fence == run.view().fence()));
    run.finish(Ok(Vec::new())).await.unwrap();
}

pub(super) async fn a_failure_is_shared_by_those_who_waited_and_later_callers_run_again(
    engine: &Engine,
) {
    let [one, two] = pair(engine).await;
    let run_one = begun(&once(&one)).await;
    let waits = waiter(&two).await;
    let failed = run_one.finish(Err("no funds".into())).await;
    let told = soon(waits).await.unwrap();
    for (failed, here) in [(failed, true), (told, false)] {
        let Err(OnceError::Failed {
            attempt: 1,
            message,
            retry_in: Some(_),
            source,
            ..
        }) = &failed
        else {
            panic!("{failed:?}")
        };
        let source = source.as_ref().map(ToString::to_string);
        let own = here.then(|| message.clone());
        assert_eq!((message.as_str(), source), ("no funds", own));
    }
    let limited = once(&two).max_attempts(2);
    let failed = soon(limited.run(async |_| Err::<Vec<u8>, _>("nor now"))).await;
    assert!(matches!(failed, Err(OnceError::Failed { attempt: 2, .. })));
    let given_up = run(&limited, b"").await.unwrap_err();
    let OnceError::GivenUp {
        attempts: 2,
        message,
        ..
    } = &given_up
    else {
        panic!("{given_up}")
    };
    assert_eq!(message, "nor now");
    // Who allows more may run.
    let third = run(&once(&one), b"paid").await.unwrap();
    assert_eq!((third.attempt, third.ran_here), (3, true));
}

/// An error of its own type, that of a store among them, which says nothing of the store of the work.
pub(super) async fn the_caller_whose_body_failed_gets_the_error_itself(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let kept = once(&one).keep_failures(true);
    let failed = soon(kept.run(async |_| Err::<Vec<u8>, _>(std::fmt::Error))).await;
    let failed = failed.unwrap_err();
    let source = std::error::Error::source(&failed).unwrap();
    assert!(source.is::<std::fmt::Error>(), "{failed:?}");
    let OnceError::Failed {
        source: Some(source),
        ..
    } = &failed
    else {
        panic!("{failed:?}")
    };
    assert!(source.is::<std::fmt::Error>(), "{failed:?}");
    let told = run(&once(&two), b"").await.unwrap_err();
    assert!(std::error::Error::source(&told).is_none(), "{told:?}");
    assert!(once(&two).forget().await.unwrap());

    let unreachable = Client::open("redis://127.0.0.1:1/").unwrap();
    let body = async |_| unreachable.ping().await.map(|_| Vec::new());
    let failed = soon(kept.run(body)).await.unwrap_err();
    let source = std::error::Error::source(&failed).unwrap();
    assert!(source.is::<StoreError>(), "{failed:?}");
    assert!(failed.store_error().is_none() && !failed.is_transient());
}

#[cfg(feature = "serde")]
pub(super) async fn a_result_can_be_a_value_that_the_record_keeps_as_json(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let value = (7, "receipt".to_owned());
    let body = async |_| Ok::<_, String>(value.clone());
    let ran = soon(once(&one).run_json(body)).await.unwrap();
    assert_eq!((ran.ran_here, &ran.value), (true, &value));
    let never = async |_| Err::<(u32, String), _>("it must not run");
    let told = soon(once(&two).run_json(never)).await.unwrap();
    assert_eq!((told.ran_here, &told.value), (false, &value));
    assert_eq!((told.fence, told.attempt), (ran.fence, ran.attempt));
    let kept = run(&once(&two), b"").await.unwrap();
    assert_eq!(kept.value, br#"[7,"receipt"]"#);

    let never = async |_| Err::<u32, _>("it must not run");
    let another = soon(once(&two).run_json(never)).await.unwrap_err();
    let says = another.to_string();
    let is_told = says.contains("the work is done") && says.contains("expected u32");
    assert!(is_told && !another.is_transient(), "{says}");
    assert!(once(&two).forget().await.unwrap());

    // Done, although its result cannot be kept: no other run begins.
    let lists = std::collections::BTreeMap::from([(vec![1], 1)]);
    let body = async |_| Ok::<_, String>(lists.clone());
    for client in [&one, &two] {
        let unreadable = soon(once(client).run_json(body)).await.unwrap_err();
        assert!(
            matches!(unreadable, OnceError::Unreadable { .. }),
            "{unreadable}"
        );
    }
    let state = once(&two).state().await.unwrap();
    assert!(matches!(state, OnceState::Done(result) if result.attempt == 1));
}

pub(super) async fn a_failure_that_is_kept_or_paused_is_told_to_all(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let paused = once(&one).retry_after(LONG);
    let failed = soon(paused.run(async |_| Err::<Vec<u8>, _>("not yet"))).await;
    assert!(failed.is_err());
    let told = run(&once(&two), b"").await.unwrap_err();
    let OnceError::Failed {
        retry_in: Some(rest),
        source: None,
        ..
    } = told
    else {
        panic!("{told}")
    };
    assert!(rest <= LONG && !rest.is_zero(), "{rest:?}");
    assert!(once(&two).forget().await.unwrap());
    let kept = once(&one).keep_failures(true);
    let failed = soon(kept.run(async |_| Err::<Vec<u8>, _>("never"))).await;
    assert!(failed.is_err());
    for client in [&one, &two] {
        let told = run(&once(client), b"").await.unwrap_err();
        assert!(
            matches!(told, OnceError::Failed { retry_in: None, source: None, ref message, .. } if message == "never"),
            "{told}"
        );
    }
    let state = once(&two).state().await.unwrap();
    assert!(matches!(state, OnceState::Failed { retry_in: None, .. }));
}

pub(super) async fn a_run_that_crashed_is_followed_by_another_or_by_none(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let crashed = begun(&once(&one)).await;
    let fence = crashed.view().fence();
    let waits = {
        let once = once(&two).on_crash(OnCrash::Refuse);
        tokio::spawn(async move { once.begin().await.map(drop) })
    };
    drop(crashed);
    let told = match engine.wakes() {
        true => by_message(waits).await,
        false => soon(waits).await,
    };
    // It may have asked only after the crash.
    let refused = told.unwrap().unwrap_err();
    assert!(
        matches!(refused, OnceError::Crashed { attempt: 1, fence: its, .. } if its == fence),
        "{refused}"
    );
    let state = once(&one).state().await.unwrap();
    assert_eq!(state, OnceState::Crashed { fence, attempt: 1 });
    // A dropped body is a crash too, and `Again` counts it.
    let dropped = once(&one);
    let body = dropped.run(async |_| std::future::pending::<Result<Vec<u8>, String>>().await);
    assert!(tokio::time::timeout(millis(200), body).await.is_err());
    eventually("it has crashed", async || {
        let state = once(&two).state().await.unwrap();
        matches!(state, OnceState::Crashed { attempt: 2, .. })
    })
    .await;
    let third = run(&once(&two), b"done").await.unwrap();
    assert_eq!((third.attempt, third.ran_here), (3, true));
}

pub(super) async fn a_run_that_never_began_counts_as_no_attempt(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let refusing = once(&one).on_crash(OnCrash::Refuse).max_attempts(2);
    begun(&refusing).await.cancel().await.unwrap();
    assert_eq!(once(&two).state().await.unwrap(), OnceState::Absent);
    let failed = soon(refusing.run(async |_| Err::<Vec<u8>, _>("no funds"))).await;
    assert!(failed.is_err());
    begun(&refusing).await.cancel().await.unwrap();
    let state = once(&two).state().await.unwrap();
    assert!(
        matches!(state, OnceState::Failed { attempt: 1, ref message, .. } if message == "no funds"),
        "{state:?}"
    );
    let second = run(&refusing, b"paid").await.unwrap();
    assert_eq!((second.attempt, second.ran_here), (2, true));
}

pub(super) async fn another_request_under_the_same_key_is_refused(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let charge = |client, request: &str| once(client).fingerprint(request);
    run(&charge(&one, "42 EUR"), b"paid").await.unwrap();
    for other in [charge(&two, "43 EUR"), once(&two)] {
        let refused = run(&other, b"paid twice").await.unwrap_err();
        assert!(matches!(refused, OnceError::Mismatch { .. }), "{refused}");
        assert!(!refused.to_string().contains("EUR"));
    }
    let same = run(&charge(&two, "42 EUR"), b"").await.unwrap();
    assert_eq!(same.value, b"paid");
}

pub(super) async fn a_run_and_a_mutex_of_that_name_exclude_each_other(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let lease = one.mutex(KEY).ttl(LONG).acquire().await.unwrap();
    let busy = once(&two).wait(Wait::Never).begin().await.unwrap_err();
    assert!(matches!(
        busy,
        OnceError::Acquire(AcquireError::TimedOut { .. })
    ));
    let waits = {
        let once = once(&two);
        tokio::spawn(async move { once.begin().await })
    };
    lease.release().await.unwrap();
    let OnceStart::Run(run) = soon(waits).await.unwrap().unwrap() else {
        panic!("nothing ran before")
    };
    assert!(one.mutex(KEY).try_acquire().await.unwrap().is_none());
    // The result is stored, and the next in the queue gets the name, in one step.
    let next = crate::support::waiter(&one, KEY, LONG);
    crate::support::until_queued(&two, KEY, 1).await;
    let fence = run.view().fence();
    run.finish(Ok(b"done".to_vec())).await.unwrap();
    let lease = soon(next).await.unwrap().unwrap();
    assert!(lease.fence() > Some(fence));
    lease.release().await.unwrap();
}

pub(super) async fn a_body_is_stopped_when_its_run_is_broken(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let once_one = client_with_short_lease(&one);
    let body = once_one.run(async |_| std::future::pending::<Result<Vec<u8>, String>>().await);
    let breaks = async {
        eventually("it runs", async || {
            matches!(once(&two).state().await.unwrap(), OnceState::Running { .. })
        })
        .await;
        broken(&two).await;
    };
    let (stopped, ()) = soon(async { tokio::join!(body, breaks) }).await;
    assert!(matches!(stopped, Err(OnceError::Lost(_))), "{stopped:?}");
    let refused = run(&once(&two).on_crash(OnCrash::Refuse), b"").await;
    assert!(matches!(refused, Err(OnceError::Crashed { .. })));
}

pub(super) async fn a_broken_run_that_never_began_frees_its_name_at_once(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let never_began = begun(&once(&one)).await;
    let refuses_renewals = two.break_lease(KEY, BreakOptions::default()).await;
    assert!(refuses_renewals.unwrap().remaining.is_some());
    never_began.cancel().await.unwrap();
    let lease = two.mutex(KEY).ttl(LONG).try_acquire().await.unwrap();
    lease.expect("the name is free").release().await.unwrap();
    assert_eq!(once(&two).state().await.unwrap(), OnceState::Absent);
}

pub(super) async fn a_broken_run_counts_as_running_until_it_ends(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let works_on = begun(&once(&one)).await;
    let refuses_renewals = two.break_lease(KEY, BreakOptions::default()).await;
    let its = refuses_renewals.unwrap().fence.unwrap();
    let running = OnceState::Running {
        fence: its,
        attempt: 1,
    };
    assert_eq!(once(&two).state().await.unwrap(), running);
    let kept = once(&two).forget().await;
    assert!(
        matches!(kept, Err(OnceError::Running { fence, .. }) if fence == its),
        "{kept:?}"
    );
    works_on.finish(Ok(b"receipt".to_vec())).await.unwrap();
    assert_eq!(run(&once(&two), b"").await.unwrap().value, b"receipt");
}

/// So that it soon finds out that it is broken.
fn client_with_short_lease(client: &Client) -> Once {
    client.once(KEY).ttl(millis(1_000))
}

pub(super) async fn a_late_result_counts_only_if_no_run_has_begun_since(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let at_its_end = begun(&once(&one)).await;
    let refuses_renewals = two.break_lease(KEY, BreakOptions::default()).await;
    refuses_renewals.unwrap();
    at_its_end.finish(Ok(b"old".to_vec())).await.unwrap();
    assert_eq!(run(&once(&two), b"").await.unwrap().value, b"old");
    once(&one).forget().await.unwrap();
    let late = begun(&once(&one)).await;
    broken(&two).await;
    let now = begun(&once(&two)).await;
    let fence = now.view().fence();
    let stale = late.finish(Ok(b"old".to_vec())).await.unwrap_err();
    assert!(
        matches!(stale, OnceError::Stale { fence: Some(its), .. } if its == fence),
        "{stale}"
    );
    now.finish(Ok(b"new".to_vec())).await.unwrap();
    assert_eq!(run(&once(&one), b"").await.unwrap().value, b"new");
    // Not beside a mutex of that name either, but well when the name is free.
    once(&one).forget().await.unwrap();
    let late = begun(&once(&one)).await;
    broken(&two).await;
    let lease = two
        .mutex(KEY)
        .ttl(LONG)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    let stale = late.finish(Ok(b"old".to_vec())).await.unwrap_err();
    assert!(
        matches!(stale, OnceError::Stale { fence: None, .. }),
        "{stale}"
    );
    lease.release().await.unwrap();
    let late = begun(&once(&one)).await;
    broken(&two).await;
    late.finish(Ok(b"late".to_vec())).await.unwrap();
    assert_eq!(run(&once(&two), b"").await.unwrap().value, b"late");
}

pub(super) async fn a_result_of_a_mebibyte_is_kept_and_a_larger_one_is_not(engine: &Engine) {
    let [one, two] = pair(engine).await;
    let value: Vec<u8> = (0..1_u32 << 20).map(|byte| byte.to_le_bytes()[0]).collect();
    let kept = run(&once(&one), &value).await.unwrap();
    assert!(kept.ran_here);
    assert_eq!(run(&once(&two), b"").await.unwrap().value, value);
    once(&one).forget().await.unwrap();
    let large = [value.as_slice(), b"!"].concat();
    let refused = run(&once(&one), &large).await.unwrap_err();
    assert!(
        matches!(
            refused,
            OnceError::TooLarge {
                size: 1_048_577,
                ..
            }
        ),
        "{refused}"
    );
    let told = run(&once(&two), b"").await.unwrap_err();
    assert!(
        matches!(told, OnceError::Failed { retry_in: None, ref message, .. } if message.contains("1048577 bytes")),
        "{told}"
    );
}

pub(super) async fn what_a_once_cannot_have_is_refused(engine: &Engine) {
    let [client, _] = pair(engine).await;
    for (wrong, right) in [
        (once(&client).keep_for(millis(10)), "1 s to 30 days"),
        (once(&client).retry_after(LONG * 60 * 24 * 31), "outlasts"),
        (once(&client).max_attempts(0), "at least one"),
        (once(&client).wait(Wait::retries(3)), "Timeout"),
        (once(&client).ttl(millis(1)), "10 ms"),
        (client.once(""), "at least one byte"),
    ] {
        let refused = run(&wrong, b"").await.unwrap_err();
        assert!(
            matches!(refused, OnceError::Acquire(AcquireError::Invalid(_))),
            "{refused}"
        );
        assert!(refused.to_string().contains(right), "{refused}");
        assert_eq!(
            wrong.validate().unwrap_err().to_string(),
            refused.to_string()
        );
    }
    assert_eq!(once(&client).state().await.unwrap(), OnceState::Absent);
}
