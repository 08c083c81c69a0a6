//! Several names under one lease. The names of a pair share a hash tag or do not: one request, or one for each.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use leaselock::inspect::BreakOptions;
use leaselock::lease::Several;
use leaselock::multilock::MultiLock;
use leaselock::{AcquireError, Client, Lease, LeaseError, LostReason, ReleaseError, RunError};
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::support::{LONG, eventually, is_free, millis, soon, until_queued};

/// A prefix with a hash tag leaves none for the names.
fn pairs(engine: &Engine) -> &'static [[&'static str; 2]] {
    match engine.prefix.contains('{') {
        true => &[["a", "b"]],
        false => &[["a", "b"], ["{t}a", "{t}b"]],
    }
}

/// The lock of both names, the larger one first.
fn both(client: &Client, [small, large]: [&str; 2]) -> MultiLock {
    client.mutex(large).ttl(LONG).along_with([small])
}

fn waiting(lock: MultiLock) -> JoinHandle<Result<Lease<Several>, AcquireError>> {
    tokio::spawn(async move { lock.acquire().await })
}

async fn is_busy(client: &Client, name: &str) -> bool {
    client.mutex(name).try_acquire().await.unwrap().is_none()
}

async fn holds(holder: &Client, name: &str) -> bool {
    let seen = holder.inspect(name).await.unwrap().state;
    let process = seen.exclusive().and_then(|one| one.process.as_ref());
    process.is_some_and(|process| process.client == holder.id())
}

async fn become_free(client: &Client, names: [&str; 2]) {
    for name in names {
        eventually("it is free", async || is_free(client, name).await).await;
    }
}

fn failed(released: Result<(), ReleaseError>) -> Vec<String> {
    let errors = released.err().map(|error| match error {
        ReleaseError::Several(errors) => errors,
        error => panic!("{error:?}"),
    });
    let errors = errors.unwrap_or_default();
    errors.iter().map(ToString::to_string).collect()
}

pub(super) async fn several_names_are_held_all_or_none(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    for &names in pairs(engine) {
        for held in names {
            let other = two.mutex(held).ttl(LONG).acquire().await.unwrap();
            assert!(both(&one, names).try_acquire().await.unwrap().is_none());
            for free in names.iter().filter(|free| **free != held) {
                let lease = two.mutex(*free).ttl(LONG).try_acquire().await.unwrap();
                lease.unwrap().release().await.unwrap();
            }
            other.release().await.unwrap();
        }
        let lease = both(&one, names).try_acquire().await.unwrap().unwrap();
        let held: Vec<&str> = lease.names().map(leaselock::Name::as_str).collect();
        assert_eq!(held, [names[1], names[0]]);
        assert!(lease.is_held() && lease.remaining() <= lease.ttl());
        for name in names {
            assert!(is_busy(&two, name).await);
        }
        lease.release().await.unwrap();
        for name in names {
            let free = two.mutex(name).try_acquire().await.unwrap().unwrap();
            free.release().await.unwrap();
        }
    }
}

pub(super) async fn the_fence_of_each_of_several_names_grows(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    for &names in pairs(engine) {
        let mut last = [None; 2];
        for turn in 0..4 {
            let client = [&one, &two][turn % 2];
            let lease = soon(both(client, names).acquire()).await.unwrap();
            let fences: Vec<_> = lease.fences().map(|(_, fence)| fence).collect();
            assert!(fences[0] > last[0] && fences[1] > last[1], "{fences:?}");
            last = [fences[0], fences[1]];
            lease.release().await.unwrap();
            let alone = two.mutex(names[0]).ttl(LONG).acquire().await.unwrap();
            assert!(alone.fence() > last[1]);
            last[1] = alone.fence();
            alone.release().await.unwrap();
        }
    }
}

/// In whatever order the names are given: so no circle of clients can wait for each other.
pub(super) async fn a_client_never_waits_for_a_name_while_it_holds_a_larger_one(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    for &names in pairs(engine) {
        let small = two.mutex(names[0]).ttl(LONG).acquire().await.unwrap();
        let next = waiting(both(&one, names));
        until_queued(&two, names[0], 1).await;
        let large = two.mutex(names[1]).ttl(LONG).try_acquire().await.unwrap();
        large.unwrap().release().await.unwrap();
        small.release().await.unwrap();
        let lease = soon(next).await.unwrap().unwrap();
        lease.release().await.unwrap();
    }
}

