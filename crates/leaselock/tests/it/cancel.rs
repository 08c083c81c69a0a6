//! Futures that are dropped, at every point at which they can be. Nothing that they did may stay behind.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use leaselock::{Client, Lease};
use testkit::{Server, clock};
use tokio::sync::Notify;

use crate::support::{LONG, PATIENCE, eventually, leftovers, millis, soon};

/// When the drop comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drops {
    /// Right after the last poll: what it wanted to send is not on its way yet.
    AtOnce,
    /// When what it sent has arrived, and the answer may be there.
    Later,
}

/// Polls at most so many times, then drops the future.
async fn polled<T>(times: usize, drops: Drops, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    let ended = std::future::poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            // The last poll is not followed by a wait for something to happen.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    if ended.is_none() && drops == Drops::Later {
        // Whether the request has arrived cannot be seen from here; on an idle machine it has.
        tokio::time::sleep(millis(5)).await;
    }
    ended
}

/// More polls than any of these futures needs.
const POLLS_MAX: usize = 200;

async fn nothing_is_left(server: &Server, client: &Client) {
    let last_drop = clock::now();
    eventually("nothing is left of what was dropped", async || {
        leftovers(server).is_empty()
    })
    .await;
    println!("clean {:?} after the last drop", clock::now() - last_drop);
    assert!(clock::now() - last_drop < PATIENCE, "long before an expiry");
    for name in ["job", "job-1"] {
        let lease = client.mutex(name).try_acquire().await.unwrap().unwrap();
        lease.release().await.unwrap();
    }
}

/// Drops `work` after every number of polls until it ends by itself; each time under a name of its own.
async fn dropped_everywhere<F: Future>(server: &Server, work: impl AsyncFn(String) -> F) {
    for drops in [Drops::AtOnce, Drops::Later] {
        let mut times = 0;
        loop {
            let future = work(format!("job-{times}")).await;
            if polled(times, drops, future).await.is_some() {
                break;
            }
            times += 1;
            assert!(times < POLLS_MAX, "an end is in sight");
        }
        let client = Client::open(&server.url()).unwrap();
        nothing_is_left(server, &client).await;
    }
}

