//! What every way keeps within its limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leaselock::inspect::BreakOptions;
use leaselock::interop::Protocol;
use leaselock::{AcquireError, Client, ReleaseError, Wait};
use testkit::{Cut, Fault, Proxy, Server, Way};

use super::job;
use crate::support::{LONG, eventually, millis, pttl, soon};

const SECOND: Duration = Duration::from_secs(1);

/// The same for each of them at once, because they mostly wait.
async fn for_all<F: Future<Output = ()> + Send + 'static>(shown: impl Fn(Protocol) -> F) {
    let all = Protocol::ALL.map(|protocol| tokio::spawn(shown(protocol)));
    for one in all {
        soon(one).await.unwrap();
    }
}

fn rig() -> (Server, Client, Client) {
    let server = Server::start();
    let client = || Client::open(&server.url()).unwrap();
    let (ours, theirs) = (client(), client());
    (server, ours, theirs)
}

#[tokio::test]
async fn one_holds_and_the_others_are_refused_until_it_is_given_back() {
    for protocol in Protocol::ALL {
        let (_server, ours, theirs) = rig();
        let (mine, other) = (job(&ours, protocol), job(&theirs, protocol));
        assert_eq!(other.holder().await.unwrap(), None, "{protocol}");
        let lease = mine.try_acquire().await.unwrap().unwrap();
        assert!(other.try_acquire().await.unwrap().is_none(), "{protocol}");
        assert!(mine.try_acquire().await.unwrap().is_none(), "{protocol}");
        let holder = other.holder().await.unwrap().unwrap();
        assert!(holder.remaining.unwrap() <= LONG, "{protocol}: {holder:?}");
        lease.release().await.unwrap();
        let next = other.try_acquire().await.unwrap().unwrap();
        next.release().await.unwrap();
        assert_eq!(mine.holder().await.unwrap(), None, "{protocol}");
    }
}