pub(super) async fn names_that_are_held_are_renewed_while_a_larger_one_is_waited_for(
    engine: &Engine,
) {
    let (one, two) = (engine.client().await, engine.client().await);
    let ttl = millis(1_000);
    let large = two.mutex("b").ttl(LONG).acquire().await.unwrap();
    let next = waiting(one.mutex("b").ttl(ttl).along_with(["a"]));
    eventually("it holds the smaller name", async || holds(&one, "a").await).await;
    let began = testkit::clock::now();
    eventually("two ttls are over", async || {
        assert!(holds(&one, "a").await);
        testkit::clock::now() > began + 2 * ttl
    })
    .await;
    large.release().await.unwrap();
    let lease = soon(next).await.unwrap().unwrap();
    assert!(lease.is_held());
    lease.release().await.unwrap();
}

pub(super) async fn a_wait_for_several_names_that_ends_holds_none_of_them(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    for &names in pairs(engine) {
        let large = two.mutex(names[1]).ttl(LONG).acquire().await.unwrap();
        let refused = soon(both(&one, names).acquire_within(millis(300))).await;
        let busy = refused.unwrap_err();
        let AcquireError::TimedOut { name, waited, .. } = &busy else {
            panic!("{busy:?}")
        };
        assert!(name.as_str() == names[1] && *waited >= millis(300));
        let small = two.mutex(names[0]).ttl(LONG).try_acquire().await.unwrap();
        let small = small.expect("given back before the error was returned");
        small.release().await.unwrap();
        large.release().await.unwrap();
        become_free(&two, names).await;
    }
}

pub(super) async fn a_wait_for_several_names_that_is_dropped_holds_none_of_them(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    for &names in pairs(engine) {
        let large = two.mutex(names[1]).ttl(LONG).acquire().await.unwrap();
        let next = waiting(both(&one, names));
        eventually("it holds the smaller name", async || {
            holds(&one, names[0]).await
        })
        .await;
        next.abort();
        eventually("the smaller name is free", async || {
            is_free(&two, names[0]).await
        })
        .await;
        large.release().await.unwrap();
        become_free(&two, names).await;
    }
}

pub(super) async fn a_dropped_lease_of_several_names_is_released(engine: &Engine) {
    let client = engine.client().await;
    for &names in pairs(engine) {
        let lease = both(&client, names).acquire().await.unwrap();
        let lost = lease.lost();
        drop(lease);
        assert_eq!(lost.check().unwrap_err().reason, LostReason::Released);
        become_free(&client, names).await;
    }
}

pub(super) async fn the_loss_of_one_of_several_names_is_told_and_the_others_stay_held(
    engine: &Engine,
) {
    let (one, two) = (engine.client().await, engine.client().await);
    for &names in pairs(engine) {
        let mutex = one.mutex(names[0]).ttl(millis(1_500));
        let lease = mutex.along_with([names[1]]).acquire().await.unwrap();
        two.break_lease(names[1], BreakOptions::default().now())
            .await
            .unwrap();
        let lost = soon(lease.lost()).await;
        assert_eq!(lost.name.as_str(), names[1]);
        assert!(!lease.is_held() && lease.view().lost().is_lost());
        assert!(is_busy(&two, names[0]).await);
        let extended = lease.extend(LONG).await;
        assert!(
            matches!(&extended, Err(LeaseError::Lost(lost)) if lost.name.as_str() == names[1]),
            "{extended:?}"
        );
        let errors = failed(lease.release().await);
        assert!(
            errors.len() == 1 && errors[0].contains(names[1]),
            "{errors:?}"
        );
        become_free(&two, names).await;
    }
}

/// The holder hears of it only at its renewal, which does not come.
pub(super) async fn several_names_that_were_broken_are_released(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    for names in pairs(engine) {
        let lease = both(&one, *names).acquire().await.unwrap();
        for name in names {
            let options = BreakOptions::default();
            two.break_lease(name, options).await.unwrap();
        }
        soon(lease.release()).await.ok(); // it may have heard by a message already
        for name in names {
            assert!(is_free(&two, name).await, "{name}");
        }
    }
}

pub(super) async fn an_extension_of_several_names_makes_the_time_of_each_whole(engine: &Engine) {
    let client = engine.client().await;
    for &names in pairs(engine) {
        let mutex = client.mutex(names[0]).ttl(LONG / 2).renewal(false);
        let lease = mutex.along_with([names[1]]).acquire().await.unwrap();
        let deadline = lease.deadline();
        lease.extend(LONG).await.unwrap();
        assert!(lease.deadline() > deadline && lease.remaining() > LONG / 2);
        lease.release().await.unwrap();
    }
}