fn long(client: &Client, name: &str) -> impl Future<Output = Lease> + use<> {
    let mutex = client.mutex(name).ttl(LONG);
    async move { mutex.acquire().await.unwrap() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_at_any_await_point_leaves_nothing() {
    let server = Server::start();
    let cold = async |name: String| {
        let client = Client::open(&server.url()).unwrap();
        async move { drop(long(&client, &name).await) }
    };
    dropped_everywhere(&server, cold).await;
    let client = Client::open(&server.url()).unwrap();
    let warm = async |name: String| {
        let lease = long(&client, &name);
        async move { drop(lease.await) }
    };
    dropped_everywhere(&server, warm).await;
}

/// The holder lets go while the waiter is being dropped, so that some are dropped with the grant on its way to them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_dropped_at_any_await_point_passes_its_grant_on() {
    let server = Server::start();
    let (one, two) = (
        Client::open(&server.url()).unwrap(),
        Client::open(&server.url()).unwrap(),
    );
    let work = async |name: String| {
        let held = long(&one, &name).await;
        let waiting = long(&two, &name);
        async move {
            let release = async {
                tokio::task::yield_now().await;
                held.release().await.unwrap();
            };
            drop(tokio::join!(waiting, release));
        }
    };
    dropped_everywhere(&server, work).await;
}

/// Of two names, the larger is held and let go meanwhile: some are dropped before the smaller is held, some between the
/// two, some while they release both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_for_several_names_dropped_at_any_await_point_leaves_none() {
    let server = Server::start();
    let (one, two) = (
        Client::open(&server.url()).unwrap(),
        Client::open(&server.url()).unwrap(),
    );
    let work = async |name: String| {
        let both = two.mutex(format!("{name}-b")).ttl(LONG);
        let both = both.along_with([format!("{name}-a")]);
        async move { both.acquire().await.unwrap().release().await.unwrap() }
    };
    dropped_everywhere(&server, work).await;
    let work = async |name: String| {
        let larger = format!("{name}-b");
        let held = long(&one, &larger).await;
        let both = two.mutex(larger).ttl(LONG);
        let both = both.along_with([format!("{name}-a")]);
        async move {
            let release = async {
                tokio::task::yield_now().await;
                held.release().await.unwrap();
            };
            let acquire = async { both.acquire().await.unwrap().release().await.unwrap() };
            tokio::join!(acquire, release);
        }
    };
    dropped_everywhere(&server, work).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_dropped_at_any_await_point_goes_on_in_the_background() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let work = async |name: String| {
        let lease = long(&client, &name).await;
        async move { lease.release().await.unwrap() }
    };
    dropped_everywhere(&server, work).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detach_dropped_at_any_await_point_releases_the_lease() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    for drops in [Drops::AtOnce, Drops::Later] {
        for times in 0..POLLS_MAX {
            let lease = long(&client, &format!("job-{times}")).await;
            if let Some(handle) = polled(times, drops, lease.detach()).await {
                client.attach(handle.unwrap()).release().await.unwrap();
                break;
            }
        }
        nothing_is_left(&server, &client).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extend_dropped_at_any_await_point_leaves_the_lease_as_it_was_or_longer() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    for drops in [Drops::AtOnce, Drops::Later] {
        for times in 0..POLLS_MAX {
            let lease = long(&client, "job").await;
            let before = lease.deadline();
            let ended = polled(times, drops, lease.extend(2 * LONG)).await;
            assert!(lease.is_held() && lease.deadline() >= before);
            lease.extend(LONG).await.unwrap();
            lease.release().await.unwrap();
            if let Some(outcome) = ended {
                outcome.unwrap();
                break;
            }
        }
        nothing_is_left(&server, &client).await;
    }
}

/// Some are dropped with the grant on its way to them. What was dropped reads no more, and does not write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_dropped_at_any_await_point_leaves_nothing() {
    let server = Server::start();
    let (one, two) = (
        Client::open(&server.url()).unwrap(),
        Client::open(&server.url()).unwrap(),
    );
    for has_other in [false, true] {
        let work = async |name: String| {
            let lock = one.rwlock(&name).ttl(LONG);
            let up = lock.upgradable_read().await.unwrap();
            let other = two.rwlock(&name).ttl(LONG);
            let other = match has_other {
                true => Some(other.read().await.unwrap()),
                false => None,
            };
            async move {
                let release = async {
                    tokio::task::yield_now().await;
                    if let Some(other) = other {
                        other.release().await.unwrap();
                    }
                };
                let (writing, ()) = tokio::join!(up.upgrade(), release);
                writing.unwrap().release().await.unwrap();
            }
        };
        dropped_everywhere(&server, work).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_dropped_at_any_await_point_leaves_nothing() {
    let server = Server::start();
    let client = Client::open(&server.url()).unwrap();
    let work = async |name: String| {
        let lock = client.rwlock(&name).ttl(LONG);
        let writing = lock.write().await.unwrap();
        async move {
            let up = lock.downgrade_to_upgradable(writing).await.unwrap();
            up.downgrade().await.unwrap().release().await.unwrap();
        }
    };
    dropped_everywhere(&server, work).await;
}

/// On two names, so that some are in the queue, some are granted, and some hold for a moment when they are dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_acquires_dropped_at_random_points_leave_nothing() {
    let server = Server::start();
    let clients: Vec<Client> = (0..4)
        .map(|_| Client::open(&server.url()).unwrap())
        .collect();
    let tasks: Vec<_> = (0..1000_u64)
        .map(|number| {
            let client = clients[usize::try_from(number % 4).unwrap()].clone();
            tokio::spawn(async move {
                let mut random = [0; 2];
                getrandom::fill(&mut random).unwrap();
                let micros = u64::from(u16::from_le_bytes(random)) * 8; // up to half a second
                let limit = std::time::Duration::from_micros(micros);
                let name = if number % 2 == 0 { "job" } else { "job-1" };
                tokio::time::timeout(limit, async {
                    let _lease = long(&client, name).await;
                    tokio::task::yield_now().await;
                })
                .await
                .is_ok()
            })
        })
        .collect();
    let mut served = 0;
    for task in tasks {
        served += usize::from(soon(task).await.unwrap());
    }
    println!("{served} of 1000 were served");
    assert!(
        served > 0 && served < 1000,
        "{served}: both ends were to be tried"
    );
    nothing_is_left(&server, &clients[0]).await;
}

/// They share one entry, with which a task of the client waits. No request of theirs is left that could be undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_a_client_waits_for_the_entry_that_its_dropped_waiters_shared() {
    let server = Server::start();
    let holder = Client::open(&server.url()).unwrap();
    let _lease = long(&holder, "job").await;
    for round in 0..10 {
        let client = Client::open(&server.url()).unwrap();
        let _other = long(&client, &format!("other-{round}")).await; // closing sends nothing for the client's record
        let mut waiters = Vec::new();
        for _ in 0..2 {
            let told = Arc::new(Notify::new());
            let tells = Arc::clone(&told);
            let mutex = client.mutex("job").ttl(LONG);
            let mutex = mutex.on_wait(move |_| tells.notify_one());
            waiters.push(tokio::spawn(async move { mutex.acquire().await }));
            soon(told.notified()).await;
        }
        for waiter in waiters {
            waiter.abort();
            assert!(waiter.await.is_err());
        }
        let closed = client.close().await;
        let queued = server.cli(&["ZCARD", "{job}:ll:queue"]).integer();
        assert_eq!(queued, Some(0), "{round}: {closed:?}");
        assert_eq!((closed.released, closed.unconfirmed), (1, 0), "{round}");
    }
}