#[tokio::test]
async fn a_waiter_has_it_once_it_is_released_and_no_sooner() {
    for protocol in Protocol::ALL {
        let (_server, ours, theirs) = rig();
        let lease = job(&ours, protocol).acquire().await.unwrap();
        let busy = job(&theirs, protocol).acquire_within(millis(300)).await;
        assert!(matches!(busy, Err(AcquireError::TimedOut { .. })));
        let other = job(&theirs, protocol);
        let mut waiter = tokio::spawn(async move { other.acquire().await });
        let early = tokio::time::timeout(millis(300), &mut waiter).await;
        assert!(early.is_err(), "{protocol}");
        lease.release().await.unwrap();
        let next = soon(waiter).await.unwrap().unwrap();
        assert!(next.is_held());
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn tasks_of_two_clients_hold_it_one_after_the_other() {
    const TASKS: usize = 6;
    for protocol in Protocol::ALL {
        let (_server, ours, theirs) = rig();
        let inside = Arc::new(AtomicUsize::new(0));
        let tasks = (0..TASKS).map(|task| {
            let client = if task % 2 == 0 { &ours } else { &theirs };
            let (lock, inside) = (job(client, protocol), Arc::clone(&inside));
            tokio::spawn(async move {
                for _ in 0..3 {
                    let lease = lock.acquire().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{protocol}");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    lease.release().await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            soon(task).await.unwrap();
        }
    }
}

/// The break leaves another token in the place of the holder's.
#[tokio::test]
async fn a_lock_that_an_operator_breaks_is_free_when_its_holder_gives_it_back() {
    for (protocol, key) in [
        (Protocol::setex_renamenx(), "job:real_lock"),
        (Protocol::WatchMulti, "job:real_lock"),
        (Protocol::SetnxPexpire, "job"),
        (Protocol::PythonRedisLock, "lock:job"),
    ] {
        let (server, ours, theirs) = rig();
        let lease = job(&ours, protocol).acquire().await.unwrap();
        let broken = theirs.break_lease(key, BreakOptions::default()).await;
        assert!(broken.unwrap().remaining.is_some(), "{protocol}");
        drop(lease.release().await);
        let left = server.cli(&["EXISTS", key]).integer();
        assert_eq!(left, Some(0), "{protocol}");
    }
}

/// The holder vanished without a word: `forget` keeps its end from being told.
#[tokio::test]
async fn a_lock_that_nobody_gives_back_ends_by_itself() {
    for_all(|protocol| async move {
        let (_server, ours, theirs) = rig();
        let lock = job(&ours, protocol).ttl(SECOND).renewal(false);
        std::mem::forget(lock.acquire().await.unwrap());
        let next = job(&theirs, protocol).acquire().await.unwrap();
        next.release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_lease_is_renewed_where_it_can_be_and_told_lost_in_time_where_not() {
    for_all(|protocol| async move {
        let (server, _, theirs) = rig();
        // A quarter of the ttl between the news and the end, in which others can check.
        let ours = Client::builder().url(&server.url()).drift_ppm(250_000);
        let ours = ours.open().unwrap();
        let renewed = !matches!(
            protocol,
            Protocol::SetnxGetset | Protocol::SetexRenamenx { .. } | Protocol::WatchMulti
        );
        let ttl = 2 * SECOND;
        let lease = job(&ours, protocol).ttl(ttl).acquire().await.unwrap();
        if renewed {
            let lost = tokio::time::timeout(2 * ttl, lease.lost()).await;
            assert!(lost.is_err() && lease.is_held(), "{protocol}: {lost:?}");
            lease.extend(LONG).await.unwrap();
            assert!(lease.remaining() > LONG / 2, "{protocol}");
            lease.release().await.unwrap();
        } else {
            lease.lost().await;
            let held = job(&theirs, protocol).holder().await.unwrap();
            assert!(held.is_some(), "{protocol}: told after its end");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_dropped_is_given_back_in_the_background() {
    for protocol in Protocol::ALL {
        let (_server, ours, theirs) = rig();
        drop(job(&ours, protocol).acquire().await.unwrap());
        let next = soon(job(&theirs, protocol).acquire()).await.unwrap();
        let lock = job(&ours, protocol);
        let waiter = tokio::spawn(async move { lock.acquire().await });
        tokio::task::yield_now().await;
        waiter.abort();
        drop(next);
        let free = async || job(&theirs, protocol).holder().await.unwrap().is_none();
        eventually("nothing is left", free).await;
    }
}

/// The grant exists, its holder does not know.
#[tokio::test]
async fn a_lock_whose_grant_was_lost_on_the_way_is_cleaned_up() {
    for protocol in Protocol::ALL {
        let server = Server::start();
        let proxy = Proxy::to(server.port());
        let builder = Client::builder().url(&proxy.url());
        let ours = builder.request_timeout(millis(300)).open().unwrap();
        let theirs = Client::open(&server.url()).unwrap();
        let lock = job(&ours, protocol).wait(Wait::Never);
        if protocol == Protocol::WatchMulti {
            // Behind the answer to its own connection's greeting, and within that to `EXEC`. Nothing else is sent: a
            // client says who it is after its first grant.
            let (bytes, how) = (50, Cut::Reset);
            proxy.set(Way::ToClient, Fault::CutAfter { bytes, how });
        } else {
            let warm = job(&ours, protocol).acquire().await.unwrap();
            warm.release().await.unwrap();
            proxy.set(Way::ToClient, Fault::Swallow);
        }
        let unknown = soon(lock.try_acquire()).await;
        assert!(unknown.is_err(), "{protocol}: {unknown:?}");
        proxy.heal();
        let free = async || job(&theirs, protocol).holder().await.unwrap().is_none();
        eventually("it is cleaned up", free).await;
    }
}

#[tokio::test]
async fn a_release_that_comes_after_the_end_leaves_the_next_holder_alone() {
    for_all(|protocol| async move {
        let (_server, ours, theirs) = rig();
        let lock = job(&ours, protocol).ttl(SECOND).renewal(false);
        let late = lock.acquire().await.unwrap();
        let next = soon(job(&theirs, protocol).acquire()).await.unwrap();
        let not_held = late.release().await.unwrap_err();
        assert!(matches!(not_held, ReleaseError::NotHeld(_)), "{protocol}");
        assert!(lock.try_acquire().await.unwrap().is_none(), "{protocol}");
        next.release().await.unwrap();
    })
    .await;
}

/// Between two of the commands of a way nothing may be left for ever, except where the way itself has no end.
#[tokio::test]
async fn every_lock_has_an_end_on_the_server_except_that_of_setnx_getset() {
    let (server, ours, _theirs) = rig();
    for protocol in Protocol::ALL {
        let lease = job(&ours, protocol).acquire().await.unwrap();
        let keys = ["job", "job:real_lock", "lock:job"];
        let ends = keys.map(|key| pttl(&server, key));
        let endless = ends.contains(&-1);
        assert_eq!(
            endless,
            protocol == Protocol::SetnxGetset,
            "{protocol} {ends:?}"
        );
        assert!(
            endless || ends.iter().any(|end| *end > 0),
            "{protocol} {ends:?}"
        );
        lease.release().await.unwrap();
    }
}