/// Each time the smaller name is taken away, it is acquired anew under a larger fence.
pub(super) async fn a_name_that_is_lost_during_the_wait_for_another_is_acquired_again(
    engine: &Engine,
) {
    let (one, two) = (engine.client().await, engine.client().await);
    let large = two.mutex("b").ttl(LONG).acquire().await.unwrap();
    let lock = one.mutex("b").ttl(millis(2_000)).along_with(["a"]);
    let mut last = None;
    let mut held_anew = async || {
        eventually("the smaller name is held anew", async || {
            let Some(holder) = two.inspect("a").await.unwrap().state.exclusive().cloned() else {
                return false;
            };
            holder.fence > std::mem::replace(&mut last, holder.fence)
        })
        .await;
    };
    let take_away = async || {
        drop(
            two.break_lease("a", BreakOptions::default().now())
                .await
                .unwrap(),
        )
    };
    let next = waiting(lock.clone());
    for _ in 0..4 {
        held_anew().await;
        take_away().await;
    }
    let error = soon(next).await.unwrap().unwrap_err();
    let AcquireError::LostWhileWaiting { name, lost } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((name.as_str(), lost.name.as_str()), ("b", "a"));
    let next = waiting(lock);
    held_anew().await;
    take_away().await;
    held_anew().await;
    large.release().await.unwrap();
    let lease = soon(next).await.unwrap().unwrap();
    lease.release().await.unwrap();
    become_free(&two, ["a", "b"]).await;
}

pub(super) async fn a_body_runs_while_several_names_are_held(engine: &Engine) {
    let (one, two) = (engine.client().await, engine.client().await);
    for &names in pairs(engine) {
        let lock = both(&one, names);
        let fences = lock.run(|lease| async move {
            assert!(lease.is_held());
            Ok::<_, Infallible>(lease.fences().count())
        });
        assert_eq!(fences.await.unwrap(), 2);
        let lock = one
            .mutex(names[0])
            .ttl(millis(2_000))
            .along_with([names[1]]);
        let stopped = lock.run(|_| async {
            two.break_lease(names[0], BreakOptions::default().now())
                .await
                .unwrap();
            std::future::pending::<Result<(), Infallible>>().await
        });
        let error = soon(stopped).await.unwrap_err();
        assert!(
            matches!(&error, RunError::Lost(lost) if lost.name.as_str() == names[0]),
            "{error:?}"
        );
        become_free(&two, names).await;
    }
}

const NAMES: usize = 8;

/// Half of the names share a hash tag.
fn name(engine: &Engine, at: usize) -> String {
    let name = if at < NAMES / 2 { "n" } else { "{t}n" };
    let name = match engine.prefix.contains('{') {
        true => name.replace("{t}", ""),
        false => name.to_owned(),
    };
    format!("{name}{at}")
}

/// Two to five of the names, in any order.
fn any_names(rng: &mut Rng) -> Vec<usize> {
    let mut names: Vec<usize> = (0..NAMES).collect();
    rng.shuffle(&mut names);
    names.truncate(rng.usize(2..=5));
    names
}

pub(super) async fn clients_that_take_any_names_in_any_order_never_wait_in_a_circle(
    engine: &Engine,
) {
    let rounds = if engine.wakes() { 12 } else { 3 };
    let in_use: Arc<[AtomicBool; NAMES]> = Arc::default();
    let mut tasks = Vec::new();
    for seed in 1..=3 {
        let (client, in_use) = (engine.client().await, Arc::clone(&in_use));
        let known: Vec<String> = (0..NAMES).map(|at| name(engine, at)).collect();
        tasks.push(tokio::spawn(async move {
            let mut rng = Rng::with_seed(seed);
            for _ in 0..rounds {
                let names = any_names(&mut rng);
                let mutex = client.mutex(known[names[0]].as_str()).ttl(LONG);
                let others = names[1..].iter().map(|at| known[*at].as_str());
                let lease = mutex.along_with(others).acquire().await.unwrap();
                for at in &names {
                    assert!(!in_use[*at].swap(true, Ordering::SeqCst), "two hold it");
                }
                tokio::task::yield_now().await;
                for at in &names {
                    in_use[*at].store(false, Ordering::SeqCst);
                }
                lease.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        soon(task).await.unwrap();
    }
    let client = engine.client().await;
    for at in 0..NAMES {
        let name = name(engine, at);
        eventually("it is free", async || is_free(&client, &name).await).await;
    }
}
